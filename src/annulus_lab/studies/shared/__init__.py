"""Code that studies share.

study           a study's own params.yaml over the root's
settings_files  its resolved settings as files, which its other stages depend on
rows_params     parameters of rows beside the papers' tables
grid            parameters of parts: series at each value of a swept setting
runs            training runs of one stage, several at a time
measured        results of a run
store           results by the key of all their inputs
outcomes        results over seeds and as rows of tables
information     shared information of two views, estimated with a run's encoder
closeness       weight of the closest rows in the softmax of a run's encoder
segments        segmentation of frozen features
oracle_share    a row's share of the gain by an oracle's negatives
papers          a table of runs beside the papers' numbers
"""
