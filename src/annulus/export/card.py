"""The model card of an encoder: data, setting, seeds, intervals, licence; what is not known is `not stated`."""

import csv
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from annulus.encoders.config import EncoderConfig
from annulus.errors import InputError

UNKNOWN = "not stated"


@dataclass(frozen=True)
class About:
    """Facts about an encoder beside its configuration, each empty where it is not known.

    `data` holds facts by name, `setting` the parameters by dotted key, `results` the mean, the half of the 95 %
    interval and the value of this encoder's seed of each number.
    """

    dataset: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)
    setting: Mapping[str, Any] = field(default_factory=dict)
    seed: int | None = None
    seeds: tuple[int, ...] = ()
    results: Mapping[str, tuple[float, float | None, float | None]] = field(default_factory=dict)
    licence: str = ""  # of the weights, as an identifier of SPDX


def about_main_line(encoder: Path, licence: str = "") -> About:
    """Facts of a checkout about an encoder that its main line has trained: data/main/encoders/SEED.safetensors.

    Nothing where the file is not in a checkout, or where the metrics were made with other parameters or code, or from
    other encoders.

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
    from annulus.config.params import SECTION_OF
    from annulus.pipeline.revision import workspace  # these need packages that the library alone has not
    from annulus.pipeline.stale import flat, is_locked, read_yaml, stale

    files = workspace(root)
    # Before the sections are looked up: only the parameters of a run are known to have them.
    if stale(files) or not is_locked(root, "pretrain", "data/main/encoders"):
        return About(seed=int(seed), licence=licence)
    params = read_yaml(files, "params.yaml")
    chosen = {key: value for key, value in params.items() if key not in SECTION_OF.values()}
    for selector, section in SECTION_OF.items():
        chosen[section] = {params[selector]: params[section][params[selector]]}
    prepared, table = (_file(root / "metrics" / name) for name in ("main/prepare.json", "summary.csv"))
    return About(
        dataset=params["dataset"],
        data={name: value for name, value in json.loads(prepared).items() if name in DATA},
        # Where the images lay may name a person, and the card is for all to read.
        setting={key: value for key, value in flat(chosen).items() if key != "seeds" and not key.endswith(".root")},
        seed=int(seed),
        seeds=tuple(params["seeds"]),
        results={row["number"]: _result(row, seed) for row in csv.DictReader(io.StringIO(table))},
        licence=licence,
    )


DATA = ("train_images", "validation_images", "test_images", "classes", "image_size", "digest")


def _file(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path} is missing ({error.strerror}); run `dvc repro`") from error


def _result(row: Mapping[str, str], seed: str) -> tuple[float, float | None, float | None]:
    numbers = [row["mean"], row["interval"], row.get(f"seed{seed}", "")]
    mean, half, own = (float(text) if text else None for text in numbers)
    return mean, half, own


def model_card(config: EncoderConfig, about: About) -> str:
    """The text of README.md: YAML that huggingface_hub reads, then Markdown.

    >>> from annulus.export.card import About, model_card
    >>> config = annulus.EncoderConfig("convnet", "cifar", "linear", 16, 32, None, mean=(0.5,) * 3, std=(0.25,) * 3)
    >>> print(model_card(config, About()).split("## ")[0])  # doctest: +ELLIPSIS
    ---
    library_name: annulus
    pipeline_tag: image-feature-extraction
    tags:
    - contrastive-learning
    - image-feature-extraction
    ---
    <BLANKLINE>
    # convnet, pretrained without labels by contrast
    ...
    """
    front = ["library_name: annulus", "pipeline_tag: image-feature-extraction"]
    if about.licence:
        front.append(f"license: {json.dumps(about.licence)}")
    front += ["tags:", "- contrastive-learning", "- image-feature-extraction"]
    shape = f"embeddings of {config.embedding_dim} numbers on the unit sphere; features before the head: `pooled`"
    seeds = ", ".join(map(str, about.seeds)) or UNKNOWN
    seed = UNKNOWN if about.seed is None else about.seed
    parts = [
        "\n".join(["---", *front, "---"]),
        f"# {config.architecture}, pretrained without labels by contrast",
        f"Stem {config.stem}, head {config.head}, views of {config.view_size} pixels, {shape}.",
        "## Use",
        "```python\nimport annulus\n\nencoder = annulus.load_encoder(FOLDER)  # this folder, downloaded\n"
        "embeddings = encoder(images)  # (batch, 3, height, width), RGB in [0, 1]; the normalisation is inside\n```",
        "## Data",
        _table({"data set": about.dataset or UNKNOWN, **{name.replace("_", " "): v for name, v in about.data.items()}}),
        "## Setting",
        _table({f"`{key}`": f"`{value}`" for key, value in about.setting.items()}) if about.setting else UNKNOWN,
        "## Seeds",
        f"This encoder: {seed}. Encoders that the intervals are over: {seeds}.",
        "## Results",
        _results(about),
        "## Licence",
        f"Of the weights: {about.licence or UNKNOWN}. Of the images: {UNKNOWN}. annulus, the code: MIT.",
    ]
    return "\n\n".join(parts) + "\n"


def _table(rows: Mapping[str, Any]) -> str:
    return "\n".join(["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows.items())])


def _results(about: About) -> str:
    if not about.results:
        return UNKNOWN
    lines = ["| number | mean over seeds | this encoder |", "|---|---|---|"]
    for name, (mean, half, own) in about.results.items():
        interval = "" if half is None else f" ± {half:g}"
        lines.append(f"| `{name}` | {mean:g}{interval} | {'' if own is None else f'{own:g}'} |")
    return "\n".join([*lines, "", "±: half of a 95 % interval over seeds, of accuracies over test images too."])
