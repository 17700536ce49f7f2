"""Rows in pieces of some minutes, on a machine without DVC and network: `python stages cifar10/pieces ARCHIVE OUT`.

Call it again until all runs are done: each goes on where it stood. What is done is in OUT as in metrics/cifar10.
"""

import argparse
import subprocess
import sys
import tarfile
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import yaml

STAGES = Path(__file__).resolve().parents[1]
WORK, IMAGES = Path("data/cifar10_pieces"), Path("data/cifar10_images")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("archive", type=Path, help="a tar of train/CLASS/*.jpg and test/CLASS/*.jpg")
    parser.add_argument("out", type=Path)
    parser.add_argument("runs", nargs="*", default=["IR-nce/0", "MoCo/0", "RING+anneal/0", "MoCoRing/0"])
    parser.add_argument("--seconds", type=float, default=480, help="of this call (default: 480)")
    parser.add_argument("--set", type=yaml.safe_load, default={}, help="'{scale: cpu}': other than scale gpu")
    arguments = parser.parse_args()
    until = time.monotonic() + arguments.seconds
    if not IMAGES.exists():
        try:
            with tarfile.open(arguments.archive) as archive:
                archive.extractall(IMAGES.with_suffix(".part"), filter="data")
        except (OSError, tarfile.TarError) as error:
            parser.error(f"{arguments.archive} is no tar that can be unpacked: {error}")
        IMAGES.with_suffix(".part").rename(IMAGES)
    study = yaml.safe_load((STAGES / "cifar10/params.yaml").read_text()) | {"scale": "gpu"}
    WORK.with_suffix(".yaml").write_text(yaml.safe_dump(study | arguments.set, sort_keys=False))
    run("cifar10/settings", params="params.yaml", study=WORK.with_suffix(".yaml"), settings=WORK / "settings")
    if not (WORK / "images/test.safetensors").exists():
        run("study_images", settings=WORK / "settings/images.json", images=WORK / "images")
    with ThreadPoolExecutor(2) as pool:  # one run leaves a GPU waiting
        print("\n".join(pool.map(partial(piece, until, arguments.out), arguments.runs)))


def piece(until: float, out: Path, name: str) -> str:
    results = {"metrics": out / f"rows/{name}.json", "right": out / f"right/{name}.json"}
    inputs = {"settings": WORK / f"settings/rows/{name}.json", "images": WORK / "images"}
    try:
        if not results["metrics"].exists():
            run("algorithms/train", until - time.monotonic(), **inputs, **results)
        return f"{name}: done"
    except subprocess.TimeoutExpired:
        return f"{name}: goes on with the next call"


def run(stage: str, seconds: float | None = None, **paths: object) -> None:
    words = [f"--{name}={path}" for name, path in paths.items()]
    subprocess.run([sys.executable, str(STAGES), stage, *words], check=True, timeout=seconds)


if __name__ == "__main__":
    main()
