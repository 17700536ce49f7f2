"""Algorithms in words: a description of names such as RING-Lab+s-neigh+anneal, from the settings of the row."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from annulus.errors import InputError
from annulus_lab.report.papers.setting import study_params
from annulus_lab.studies.shared.rows_params import RowsParams, row_at
from annulus_lab.studies.shared.study import OwnStudy

ALGORITHMS = "algorithms"  # other studies list its rows and tables by name

KEYS = {
    "ir": "keys from a memory bank",
    "pirl": "keys from a memory bank, jigsaw branch",
    "moco": "keys from a queue",
    "moco-jigsaw": "keys from a queue, jigsaw branch",
    "simclr": "keys from the batch",
    "simo": "keys from the batch, momentum encoder",
}
NEGATIVES = {
    "uniform": "uniform negatives",
    "ball": "negatives from the closest rows",
    "ring": "negatives from close rows without the closest",
    "cave": "negatives from the closest rows outside the query's cluster",
}
POSITIVES = {"s": "closest rows as further positives", "k": "rows of the query's cluster as further positives"}
BOUNDS = {"infonce": "InfoNCE", "binary-nce": "binary NCE", "la": "local aggregation", "cpc": "CPC", "mlcpc": "ML-CPC"}
SPLITS = {"lab": "L and ab", "frequency": "low and high frequencies"}
STILL = 1e-6  # a smaller learning rate leaves the weights at their initial values


def algorithms_in_words(root: Path, study: str) -> dict[tuple[str, str], str]:
    """Returns a line of words for each method of a study's tables, by table and method.

    The words come from the study's params.yaml. The result is empty if the study's numbers are of another params.yaml.
    """
    content = study_params(root / f"stages/{study}/params.yaml")
    listing = ALGORITHMS if isinstance(content.get("rows"), list) else study
    if not content or not study_params(root / f"stages/{listing}/params.yaml"):
        return {}
    try:
        params = OwnStudy(root / f"stages/{listing}/params.yaml").read(RowsParams)
    except InputError:  # the study's own settings stage refuses it
        return {}
    return {
        (title, name): in_words(params.defaults | row_at(str(content["scale"]), params.rows[method.row]))
        for title, table in params.tables.items()
        for name, method in table.methods.items()
    }


def in_words(settings: Mapping[str, Any]) -> str:
    """Returns a run's keys, networks, negatives, positives and bound as one line, from its full keys and selectors."""
    method, head = settings.get("method"), settings.get(f"methods.{settings.get('method')}.head")
    split = settings.get("split", "none")
    parts = [
        "not trained" if settings.get("scales.${scale}.pretrain.learning_rate", 1.0) < STILL else _word(KEYS, method),
        "" if split == "none" else f"two networks, on {SPLITS.get(str(split), f'the channels of {split}')}",
        "MLP head" if head == "mlp" else "",
    ]
    if parts[0] != "not trained":
        parts += [_negatives(settings), _positives(settings), _bound(settings)]
    return "; ".join(filter(None, parts))


def _word(words: Mapping[str, str], choice: object) -> str:
    return "" if choice is None else words.get(str(choice), str(choice))


def _negatives(settings: Mapping[str, Any]) -> str:
    sampler = settings.get("sampler")
    inside = settings.get(f"samplers.{sampler}.keep") == "inside"
    words = "negatives from the query's cluster" if inside else _word(NEGATIVES, sampler)
    return words if settings.get("anneal", "none") == "none" else f"{words}, narrowing during training"


def _positives(settings: Mapping[str, Any]) -> str:
    kind = settings.get("neighbours", "none")
    if kind == "none":
        return ""
    own = settings.get(f"neighbour_sets.{kind}")
    at_once = isinstance(own, dict) and own.get("start") == 0
    return f"{_word(POSITIVES, kind)}, {'from the first step' if at_once else 'later in training'}"


def _bound(settings: Mapping[str, Any]) -> str:
    bound = settings.get("bound")
    start, end, margin = (settings.get(f"bounds.{bound}.{name}") for name in ("alpha_start", "alpha_end", "eqco_alpha"))
    alpha = "" if start is None else f", alpha {start}" if start == end else f", alpha from {start} to {end}"
    return f"{_word(BOUNDS, bound)}{alpha}" + ("" if margin is None else f", margin for {margin:g} negatives")
