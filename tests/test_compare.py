"""Comparison of two variants: what changed, differences in pairs, verdicts, machines."""

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest
import yaml
from matplotlib.figure import Figure
from report_root import first_commit

from annulus.compare.__main__ import main
from annulus.compare.sides import flat, read_side
from annulus.compare.table import compare
from annulus.compare.text import as_markdown, as_text
from annulus.errors import InputError
from annulus.files.right import by_number, right_text
from annulus.headlines import HEADLINES
from annulus.report.metrics import Metrics

IMAGES = 4000
XEON, EPYC = "Xeon, AVX512", "EPYC, AVX2"


def files(gain: float = 0.0, seeds: tuple[int, ...] = (0, 1, 2, 3, 4), processor: str = XEON, **params) -> dict:
    """A main line's committed files; `gain` is of the accuracies, in percent."""
    difficulty = np.random.default_rng(0).random(IMAGES)
    right, metrics = {}, {stage: {} for stage in ("pretrain", "knn", "linear", "diagnostics")}
    for seed in seeds:
        draws = np.random.default_rng(100 + seed)
        level = 0.6 + gain / 100 + 0.005 * draws.normal()
        bits = difficulty + 0.1 * draws.normal(size=IMAGES) < level
        right[seed] = {"top1_percent": bits, "nn1_top1_percent": bits}
        top1 = 100 * bits.mean()
        metrics["knn"][seed] = {"top1_percent": top1, "nn1_top1_percent": top1}
        metrics["linear"][seed] = {"top1_percent": top1}
        metrics["pretrain"][seed] = {"loss_nats": 2.5, "bound_nats": 0.5 + gain, "ceiling_nats": 2.8332}
        metrics["pretrain"][seed] |= {"validation_nn1_percent": 50.0 + draws.normal(), "processor": processor}
        metrics["diagnostics"][seed] = {"alignment": 0.4, "uniformity": -2.0, "effective_rank": 30.0 + draws.normal()}
    curve = [f"{seed},{epoch},{10 * epoch},0.1" for seed in seeds for epoch in (1, 2)]
    found = {f"metrics/main/{stage}.json": json.dumps(of_seed) for stage, of_seed in metrics.items()}
    for stage in ("knn", "linear"):
        found[f"metrics/main/{stage}_right.json"] = right_text(by_number(right))
    found["metrics/main/prepare.json"] = json.dumps({"test_digest": "abc"})
    found["metrics/main/pretrain_history.csv"] = "\n".join(["seed,epoch,validation_nn1_percent,bound_nats", *curve])
    found["params.yaml"] = yaml.safe_dump({"sampler": "ring", "samplers": {"ring": {"inner": 0.01}}} | params)
    return found


def git(root: Path, *words: str) -> None:
    subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@localhost", *words], cwd=root, check=True)


def write(root: Path, content: dict[str, str]) -> None:
    for name, text in content.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


@pytest.fixture
def root(tmp_path):
    """A repository whose HEAD is a ring."""
    write(tmp_path, files())
    first_commit(tmp_path)
    return tmp_path


def compared(root: Path, base: str = "HEAD", head: str = "workspace"):
    """The comparison of two sides, its rows by number, and its text."""
    found = compare(*(read_side(root, name) for name in (base, head)))
    return found, {row.number: row for row in found.rows}, as_text(found)


@pytest.mark.parametrize(
    ("gain", "word", "of_bound", "back"), [(2.0, "better", "higher", "worse"), (-2.0, "worse", "lower", "better")]
)
def test_a_difference_beyond_the_interval_has_a_word_and_its_parameter_stands_first(root, gain, word, of_bound, back):
    comparison, _, text = compared(root)
    assert {row.verdict for row in comparison.rows} == {"equal"}
    assert "no parameter differs" in text
    write(root, files(gain, sampler="uniform", scale="cpu"))
    comparison, rows, text = compared(root)
    knn, bound = rows["knn_top1_percent"], rows["bound_nats"]
    assert list(rows) == [name for name in HEADLINES if name in rows]
    assert comparison.changed == [("sampler", "ring", "uniform"), ("scale", "(absent)", "cpu")]
    assert knn.verdict == rows["linear_top1_percent"].verdict == word
    assert knn.difference.mean == pytest.approx(gain, abs=0.5)
    assert knn.difference.freedom > 4, "over test images too, not over five seeds only"
    assert (bound.base, bound.head, bound.verdict) == (0.5, 0.5 + gain, of_bound)
    assert rows["bound_ceiling_nats"].verdict == "equal"
    assert text.index("sampler: ring -> uniform") < text.index("knn_top1_percent")
    cells = [line.split()[:3] for line in text.splitlines()]
    assert ["bound_nats", "0.5000", f"{0.5 + gain:.4f}"] in cells
    assert ["knn_top1_percent", f"{knn.base:.2f}", f"{knn.head:.2f}"] in cells
    assert max(map(len, text.splitlines())) <= 100
    other_way = compared(root, "workspace", "HEAD")[1]
    assert other_way["knn_top1_percent"].verdict == back
    for name, row in other_way.items():
        assert row.difference.mean == pytest.approx(-rows[name].difference.mean)


def test_other_seeds_are_not_paired_and_small_differences_are_noise_that_says_what_it_could_see(root):
    write(root, files(0.2, seeds=(5, 6, 7), processor=EPYC))
    _, rows, text = compared(root)
    half = rows["knn_top1_percent"].difference.half
    assert rows["knn_top1_percent"].verdict == f"within noise (could see {half:.2g})"
    varying = sum(row.difference.variance > 0 for row in rows.values())
    chance = f"Of 10 numbers, {0.05 * varying:.1f} would differ by chance alone"
    for words in ("NOT in pairs, since the seeds differ", "The processors differ", XEON, EPYC, chance):
        assert words in text


def test_one_seed_says_nothing_of_others_and_other_test_images_are_not_paired_image_by_image(root):
    write(root, files(5.0, seeds=(0,)))
    assert compared(root)[1]["knn_top1_percent"].verdict == "one seed: not known"
    write(root, files(2.0) | {"metrics/main/prepare.json": json.dumps({"test_digest": "other"})})
    comparison, _, text = compared(root)
    assert comparison.rows[0].difference.freedom == 4
    assert "The test images differ" in text


def test_an_experiment_is_found_by_its_name(root):
    write(root, files(2.0))
    git(root, "commit", "-qam", "experiment")
    git(root, "update-ref", "refs/exps/ab/cdef/noisy-coho", "HEAD")
    git(root, "update-ref", "refs/exps/exec/EXEC_HEAD", "HEAD")
    git(root, "reset", "-q", "--hard", "HEAD~1")
    assert compared(root, "HEAD", "noisy-coho")[1]["knn_top1_percent"].verdict == "better"
    with pytest.raises(InputError, match=r"'coho' is no git revision and no DVC experiment; .*here: noisy-coho$"):
        read_side(root, "coho")
    git(root, "update-ref", "refs/exps/ab/1234/noisy-coho", "HEAD")
    with pytest.raises(InputError, match="'noisy-coho' is no git revision and more than one DVC experiment"):
        read_side(root, "noisy-coho")


def test_a_side_without_numbers_by_seed_is_one_sentence(root):
    for name, content in (
        ("metrics/main/knn.json", "{}"),
        ("metrics/main/knn.json", json.dumps({"top1_percent": 50.0})),
        ("metrics/main/linear.json", json.dumps({"0": {"top1_percent": 70.0}})),
        ("metrics/main/knn_right.json", "[]"),
        ("params.yaml", "a: [\n"),
        ("metrics/main/prepare.json", "{}"),
    ):
        write(root, files() | {name: content})
        with pytest.raises(InputError, match=r"^workspace has no numbers of the main line by seed .*; run `dvc repro`"):
            read_side(root, "workspace")


def test_the_command_prints_the_table_as_markdown_and_draws_the_curves(root, capsys, monkeypatch):
    write(root, files(2.0))
    drawn = []
    monkeypatch.setattr("annulus.compare.figure.Figure", lambda **of: drawn.append(Figure(**of)) or drawn[-1])
    main(["HEAD", "--markdown", "--root", str(root), "--figure", str(root / "curves.png")])
    printed = capsys.readouterr().out
    assert "| knn_top1_percent |" in printed
    assert "**better**" in printed
    assert printed.strip() == as_markdown(compared(root)[0]).strip()
    assert (root / "curves.png").read_bytes().startswith(b"\x89PNG")
    named = [line for line in drawn[0].axes[0].lines if not line.get_label().startswith("_")]
    curves = [(line.get_xdata().tolist(), line.get_ydata().tolist()) for line in named]
    assert curves == [([1, 2], [10, 20])] * 2, "the means over seeds of both sides"
    with pytest.raises(SystemExit, match=r"ERROR: --figure .*curves.pdf: the name must end in .png or .svg"):
        main(["HEAD", "--root", str(root), "--figure", str(root / "curves.pdf")])


def test_the_table_as_a_metrics_file_has_both_sides_the_interval_and_each_seed_s_difference(root, tmp_path):
    write(root, files(2.0, scale="demo"))
    main(["HEAD", "--root", str(root), "--csv", str(tmp_path / "metrics/made.csv")])
    row = Metrics(tmp_path).rows("made.csv")[0]
    difference = compared(root)[1][row["number"]].difference
    assert (row["difference"], row["interval"]) == (round(difference.mean, 2), round(difference.half, 2))
    assert (row["seeds"], row["test_images"], row["scale"]) == (5, IMAGES, "demo")
    assert sum(row[f"seed{seed}"] for seed in range(5)) / 5 == pytest.approx(row["difference"], abs=0.01)


def test_a_tree_is_flat_by_dotted_keys():
    assert flat({"a": {"b": 1, "c": {}}, "d": [2]}) == [("a.b", 1), ("a.c", {}), ("d", [2])]
