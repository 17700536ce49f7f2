"""The rows of `algorithms` on CIFAR-10: their settings, and their work in pieces."""

import csv
import json
import shutil
import subprocess
import tarfile
from pathlib import Path

import numpy as np
import pytest
from by_path import ROOT, read_yaml, script
from PIL import Image
from stated import stated_params
from test_studies_study import at_scale
from without import run_without

from annulus.errors import InputError
from annulus.files.right import read_right
from annulus_lab.studies.shared.study import Study


@pytest.mark.parametrize("scale", ["tiny", "cpu", "gpu", "paper"])
def test_every_row_on_cifar10_is_that_of_algorithms_at_the_papers_temperature(tmp_path, monkeypatch, scale):
    monkeypatch.chdir(ROOT)
    files = script("stages/cifar10/settings.py").main(at_scale(tmp_path, "cifar10", scale))
    algorithms = read_yaml(ROOT / "stages/algorithms/params.yaml")
    runs = {tuple(name.split("/")[1:]): file for name, file in files.items() if name.startswith("rows/")}
    assert all(file["seeds"] == [int(seed)] for (_, seed), file in runs.items())
    rows = {row: file["run"] for (row, seed), file in runs.items() if seed == "0"}
    assert rows.keys() <= algorithms["rows"].keys()
    table_rows = {entry["row"] for table in files["table"]["tables"].values() for entry in table["methods"].values()}
    assert table_rows == rows.keys() - {"untrained", "untrained-Lab"}
    assert len({json.dumps(run) for run in rows.values()}) == len(rows)
    ring = rows["RING+anneal"]
    assert ring["methods"]["ir"]["temperature"] == 0.07
    assert ring["samplers"]["ring"] == {"outer": 0.1, "inner": 0.01}
    assert list(ring["anneals"]) == ["linear"]
    assert files["images"]["datasets"]["folder"]["root"] == "data/cifar10_images"


def test_a_row_that_algorithms_lacks_is_said_of_the_list_that_names_it(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    study = at_scale(tmp_path, "cifar10", "cpu")
    study.content["rows"] = ["IR-nc"]
    with pytest.raises(InputError, match=r"study.yaml: rows: stages/algorithms/params.yaml: rows has no 'IR-nc'; did"):
        script("stages/cifar10/settings.py").main(study)


@pytest.fixture
def archive(tmp_path) -> Path:
    """Archive of noise images, in folders like CIFAR-10's."""
    random = np.random.default_rng(0)
    for split, images in (("train", 40), ("test", 4)):
        for name in ("cat", "dog", "ship"):
            (tmp_path / "tree" / split / name).mkdir(parents=True)
            for at in range(images):
                image = Image.fromarray(random.integers(256, size=(32, 32, 3), dtype=np.uint8))
                image.save(tmp_path / "tree" / split / name / f"{at}.jpg")
    with tarfile.open(tmp_path / "images.tar", "w") as packed:
        for split in ("train", "test"):
            packed.add(tmp_path / "tree" / split, split)
    return tmp_path / "images.tar"


def call(folder: Path, archive: Path, *words: str) -> subprocess.CompletedProcess:
    """Runs pieces in a folder with the parameter files that they read."""
    stated_params(folder / "params.yaml")
    (folder / "stages/algorithms").mkdir(parents=True, exist_ok=True)
    shutil.copy(ROOT / "stages/algorithms/params.yaml", folder / "stages/algorithms")
    absent = ["dvc", "mlflow", "faiss", "sklearn", "matplotlib", "jinja2"]  # as on a bare machine
    return run_without(absent, [str(ROOT / "stages"), "cifar10/pieces", str(archive), "out", *words], folder)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(tarfile, "data_filter"), reason="Python before 3.11.4")
def test_all_pieces_run_to_their_table(archive, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = call(tmp_path, archive, "--set", "{scale: tiny}")
    runs = [f"{row}/{seed}: done" for seed in (100, 101) for row in ("IR-nce", "RING+anneal")]
    assert [line for line in done.stdout.splitlines() if line.endswith(": done")] == runs, done.stderr
    assert done.returncode == 0, done.stderr
    with (tmp_path / "out/table.csv").open(newline="") as file:
        base, ring = csv.DictReader(file)
    for line, method in ((base, "IR"), (ring, "IRing")):
        assert (line["table"], line["method"]) == ("ring.table1a", method)
        assert (line["seeds"], line["scale"]) == ("2", "tiny")
    percents = []
    for row in ("IR-nce", "RING+anneal"):
        bits = [read_right(tmp_path / f"out/right/{row}/{seed}.json")["linear_top1_percent"] for seed in (100, 101)]
        percents.append(100 * np.mean([np.mean(one) for seeds in bits for one in seeds.values()]))
    assert [float(line["here_percent"]) for line in (base, ring)] == pytest.approx(percents, abs=0.01)
    assert float(ring["here_gain_percent"]) == pytest.approx(percents[1] - percents[0], abs=0.02)


def test_pieces_are_two_seeds_of_uniform_and_ring_on_a_gpu_at_the_studies_temperature(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    own = Study(stated_params(tmp_path / "root.yaml"), ROOT / "stages/cifar10/pieces.yaml")
    files = script("stages/cifar10/settings.py").main(own)
    runs = {name: file["run"] for name, file in files.items() if name.startswith("rows/")}
    assert runs.keys() == {f"rows/{row}/{seed}" for row in ("IR-nce", "RING+anneal") for seed in (100, 101)}
    for run in runs.values():
        assert run["methods"]["ir"]["temperature"] == 0.2
        assert run["backbones"]["resnet18-cifar"] == {"architecture": "resnet18", "stem": "cifar"}
        assert run["scales"]["gpu"]["pretrain"]["epochs"] == 100
    assert files["images"]["scales"]["gpu"]["prepare"]["train_images"] is None


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(tarfile, "data_filter"), reason="Python before 3.11.4")
def test_a_row_goes_on_with_the_next_call_until_its_metrics_are_there(archive, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def go_on(archive: Path, *words: str, scale: str = "tiny") -> subprocess.CompletedProcess:
        changes = f"{{scale: {scale}, seeds: [3], rows: [untrained]}}"
        return call(tmp_path, archive, "untrained/3", "--set", changes, *words)

    failure = go_on(tmp_path / "nope.tar")
    assert failure.returncode == 2
    assert "nope.tar as a tar (with Python 3.11.4 or newer): " in failure.stderr.splitlines()[-1]
    lines = []
    for seconds in ("0.1", "200", "200"):
        lines.append(go_on(archive, "--seconds", seconds).stdout.splitlines()[-1])
    assert lines == ["untrained/3: continues with the next call", "untrained/3: done", "untrained/3: done"]
    assert list(json.loads((tmp_path / "out/rows/untrained/3.json").read_text())) == ["3"]
    assert list(read_right(Path("out/right/untrained/3.json"))["linear_top1_percent"]) == [3]
    go_on(archive, "--seconds", "0.1", scale="cpu")
    assert len(list(Path("data/cifar10_pieces").glob("images-*"))) == 2, "other images, packed anew"
