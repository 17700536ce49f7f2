"""Two variants of the main line, number by number: what changed, and what the seeds can tell of it.

sides     what a git revision, a DVC experiment or the workspace holds
table     differences and verdicts
text      the table for a terminal, and as Markdown
record    the table as a metrics file
figure    the learning curves of both
runs      all runs side by side
"""

from annulus.extras import require

require(__name__, "report", ["matplotlib", "yaml", "scipy"])
