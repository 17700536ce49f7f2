"""The studies, a folder each, and their shared code; only stages, report, sweep, site and the commands import them.

study           a study's own params.yaml over the root's
settings_files  its resolved settings as files, which its other stages depend on
tables          parameters of rows beside the papers' tables
grid            parameters of parts: series at each value of a swept setting
runs            training runs of one stage, several at a time
measured        results of a run
store           results kept by all that they depend on
outcomes        results over seeds and as rows of tables
information     shared information of two views, estimated with a run's encoder
closeness       weight of the closest rows in the softmax of a run's encoder
segments        segmentation of frozen features
papers          a table of runs beside the papers' numbers
presets         rows of the papers' tables as settings of the main line
"""
