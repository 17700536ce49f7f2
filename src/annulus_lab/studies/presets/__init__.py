"""Rows of the papers' tables as settings for the main line: one `-S` line each, and its hours.

preset    a row of a table, its settings, the line that selects them
hours     its time, from speeds that metrics/ holds
listing   the command `annulus presets`
line      the command `annulus preset`
"""

from annulus.errors import require

require(__name__, None, ["pydantic", "yaml"])
