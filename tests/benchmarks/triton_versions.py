"""Machine code of every kernel by each Triton that pyproject.toml allows: `python tests/benchmarks/triton_versions.py`.

Each version is installed into a temporary folder. This needs a package index and no GPU. Writes
metrics/benchmarks/triton_versions.csv.
"""

import csv
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TABLE = ROOT / "metrics/benchmarks/triton_versions.csv"
ARCHITECTURES = (80, 90)  # A100, H100
# Triton versions and the torch versions that bring them, from the least torch of pyproject.toml on.
VERSIONS = {
    "3.5.1": "2.9",
    "3.6.0": "2.10, 2.11",
    "3.7.0": "2.12",
    "3.7.1": "2.13",
    "3.8.0": "2.14",
    "3.9.0": "2.15",
}

# Runs in a process of its own for each version.
SCRIPT = """
import json, sys
from annulus.device.machine_code import machine_code
from annulus.encoders import grouped_kernels
from annulus.negatives import bisection
from annulus.views import kernels
for architecture in map(int, sys.argv[1:]):
    for form in bisection.forms() + grouped_kernels.forms() + kernels.forms():
        print(json.dumps({"kernel": form.name, "sm": architecture} | machine_code(form, architecture)._asdict()))
"""


def compile_kernels(version: str, architectures: Sequence[int]) -> list[dict[str, object]]:
    """Compiles each kernel for each architecture and returns a row for each pair."""
    with tempfile.TemporaryDirectory() as folder:
        python, triton, cache = sys.executable, Path(folder) / "triton", Path(folder) / "cache"
        words = ["uv", "pip", "install", "--quiet", "--no-deps", "--python", python, "--target", str(triton)]
        subprocess.run([*words, f"triton=={version}"], check=True)
        paths = os.pathsep.join([str(triton), str(ROOT / "src")])
        environment = os.environ | {"PYTHONPATH": paths, "TRITON_CACHE_DIR": str(cache)}
        command = [python, "-W", "ignore", "-c", SCRIPT, *map(str, architectures)]
        lines = subprocess.check_output(command, env=environment, text=True).splitlines()
    return [{"triton": version, "torch": VERSIONS[version]} | json.loads(line) for line in lines]


def main() -> None:
    rows = []
    for version in VERSIONS:
        rows += compile_kernels(version, ARCHITECTURES)
        print(f"{version}: {len(rows)} rows", flush=True)
    with TABLE.open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, rows[0], lineterminator="\n")
        table.writeheader()
        table.writerows(rows)


if __name__ == "__main__":
    main()
