"""The papers' numbers and those measured here, side by side.

metrics        the metrics files, read strictly; the command that makes each
setting        data set, scale, epochs, seeds and machine of a file's numbers
algorithms     names of algorithms in words
published      the papers' own tables and figures (published.yaml)
comparison     the papers' tables with our numbers (measured.yaml: the files of ours)
tables         tables before they become HTML or Markdown
"""
