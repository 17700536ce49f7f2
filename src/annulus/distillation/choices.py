"""The study's lists: which pairs, which teachers, and what each loss sets."""

from collections.abc import Sequence
from typing import Any

from annulus.config.file import checked
from annulus.config.params import nearest
from annulus.config.study import OwnStudy
from annulus.distillation.params import ContrastParams, PairParams, WeightParams
from annulus.errors import InputError


def pairs_of(study: OwnStudy) -> list[PairParams]:
    """The pairs that run, and a check of those of the paper.

    Raises:
        InputError: for an unknown network, with the nearest known one, or two pairs of one name.
    """
    for place, pair in enumerate(study.content["thirteen"]):
        checked(pair, f"{study.path}: thirteen.{place}", PairParams)
    pairs = [
        checked(pair, f"{study.path}: pairs.{place}", PairParams) for place, pair in enumerate(study.content["pairs"])
    ]
    names = [pair.name for pair in pairs]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"{study.path}: pairs: {name} stands twice; give each pair a name of its own")
    return pairs


def teachers_of(study: OwnStudy, pairs: Sequence[PairParams]) -> list[str]:
    """The teachers that are trained.

    Raises:
        InputError: when a pair's teacher is not among them.
    """
    teachers = study.content["teachers"]
    for pair in pairs:
        if pair.teacher not in teachers:
            raise InputError(
                f"{study.path}: pairs: {pair.name} needs the teacher {pair.teacher}, which `teachers` does not name"
                f"{nearest(pair.teacher, teachers)}; add it there"
            )
    return teachers


def loss_settings(study: OwnStudy, loss: str) -> dict[str, Any]:
    """Weights and contrast of a loss: the study's, then its row's.

    Raises:
        InputError: for an unknown loss, with the nearest known one, or a value that its model refuses.
    """
    row, found = study.row("rows", loss), {}
    models = {"weights": WeightParams, "contrast": ContrastParams}
    if unknown := sorted(set(row) - set(models)):
        raise InputError(f"{study.path}: rows.{loss}: {unknown[0]!r} is none of {', '.join(models)}")
    for name, model in models.items():
        # The section is checked as a whole first, so that a fault of its own is named there.
        section = study.section(name, model).model_dump(mode="json", by_alias=True)
        merged = checked(section | row.get(name, {}), f"{study.path}: rows.{loss}.{name}", model)
        found[name] = merged.model_dump(mode="json", by_alias=True)
    return found
