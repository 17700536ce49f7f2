"""Comparison of two variants of the main line: effect of the change, with 95 % intervals over the seeds.

sides       content of a git revision, a DVC experiment or the workspace
comparison  differences and verdicts
text        the table for a terminal and as Markdown
escaped     text from elsewhere inside Markdown
record      the table as a metrics file
figure      the learning curves of both sides
curve       the learning curve in the terminal
picture     the annulus around one image of the workspace, as an SVG
outputs     folders of a side, from DVC's cache
neighbours  nearest images by both sides
runs_table  all runs side by side
all_runs    all runs, also of the studies, as CSV or Parquet
"""

from annulus.errors import require

require(__name__, None, ["matplotlib", "yaml", "scipy"])
