"""`annulus export` in a checkout: adds settings and results of a main line's encoder to its model card."""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from annulus.errors import InputError
from annulus.export import command
from annulus.export.card import About
from annulus_lab.config.sections import SELECTOR_SECTIONS
from annulus_lab.pipeline.revision import workspace
from annulus_lab.pipeline.stale import flat, is_locked, read_yaml, stale

DATA = ("train_images", "validation_images", "test_images", "classes", "image_size", "digest")


def main(argv: Sequence[str] | None = None) -> None:
    """Exports an encoder, with the checkout's facts about it on the model card."""
    command.main(argv, about_main_line)


def about_main_line(encoder: Path, licence: str = "") -> About:
    """Facts of a checkout about an encoder that its main line has trained: data/main/encoders/SEED.safetensors.

    Outside of a checkout it returns only the licence. It adds only the seed if the metrics were made with other
    parameters or code, or from other encoders.

    Raises:
        InputError: when a metrics file is damaged.
    """
    encoder = encoder.parent.resolve() / encoder.name  # the file itself may be a link into DVC's cache
    root = encoder.parents[min(3, len(encoder.parents) - 1)]
    seed = encoder.stem
    if encoder != root / "data/main/encoders" / f"{seed}.safetensors" or not seed.isdecimal():
        return About(licence=licence)
    if not (root / "params.yaml").is_file():
        return About(licence=licence)
    files = workspace(root)
    # This check precedes the lookup of sections: only the parameters of a run are sure to have them.
    if stale(files) or not is_locked(root, "pretrain", "data/main/encoders"):
        return About(seed=int(seed), licence=licence)
    params = read_yaml(files, "params.yaml")
    chosen = {key: value for key, value in params.items() if key not in SELECTOR_SECTIONS.values()}
    for selector, section in SELECTOR_SECTIONS.items():
        chosen[section] = {params[selector]: params[section][params[selector]]}
    prepared, table = (_file(root / "metrics" / name) for name in ("main/prepare.json", "summary.csv"))
    return About(
        dataset=params["dataset"],
        data={name: value for name, value in json.loads(prepared).items() if name in DATA},
        # The folder of the images may name a person, and the card is public.
        setting={key: value for key, value in flat(chosen).items() if key != "seeds" and not key.endswith(".root")},
        seed=int(seed),
        seeds=tuple(params["seeds"]),
        results={row["number"]: _result(row, seed) for row in csv.DictReader(io.StringIO(table))},
        licence=licence,
    )


def _file(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path} is missing ({error.strerror}); run `dvc repro`") from error


def _result(row: Mapping[str, str], seed: str) -> tuple[float, float | None, float | None]:
    numbers = [row["mean"], row["interval"], row.get(f"seed{seed}", "")]
    mean, half, own = (float(text) if text else None for text in numbers)
    return mean, half, own
