"""Reads params.yaml into the rooms' own settings, and checks it as a whole before any stage works.

    tree         YAML as keys and values
    sections     selectors, and the section of each
    params       base class of the file's own sections, and names in it
    all_params   the whole file
    file         the file read and checked; every fault is one sentence
    resolved     the settings of one run: a tree with the chosen sections only

Sections are plain dataclasses in the rooms that use them (`annulus.settings`). Only this room fills them, by pydantic.
All values are in params.yaml: no section takes a default. A stage names its parameters by the same strings as dvc.yaml
(`samplers.${sampler}`), so a test can compare the two.
"""

from annulus.errors import require

require(__name__, None, ["pydantic", "yaml"])
