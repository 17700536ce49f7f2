"""Which variant a stage's numbers belong to: the setting that `dvc repro` or `dvc exp run` computes, stage by stage.

MLflow shows one run for each variant, with its stages and seeds below it. Stages are sent one by one, late or twice,
and DVC leaves out what has not changed; so a variant is known by what each of its stages can tell: the experiment's
name, the commit, and the values of params.yaml that the selectors choose. A study's row is a variant by itself.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel

from annulus.config import SECTION_OF, AllParams
from annulus.config.file import checked, load_params
from annulus.config.resolved import IMAGES, RUN, SELECTORS
from annulus.errors import InputError

MOST_SHOWN = 4  # differences in a name


@dataclass(frozen=True)
class Variant:
    """A variant by its id and its name; `params` are dotted names and text, `headline` the stage that sums it up."""

    id: str
    name: str
    params: dict[str, str]
    headline: str


def variant(
    params: Mapping[str, Any], stage: str, experiment: str | None, commit: str | None, committed: str | None
) -> Variant:
    """The variant of a stage that was given `params`; `committed` is the text of the commit's params.yaml."""
    origin = experiment or (commit or "")[:7]
    if "settings" in params:  # of a study's row
        found, headline = flat(params), shortened(stage)
        identity, words = [stage, found], [origin, headline]
    else:
        found, headline = _chosen(load_params(Path("params.yaml"))), "summary"
        identity, words = [found], [origin, *_differences(found, committed)]
    text = json.dumps([experiment, commit, *identity], sort_keys=True)
    name = " ".join(filter(None, words)) or headline
    return Variant(hashlib.sha256(text.encode()).hexdigest()[:32], name, found, headline)


def shortened(stage: str) -> str:
    """A stage as a page names it: `stages/algorithms/dvc.yaml:train@RING` is algorithms/train@RING."""
    return re.sub(r".*?(\w+)/dvc\.yaml:", r"\1/", stage)


def flat(params: Mapping[str, Any]) -> dict[str, str]:
    """Dotted names and text: `samplers.${sampler}` with a RingParams gives samplers.inner, samplers.outer."""
    found = {}
    for name, value in params.items():
        name = re.sub(r"\.\$\{\w+\}", "", name)  # the same columns whichever section is selected
        if isinstance(value, BaseModel):
            value = value.model_dump(mode="json", by_alias=True)
        if isinstance(value, Mapping):
            found |= {f"{name}.{key}": text for key, text in flat(value).items()}
        else:
            found[name] = value if isinstance(value, str) else json.dumps(value)
    return found


def _chosen(params: AllParams) -> dict[str, str]:
    """What the main line reads: the selectors, and the sections that they choose."""
    return flat({name: params.get(name) for name in [*SELECTORS, *IMAGES, *RUN]})


def _differences(now: Mapping[str, str], committed: str | None) -> list[str]:
    """What differs from the commit, as `-S` takes it. With another sampler, the sampler's own values say no more."""
    try:
        then = _chosen(checked(yaml.safe_load(committed or "{}"), "params.yaml"))
    except (InputError, yaml.YAMLError):  # none, or one that this version does not know
        return []
    changed = [name for name in now if now[name] != then.get(name)]
    told = tuple(f"{SECTION_OF[name]}." for name in changed if name in SECTION_OF)
    shown = [f"{name}={now[name]}" for name in changed if not name.startswith(told)]
    return [*shown[:MOST_SHOWN], "…"] if len(shown) > MOST_SHOWN else shown
