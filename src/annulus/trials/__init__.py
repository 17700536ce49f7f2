"""Whole runs in memory, several at a time: what the studies of image encoders are made of.

measured   what a run measured
store      the same, kept under all that its numbers depend on
runs       the runs of one stage
outcomes   over seeds and as rows of tables
transfer   runs that are probed on other images than they train on
encoders   encoders of a variant of the main line
probed     what frozen encoders are worth on a target that they were not trained on
target_tables  rows of targets and variants
fixed      estimates with a trained encoder held fixed
papers     a table of runs beside the papers' numbers
"""
