"""The rows of `algorithms` on CIFAR-10: their settings, and their work in pieces."""

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


@pytest.mark.parametrize("scale", ["tiny", "cpu", "gpu", "paper"])
def test_every_row_on_cifar10_is_that_of_algorithms_at_the_papers_temperature(tmp_path, monkeypatch, scale):
    monkeypatch.chdir(ROOT)
    files = script("stages/cifar10/settings.py").main(at_scale(tmp_path, "cifar10", scale))
    algorithms = read_yaml(ROOT / "stages/algorithms/params.yaml")
    runs = {tuple(name.split("/")[1:]): file for name, file in files.items() if name.startswith("rows/")}
    assert all(file["seeds"] == [int(seed)] for (_, seed), file in runs.items())
    rows = {row: file["run"] for (row, seed), file in runs.items() if seed == "0"}
    assert rows.keys() <= algorithms["rows"].keys()
    of_tables = {entry["row"] for table in files["table"]["tables"].values() for entry in table["methods"].values()}
    assert of_tables == rows.keys() - {"untrained", "untrained-Lab"}
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
    """Noise, in folders like those of CIFAR-10."""
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


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(tarfile, "data_filter"), reason="Python before 3.11.4")
def test_a_row_goes_on_with_the_next_call_until_its_metrics_are_there(archive, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    stated_params(tmp_path / "params.yaml")
    (tmp_path / "stages/algorithms").mkdir(parents=True)
    shutil.copy(ROOT / "stages/algorithms/params.yaml", tmp_path / "stages/algorithms")

    def call(archive: Path, *words: str, scale: str = "tiny") -> subprocess.CompletedProcess:
        words = [str(archive), "out", "untrained/3", "--set", f"{{scale: {scale}, seeds: [3]}}", *words]
        absent = ["dvc", "mlflow", "faiss", "sklearn", "matplotlib", "jinja2"]  # as on a bare machine
        return run_without(absent, [str(ROOT / "stages"), "cifar10/pieces", *words], tmp_path)

    refused = call(tmp_path / "nope.tar")
    assert refused.returncode == 2
    assert "nope.tar as a tar (with Python 3.11.4 or newer): " in refused.stderr.splitlines()[-1]
    said = []
    for seconds in ("0.1", "200", "200"):
        said.append(call(archive, "--seconds", seconds).stdout.splitlines()[-1])
    assert said == ["untrained/3: continues with the next call", "untrained/3: done", "untrained/3: done"]
    assert list(json.loads((tmp_path / "out/rows/untrained/3.json").read_text())) == ["3"]
    assert list(read_right(Path("out/right/untrained/3.json"))["linear_top1_percent"]) == [3]
    call(archive, "--seconds", "0.1", scale="cpu")
    assert len(list(Path("data/cifar10_pieces").glob("images-*"))) == 2, "other images, packed anew"
