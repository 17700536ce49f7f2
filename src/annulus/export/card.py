"""Model card of an encoder: data, settings, seeds, intervals, licence; an unknown fact is `not stated`."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from annulus.encoders.config import EncoderConfig
from annulus.encoders.rebuilt import ModuleConfig
from annulus.export.licences import hub_licence

UNKNOWN = "not stated"


@dataclass(frozen=True)
class About:
    """Facts about an encoder beside its configuration; an unknown fact is empty.

    `data` holds facts by name, `setting` the parameters by dotted key. `results` holds for each number the mean, half
    of the 95 % interval, and the value of this encoder's seed.
    """

    dataset: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)
    setting: Mapping[str, Any] = field(default_factory=dict)
    seed: int | None = None
    seeds: tuple[int, ...] = ()
    results: Mapping[str, tuple[float, float | None, float | None]] = field(default_factory=dict)
    licence: str = ""  # of the weights, by the Hub's name


def model_card(config: EncoderConfig | ModuleConfig, about: About) -> str:
    """The text of README.md: YAML for huggingface_hub, then Markdown.

    Raises:
        InputError: for a licence that the Hub does not have.

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
    licence = hub_licence(about.licence)
    if licence:
        front.append(f"license: {json.dumps(licence)}")
    front += ["tags:", "- contrastive-learning", "- image-feature-extraction"]
    name, network = _network(config)
    seeds = ", ".join(map(str, about.seeds)) or UNKNOWN
    seed = UNKNOWN if about.seed is None else about.seed
    parts = [
        "\n".join(["---", *front, "---"]),
        f"# {name}, pretrained without labels by contrast",
        network,
        "## Use",
        _use(config),
        "## Data",
        _table({"data set": about.dataset or UNKNOWN, **{name.replace("_", " "): v for name, v in about.data.items()}}),
        "## Setting",
        _table({f"`{key}`": f"`{value}`" for key, value in about.setting.items()}) if about.setting else UNKNOWN,
        "## Seeds",
        f"This encoder: {seed}. Encoders that the intervals are over: {seeds}.",
        "## Results",
        _results(about),
        "## Licence",
        f"Of the weights: {licence or UNKNOWN}. Of the images: {UNKNOWN}. annulus, the code: MIT.",
    ]
    return "\n\n".join(parts) + "\n"


def _network(config: EncoderConfig | ModuleConfig) -> tuple[str, str]:
    """The network's name, and a sentence about it."""
    if isinstance(config, EncoderConfig):
        shape = f"embeddings of {config.embedding_dim} numbers on the unit sphere; features before the head: `pooled`"
        parts = f"Stem {config.stem}, head {config.head}, views of {config.view_size} pixels, {shape}."
        return config.architecture, parts
    dim = "" if config.dim is None else f" of {config.dim} numbers"
    return config.network, f"Embeddings{dim} on the unit sphere; features before the head: `pooled`."


def _use(config: EncoderConfig | ModuleConfig) -> str:
    """Code that loads the encoder and embeds images."""
    inside = isinstance(config, EncoderConfig) or config.preprocessing is not None
    images = "RGB in [0, 1]; the normalisation is inside" if inside else "normalised as its network needs them"
    needs = f"  # executes {config.network}" if isinstance(config, ModuleConfig) and config.library is None else ""
    call = "load_encoder(FOLDER, trust=True)" if needs else "load_encoder(FOLDER)"
    return (
        f"```python\nimport annulus\n\nencoder = annulus.{call}{needs or '  # this folder, downloaded'}\n"
        f"embeddings = encoder(images)  # (batch, 3, height, width), {images}\n```"
    )


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
