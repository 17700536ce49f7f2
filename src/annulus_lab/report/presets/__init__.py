"""Rows of the papers' tables as commands, and their hours.

preset    a row of a study's table, its settings, the `-S` line that selects them
tables    every row of the papers' tables, from tables.yaml
h200      time of a pretraining on a GPU, from its timed steps
hours     time of a preset, from speeds in metrics/
overview  state of every table: its rows that ran here, its commands and their hours
listing   the command `annulus presets`
line      the command `annulus preset`
"""
