"""Whole runs in memory, several at a time: what the studies of image encoders are made of.

measured          what a run measured
store             the same, kept under all that its numbers depend on
runs              the runs of one stage
outcomes          over seeds and as rows of tables
information       how much two views share, as far as a run's encoder tells
segments          images with a class for each pixel, that a run's frozen encoder is read out on
transfer          runs that are probed on other images than they train on
encoders          encoders of a variant of the main line
probed            what frozen encoders are worth on a target that they were not trained on
target_tables     rows of targets and variants
detected          average precision of each variant on a task of detection
detection_tables  rows of tasks and variants
fixed             estimates with a trained encoder held fixed
papers            a table of runs beside the papers' numbers
"""
