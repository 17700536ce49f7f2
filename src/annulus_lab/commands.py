"""The laboratory's commands of `annulus`; in a checkout they replace the library's of the same name."""

# The module whose `main` a command calls, and its line of --help.
COMMANDS = {
    "look": ("annulus_lab.look", "own images before any training: counts, sizes, duplicates, a sheet of views"),
    "report": ("annulus_lab.report.command", "one page of all that was measured, beside the papers"),
    "compare": ("annulus_lab.compare.command", "two variants of the main line, number by number"),
    "sweep": ("annulus_lab.sweep.command", "all runs of a study in parallel, here or on a cluster"),
    "presets": ("annulus_lab.report.presets.listing", "each row of the papers' tables that runs here"),
    "preset": ("annulus_lab.report.presets.line", "the `dvc exp run` line of one such row, and its hours"),
    "export": ("annulus_lab.export", "an encoder for the Hugging Face Hub, transformers, timm and others"),
    "picture": ("annulus_lab.compare.picture", "the annulus around one image of the main line, as an SVG"),
    "runs": ("annulus_lab.compare.runs_table", "the workspace, HEAD and DVC's experiments side by side"),
    "curve": ("annulus_lab.compare.curve", "the learning curve of the last run in the terminal"),
    "restore": (
        "annulus_lab.pipeline.restore",
        "after a `dvc exp run`, also a killed one: parameters, locks, metrics as committed",
    ),
}
