"""The papers' numbers and those measured here, side by side.

metrics        the files under metrics/, read strictly
setting        how the numbers of a file were made
published      the papers' own tables and figures (results.yaml)
comparison     their tables with ours beside them (measured.yaml: where ours are)
tables         tables before they are HTML or Markdown
"""
