"""The papers' numbers and those measured here, side by side.

metrics        the metrics files, read strictly; the command that makes each
setting        how the numbers of a file were made
algorithms     names of algorithms in words
published      the papers' own tables and figures (published.yaml)
comparison     their tables with ours beside them (measured.yaml: where ours are)
tables         tables before they are HTML or Markdown
"""
