"""params.yaml read into the rooms' own settings, checked as a whole before any stage works.

    params       base class of the file's own sections, and names in it
    all_params   the whole file
    file         YAML read and checked; every fault is one sentence
    resolved     the settings of one run: a tree with the chosen sections only

Sections are plain dataclasses in the rooms that use them (`annulus.settings`); pydantic fills them here and nowhere
else. Values are only in params.yaml: no section takes a default. A stage names its parameters by the same strings as
dvc.yaml (`samplers.${sampler}`), so a test can compare the two.
"""

from annulus.errors import require

require(__name__, "pipeline", ["pydantic", "yaml"])
