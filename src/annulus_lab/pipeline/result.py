"""Table of the main line's numbers, with the commands to type next: `python -m annulus_lab.pipeline.result`.

The stage `summary` prints it too, for `dvc exp run`. `make repro` prints it last, also when DVC runs nothing. It sets
ANNULUS_RESULT=last, and the stage then prints no table. The module does not import torch, so the prompt comes at once.
"""

import csv
import os
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

import yaml

WITHOUT_CLASSES = """

the images have no class, so there is no accuracy.
crop_retrieval_percent is the share of crops of test images whose nearest neighbour is another crop of the same image;
an encoder that has learned something is above pixels and colour. Pictures: metrics/main/neighbours.png, map.svg"""

NEXT = """

next, in a shell with `. .venv/bin/activate`:
"""

_Yaml = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # a lock has hundreds of lines


def result_text(params: Mapping[str, Any], rows: Sequence[Mapping[str, str]]) -> str:
    """Table with the variant on the left and its numbers with intervals on the right, and commands below."""
    left = [f"{name:<12}{choice}" for name, choice in params.items()]
    width = max(map(len, left)) + 4
    longest = max(24, *(len(row["number"]) + 1 for row in rows))
    right = [
        f"{row['number']:<{longest}}{row['mean']:>9}" + f" ± {row['interval']}" * (row["interval"] != "")
        for row in rows
    ]
    if any(row["interval"] != "" for row in rows):
        right += ["", "±: 95 % interval over seeds, of accuracies also over test images"]
    else:
        right += ["", "one seed: no interval; more seeds: -S 'seeds=[0,1,2]'"]
    table = "\n".join(f"{a:<{width}}{b}".rstrip() for a, b in zip_longest(left, right, fillvalue=""))
    note = "" if any(row["number"] == "knn_top1_percent" for row in rows) else WITHOUT_CLASSES
    other = "ring" if params["sampler"] == "cave" else "cave"
    commands = [f"dvc exp run -S sampler={other}", "make compare BASE=HEAD"]
    if "DVC_EXP_NAME" in os.environ:
        commands.reverse()  # the experiment beside HEAD; then another one beside it
        commands.append(f"make compare BASE={os.environ['DVC_EXP_NAME']}")
    return table + note + NEXT + "\n".join(commands)


def main() -> None:
    """Prints the table of the present numbers, with the parameters that made them."""
    try:
        names = yaml.load(Path("dvc.yaml").read_bytes(), _Yaml)["stages"]["summary"]["params"]  # a lock sorts them
        params = yaml.load(Path("dvc.lock").read_bytes(), _Yaml)["stages"]["summary"]["params"]["params.yaml"]
        with Path("metrics/summary.csv").open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
    except (OSError, LookupError) as error:
        raise SystemExit(f"there are no numbers yet ({type(error).__name__}: {error}); run `dvc repro`") from None
    print(f"\n{result_text({name: params[name] for name in names}, rows)}")


if __name__ == "__main__":
    main()
