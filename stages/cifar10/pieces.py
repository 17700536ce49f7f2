"""Rows in pieces of minutes, on a machine without DVC, MLflow and network: `python stages cifar10/pieces ARCHIVE OUT`.

pieces.yaml has what runs. Call it again until all runs are done. Each run resumes; a finished run comes from .annulus.
OUT gets a study's metrics, and after the last run its table.
"""

import argparse
import hashlib
import json
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from annulus_lab.config.tree import parse_tree, read_tree

STAGES, WORK, IMAGES = Path(__file__).resolve().parents[1], Path("data/cifar10_pieces"), Path("data/cifar10_images")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("archive", type=Path, help="a tar of train/CLASS/*.jpg and test/CLASS/*.jpg")
    parser.add_argument("out", type=Path)
    parser.add_argument("runs", nargs="*", help="ROW/SEED (default: all of pieces.yaml)")
    parser.add_argument("--seconds", type=float, default=480, help="of this call (default: 480)")
    parser.add_argument("--set", type=lambda text: parse_tree(text, "--set"), default={}, help="as {scale: cpu}")
    arguments, start = parser.parse_args(), time.monotonic()
    if not IMAGES.exists():
        try:
            shutil.unpack_archive(arguments.archive, IMAGES.with_suffix(".part"), "tar", filter="data")
        except (OSError, TypeError) as error:  # before 3.11.4 Python has no such filter
            parser.error(f"cannot unpack {arguments.archive} as a tar (with Python 3.11.4 or newer): {error}")
        IMAGES.with_suffix(".part").rename(IMAGES)
    study, changed, out = read_tree(STAGES / "cifar10/pieces.yaml"), WORK.with_suffix(".yaml"), arguments.out
    study |= arguments.set
    changed.write_text(json.dumps(study), encoding="utf-8")  # JSON is YAML too
    run("cifar10/settings", params="params.yaml", study=changed, settings=WORK / "settings")
    described = WORK / "settings/images.json"
    images = WORK / f"images-{hashlib.sha256(described.read_bytes()).hexdigest()[:16]}"  # other settings, other images
    if not (images / "test.safetensors").exists():
        run("study_images", settings=described, images=images)
    runs = arguments.runs or [f"{row}/{seed}" for seed in study["seeds"] for row in study["rows"]]
    with ThreadPoolExecutor(2) as pool:  # a single run does not fill a GPU
        said = list(pool.map(lambda name: piece(start + arguments.seconds, images, out, name), runs))
    print("\n".join(said))
    if not arguments.runs and all(line.endswith(": done") for line in said):
        paths = {"rows": out / "rows", "right": out / "right", "table": out / "table.csv", "pairs": out / "pairs.csv"}
        run("algorithms/table", settings=WORK / "settings/table.json", **paths)


def piece(until: float, images: Path, out: Path, name: str) -> str:
    results = {"metrics": out / f"rows/{name}.json", "right": out / f"right/{name}.json"}
    inputs = {"settings": WORK / f"settings/rows/{name}.json", "images": images}
    try:
        run("algorithms/train", until - time.monotonic(), **inputs, **results)
    except subprocess.TimeoutExpired:
        return f"{name}: continues with the next call"
    return f"{name}: done"


def run(stage: str, seconds: float | None = None, **paths: object) -> None:
    words = [f"--{name}={path}" for name, path in paths.items()]
    subprocess.run([sys.executable, str(STAGES), stage, *words], check=True, timeout=seconds)


if __name__ == "__main__":
    main()
