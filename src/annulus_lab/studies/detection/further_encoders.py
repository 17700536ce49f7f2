"""Further encoders: the list in params.yaml, and their folders in other studies."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from annulus.errors import InputError, nearest
from annulus.settings import Section
from annulus_lab.config.params import Name, RowName, kinds
from annulus_lab.studies.shared.study import MainStudy, OwnStudy, Settings
from annulus_lab.studies.transfer.target_tables import SELECTORS, algorithm
from annulus_lab.studies.transfer.transfer_params import TransferParams, Variants

FORM = "transfer"


@dataclass(frozen=True, kw_only=True)
class FurtherEncoder(Section):
    """Encoder of a study of the form `transfer`: one of its variants, or an entry of its `encoders`.

    `bases`: other encoders of the list; the encoder's gains are computed over each.
    """

    name: RowName
    study: Name
    bases: list[RowName]


def further_settings(study: MainStudy, encoders: Sequence[FurtherEncoder]) -> list[Settings]:
    """Name, bases, algorithm, data set, study and seeds of each further encoder.

    Raises:
        InputError: when the study lacks the encoder, the list lacks a base, or two encoders share a name.
    """
    found: dict[str, Settings] = {}
    for place, one in enumerate(encoders):
        where = f"{study.path}: encoders.{place}"
        if one.name in found:
            raise InputError(f"{where}.name: {one.name!r} stands twice; delete one of them")
        path = study.path.parents[1] / one.study / "params.yaml"
        if not path.is_file() or (own := OwnStudy(path)).params.of != FORM:
            raise InputError(
                f"{where}.study: {one.study!r} trains no list of encoders; take transfer, cifar10_transfer or a study "
                "of your own of their form"
            )
        params = own.read(TransferParams)
        known = [*kinds(Variants), *(entry.name for entry in params.encoders)]
        if one.name not in known:
            raise InputError(
                f"{where}.name: {path} has no encoder {one.name!r}{nearest(one.name, known)}; take one of "
                f"{', '.join(known)}, or add it to `encoders` there"
            )
        same = [other.name for other in encoders if other.study == one.study and other.name != one.name]
        for base in one.bases:
            if base not in same:
                raise InputError(
                    f"{where}.bases: {base!r} is none of this list's other encoders of {one.study}"
                    f"{nearest(base, same)}; take some of {', '.join(same) or 'them'}, or add it"
                )
        main_line = {name: params.defaults.get(name, getattr(study.main, name)) for name in SELECTORS}
        root = params.defaults.get("datasets.folder.root") if main_line["dataset"] == "folder" else None
        found[one.name] = {
            "encoder": one.name,
            "algorithm": algorithm(one.name, main_line) if one.name in kinds(Variants) else one.name,
            "study": one.study,
            "bases": one.bases,
            "dataset": Path(root).name if root else main_line["dataset"],  # a folder's name says more
            "seeds": own.params.seeds,
        }
    return list(found.values())


def missing_encoders(encoders: Sequence[Settings]) -> list[str]:
    """Sentence for each study that lacks some of these encoders, with the command that trains them."""
    lacking: dict[str, list[str]] = {}
    for one in encoders:
        folder = Path("stages", one["study"], "data/encoders")
        if not (folder / one["encoder"]).is_dir():
            lacking.setdefault(one["study"], []).append(one["encoder"])
    return [
        f"stages/{study}/data/encoders lacks {', '.join(own)}; "
        f'`make study STUDY={study} ARGS="encoders further_encoders"` makes them'
        for study, own in lacking.items()
    ]
