"""Bits of correctly classified test images, by metric and seed, for intervals and paired differences.

Bits are hexadecimal text: 2,500 characters for 10,000 images, small enough for git.
"""

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from jaxtyping import Bool

from annulus.errors import InputError
from annulus.files.regular import read_text
from annulus.files.results import write_text
from annulus.files.strict import parse_json

Bits = Bool[np.ndarray, "n"]  # one per test image
Right = Mapping[str, Mapping[int, Bits]]  # `top1_percent` -> seed -> bits


def by_number(by_seed: Mapping[int, Mapping[str, Bits]]) -> dict[str, dict[int, Bits]]:
    """Turns seed -> metric -> bits into metric -> seed -> bits."""
    numbers = next(iter(by_seed.values()))
    return {number: {seed: right[number] for seed, right in by_seed.items()} for number in numbers}


def packed(bits: Bits) -> str:
    """Bits as hexadecimal text."""
    return np.packbits(bits).tobytes().hex()


def unpacked(text: str, count: int) -> Bits:
    """The first `count` bits of hexadecimal text.

    Raises:
        ValueError: if the text has another length or is not hexadecimal.
    """
    bits = np.unpackbits(np.frombuffer(bytes.fromhex(text), np.uint8))
    if len(bits) != 8 * -(-count // 8):
        raise ValueError(f"{len(bits)} bits instead of {count}")
    return bits[:count].astype(bool)


def right_text(right: Right) -> str:
    """The file's text."""
    texts = {number: {str(seed): packed(bits) for seed, bits in by_seed.items()} for number, by_seed in right.items()}
    images = {len(bits) for by_seed in right.values() for bits in by_seed.values()}
    (count,) = images or {0}  # all seeds have the same test images; 0 without classes
    return json.dumps({"images": count, "right": texts}, indent=1) + "\n"


def write_right(path: Path, right: Right) -> None:
    """Writes the file, whole or not at all."""
    write_text(path, right_text(right))


def read_right(path: Path) -> dict[str, dict[int, Bits]]:
    """Reads a file of `write_right`.

    Raises:
        InputError: if the file is missing or has another content.
    """
    try:
        return parse_right(read_text(path))
    except (OSError, ValueError) as error:
        raise InputError(f"{path} is missing or not of this version ({error}); run `dvc repro`") from error


def parse_right(text: str) -> dict[str, dict[int, Bits]]:
    """Parses the text of `right_text`.

    Raises:
        ValueError: if the text has another content.
    """
    try:
        content = parse_json(text)
        count = content["images"]
        if isinstance(count, bool) or not isinstance(count, int) or count < bool(content["right"]):
            raise ValueError(f"images is {str(count)[:40]}, expected a count")
        return {
            number: {int(seed): unpacked(bits, count) for seed, bits in by_seed.items()}
            for number, by_seed in content["right"].items()
        }
    except (LookupError, TypeError, AttributeError) as error:
        raise ValueError(f"it does not hold bits by metric and seed: {type(error).__name__} {error}") from error
