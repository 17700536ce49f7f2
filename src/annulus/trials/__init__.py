"""Whole runs in memory, several at a time: what the studies of image encoders are made of.

outcomes   what a run measured, over seeds and as rows of tables
runs       the runs of one stage
fixed      estimates with a trained encoder held fixed
papers     a table of runs beside the papers' numbers
"""
