"""Metrics files are whole, finite and the same for the same numbers."""

import os
import resource
import signal
import subprocess
import sys

import pytest
import torch
from by_path import ROOT
from settings import stripes

from annulus.datasets.parts import DatasetParts, save_prepared
from annulus.errors import InputError
from annulus.files.packed import write_packed, write_torch
from annulus.files.results import atomic_write, read_metrics, rounded, write_metrics, write_table


def file_names(path):
    return sorted(entry.name for entry in path.iterdir())


def test_a_number_keeps_the_digits_of_its_unit():
    for name, value, expected in (
        ("top1_percent", 41.2349, 41.23),
        ("loss_nats", 1.234567, 1.2346),
        ("rate", 0.12345678, 0.123457),
        ("images", 1000, 1000),
        ("k", True, True),
        ("sampler", "ring", "ring"),
    ):
        assert rounded(name, value) == expected
    assert str(rounded("loss_nats", -1e-9)) == "0.0"


def test_a_number_that_is_not_finite_is_refused_by_name(tmp_path):
    for value in (float("nan"), -float("inf")):
        with pytest.raises(ValueError, match=f"loss_nats is {value}; metrics are finite numbers"):
            write_metrics(tmp_path / "knn.json", {"loss_nats": value})
    assert file_names(tmp_path) == []


def test_metrics_and_tables_are_the_same_bytes_whatever_the_order_with_rounded_numbers(tmp_path):
    write_metrics(tmp_path / "new" / "a.json", {"top1_percent": 41.236, "k": 200})
    write_metrics(tmp_path / "new" / "b.json", {"k": 200, "top1_percent": 41.2364})
    for name in ("a.json", "b.json"):
        assert (tmp_path / "new" / name).read_text() == '{\n  "k": 200,\n  "top1_percent": 41.24\n}\n'
    assert file_names(tmp_path / "new") == ["a.json", "b.json"]
    write_table(tmp_path / "history.csv", [{"epoch": 1, "loss_nats": 0.123456}, {"epoch": 2, "loss_nats": 0.1}])
    assert (tmp_path / "history.csv").read_text() == "epoch,loss_nats\n1,0.1235\n2,0.1\n"
    write_table(tmp_path / "gaps.csv", [{"series": "a"}, {"series": "b", "loss_nats": 0.5}])
    assert (tmp_path / "gaps.csv").read_text() == "series,loss_nats\na,\nb,0.5\n"


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_a_file_has_the_mode_that_the_umask_gives(tmp_path, umask, mode):
    before = os.umask(umask)
    try:
        write_metrics(tmp_path / "knn.json", {"k": 1})
        write_packed(tmp_path / "features.safetensors", {"x": torch.zeros(1)}, {})
        write_torch(tmp_path / "state.pt", {"x": torch.zeros(1)})
        save_prepared(tmp_path / "images", DatasetParts(*[stripes(6, 0)] * 3, bad_files=0))
    finally:
        os.umask(before)
    for name in ("knn.json", "features.safetensors", "state.pt", "images/train.safetensors"):
        assert (tmp_path / name).stat().st_mode & 0o777 == mode, name
    assert (tmp_path / "images").stat().st_mode & 0o777 == 0o777 & ~umask


def test_text_is_utf_8_whatever_the_locale_says(tmp_path):
    write = (
        "import sys, pathlib, annulus.files.results as r; r.write_table(pathlib.Path('a.csv'), [{'class': '\\u732b'}])"
    )
    environment = os.environ | {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    subprocess.run([sys.executable, "-c", write], cwd=tmp_path, env=environment, check=True)
    assert (tmp_path / "a.csv").read_bytes() == "class\n猫\n".encode()


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"0": {"top1_percent": "high"}}', "top1_percent is 'high', expected a number"),
        ('{"top1_percent": ""}', "top1_percent is '', expected a number"),
        ('{"bound_nats": null}', "bound_nats is 'None', expected a number"),
        ('{"0": {"epochs": NaN}}', "epochs is 'nan', expected a number"),
        (f'{{"k": {10**400}}}', "k is '1000.*0', expected a number"),
        ('{"0": {"0": {"k": 1}}}', "0 is .*'k'.*, expected a number"),
        ("[" * 100_000, "recursion"),
        ("[1]", "it holds list"),
        (None, "Is a pipe or a device, not a file"),
    ],
)
def test_a_metrics_file_of_something_else_is_a_sentence(tmp_path, text, why):
    path = tmp_path / "knn.json"
    os.mkfifo(path) if text is None else path.write_text(text)
    with pytest.raises(InputError, match=rf"knn.json is missing or not a metrics file \(.*{why}.*\); run `dvc repro`"):
        read_metrics(path)
    path.unlink()
    written = {"top1_percent": 80.0, "top1_interval_percent": "", "k": True, "row": "RING"}  # one seed: no interval
    write_metrics(path, written)
    assert read_metrics(path) == written


def test_a_kill_leaves_nothing_that_git_takes(tmp_path):
    """Stages compute their results before they open a file, and git ignores a temporary file that is left."""
    for stage in (ROOT / "stages").rglob("*.py"):
        assert "atomic_write" not in stage.read_text(), stage
    for path in ("metrics/knn.json", "metrics/detection/pictures/voc.png"):
        with atomic_write(tmp_path / path) as temporary:
            left = temporary.relative_to(tmp_path)
        assert subprocess.run(["git", "check-ignore", "-q", left], cwd=ROOT).returncode == 0, left
    assert subprocess.run(["git", "check-ignore", "-q", "metrics/main/.gitignore"], cwd=ROOT).returncode == 1


def test_a_failure_while_writing_leaves_the_old_file_and_nothing_beside_it(tmp_path):
    path = tmp_path / "knn.json"
    path.write_text("old")

    def interrupted():
        with atomic_write(path) as temporary:
            temporary.write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_text() == "old"
    assert file_names(tmp_path) == ["knn.json"]


def test_a_full_disk_leaves_the_old_file_and_says_what_to_do(tmp_path):
    path = tmp_path / "knn.json"
    path.write_text("old")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        with pytest.raises(InputError, match=r"cannot write .*knn\.json: File too large; .* Free some space"):
            write_metrics(path, {f"value_{i}": i for i in range(100)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, ignored)
    assert path.read_text() == "old"
    assert file_names(tmp_path) == ["knn.json"]


def test_what_is_in_the_way_is_named_with_the_way_out(tmp_path):
    (tmp_path / "metrics").write_text("a file in the way")
    (tmp_path / "page.json" / "inside").mkdir(parents=True)
    for name, why in (("metrics/knn.json", "File exists"), ("page.json", "Is a directory")):
        with pytest.raises(
            InputError, match=rf"cannot write .*{name}: {why}; .*Move the file or folder that is in the way"
        ):
            write_metrics(tmp_path / name, {"k": 1})
    assert file_names(tmp_path) == ["metrics", "page.json"]
