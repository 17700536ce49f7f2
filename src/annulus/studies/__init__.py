"""The studies, a folder each, and what they share; nothing outside stages, sweep and report imports them.

study           a study's own params.yaml over the root's
settings_files  its resolved settings as files, which its other stages depend on
tables          parameters of rows beside the papers' tables
grid            parameters of parts: series at each value of a swept setting
runs            training runs of one stage, several at a time
measured        what a run measured
store           the same, kept under all that its numbers depend on
outcomes        over seeds and as rows of tables
information     shared information of two views, as far as a run's encoder tells
segments        segmentation of frozen features
papers          a table of runs beside the papers' numbers
"""
