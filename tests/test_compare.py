"""Comparison of two variants: changes, differences in pairs, verdicts, machines."""

import csv
import json
import os
import re
import subprocess
import sys
from contextlib import chdir
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml
from by_path import parse_yaml
from matplotlib.figure import Figure
from report_root import first_commit, with_lock

from annulus.errors import InputError
from annulus.evals.headlines import HEADLINES
from annulus.evals.intervals import COVERAGE
from annulus.files.right import by_number, right_text
from annulus_lab.compare import runs_table
from annulus_lab.compare.command import main
from annulus_lab.compare.comparison import compare
from annulus_lab.compare.figure import draw
from annulus_lab.compare.sides import read_side
from annulus_lab.compare.text import as_markdown, as_text
from annulus_lab.pipeline.stale import flat
from annulus_lab.report.papers.metrics import Metrics

SOURCE = Path(__file__).parents[1] / "src"
IMAGES = 4000
XEON, EPYC = "Xeon, AVX512", "EPYC, AVX2"


def files(gain: float = 0.0, seeds: tuple[int, ...] = (0, 1, 2, 3, 4), processor: str = XEON, **params) -> dict:
    """A main line's committed files; `gain` adds to the accuracies, in percent."""
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
        metrics["pretrain"][seed] |= {
            "validation_nn1_percent": 50.0 + draws.normal(),
            "validation_images": 400,
            "processor": processor,
        }
        metrics["diagnostics"][seed] = {"alignment": 0.4, "uniformity": -2.0, "effective_rank": 30.0 + draws.normal()}
    curve = [f"{seed},{epoch},{10 * epoch},0.1" for seed in seeds for epoch in (1, 2)]
    contents = {f"metrics/main/{stage}.json": json.dumps(by_seed) for stage, by_seed in metrics.items()}
    for stage in ("knn", "linear"):
        contents[f"metrics/main/{stage}_right.json"] = right_text(by_number(right))
    contents["metrics/main/prepare.json"] = json.dumps({"test_digest": "abc", "classes": 10})
    contents["metrics/main/pretrain_history.csv"] = "\n".join(["seed,epoch,validation_nn1_percent,bound_nats", *curve])
    contents["params.yaml"] = yaml.safe_dump(
        {"sampler": "ring", "samplers": {"ring": {"inner": 0.01}, "uniform": {}}} | params
    )
    contents["src/annulus/negatives.py"] = "k = 1"
    return with_lock(contents)


def git(root: Path, *words: str) -> None:
    subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@localhost", *words], cwd=root, check=True)


def write(root: Path, content: dict[str, str]) -> None:
    for name, text in content.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


@pytest.fixture
def root(tmp_path):
    """A repository whose HEAD has ring negatives."""
    write(tmp_path, files())
    first_commit(tmp_path)
    return tmp_path


def compared(root: Path, base: str = "HEAD", head: str = "workspace"):
    """The comparison of two sides, its rows by number, and its text."""
    comparison = compare(*(read_side(root, name) for name in (base, head)))
    return comparison, {row.number: row for row in comparison.rows}, as_text(comparison)


@pytest.mark.parametrize(
    ("gain", "word", "bound_word", "back"), [(2.0, "better", "higher", "worse"), (-2.0, "worse", "lower", "better")]
)
def test_a_difference_beyond_the_interval_has_a_word_and_its_parameter_stands_first(root, gain, word, bound_word, back):
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
    assert (bound.base, bound.head, bound.verdict) == (0.5, 0.5 + gain, bound_word)
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


SECTIONS = {"ring": {"inner": 0.01}, "ball": {"outer": 0.1}, "cave": {"outer": 0.1, "runs": 1}}


@pytest.mark.parametrize(
    ("sampler", "sections", "expected"),
    [
        ("ball", SECTIONS, ["sampler: ring -> ball"]),
        ("ring", SECTIONS | {"ring": {"inner": 0.02}}, ["samplers.ring.inner: 0.01 -> 0.02"]),
        (
            "ball",
            {"ring": {}, "ball": {"outer": 0.2}, "cave": {"outer": 0.2}, "ring-2": {}},
            [
                "sampler: ring -> ball",
                "samplers.ball.outer: 0.1 -> 0.2",
                "samplers.ring: (absent) -> {}",
                "samplers.ring.inner: 0.01 -> (absent)",
                "3 more in sections that neither side chooses",
            ],
        ),
        (
            "ring",
            SECTIONS | {"ball": {"outer": 0.2}},
            ["no chosen parameter differs, 1 in sections that neither side chooses"],
        ),
    ],
)
def test_parameters_that_a_side_chooses_are_listed_and_the_others_are_counted(root, sampler, sections, expected):
    write(root, files(samplers=SECTIONS, knn={"k": 20}))
    git(root, "commit", "-qam", "sections")
    write(root, files(sampler=sampler, samplers=sections, knn={"k": 20}))
    comparison, _, text = compared(root)
    assert text.split("\n\n")[1].splitlines() == expected
    plain = as_markdown(comparison).split("\n\n")[1].replace("`", "").replace("→", "->")
    assert plain.lower().removesuffix(".").splitlines() == [
        f"- {line}" if comparison.changed else line for line in expected
    ]
    write(root, files(sampler=sampler, samplers=sections, knn={"k": 5}))
    assert ("knn.k", "20", "5") in compared(root)[0].changed, "a section without a selector counts always"


def test_other_seeds_are_not_paired_and_small_differences_are_noise_that_says_what_it_could_see(root):
    write(root, files(0.2, seeds=(5, 6, 7), processor=EPYC))
    _, rows, text = compared(root)
    visible = rows["knn_top1_percent"].difference.visible
    assert rows["knn_top1_percent"].verdict == f"within noise (could see {visible:.2g})"
    varying = sum(row.difference.variance > 0 for row in rows.values())
    chance = f"Of 10 numbers, {(1 - COVERAGE) * varying:.1f} would differ by chance alone on average"
    for words in ("NOT in pairs, since the seeds differ", "The processors differ", XEON, EPYC, chance):
        assert words in text


@pytest.mark.parametrize(
    ("seeds", "note"),
    [
        ((0, 1), "in pairs of one seed, of the seeds 0 and 1, which both have"),
        ((3, 2, 0), "in pairs of one seed, of the seeds 0, 2 and 3, which both have"),
        ((4,), "in pairs of the seed 4, which both have"),
        ((5, 4, 3, 2, 1, 0), "in pairs of one seed, of the seeds 0, 1, 2, 3 and 4, which both have"),
    ],
)
def test_where_one_side_has_all_seeds_of_the_other_these_are_compared_in_pairs_and_alone(root, tmp_path, seeds, note):
    write(root, files(2.0, seeds=seeds))
    comparison, rows, text = compared(root)
    common = sorted(set(seeds) & set(range(5)))
    base, head = (side.headlines["knn_top1_percent"].values for side in (comparison.base, comparison.head))
    row = rows["knn_top1_percent"]
    assert row.base == pytest.approx(np.mean([base[seed] for seed in common]))
    assert row.head == pytest.approx(np.mean([head[seed] for seed in common]))
    assert row.difference.mean == pytest.approx(row.head - row.base)
    assert (row.difference.half is None) == (len(common) == 1)
    assert note in text
    assert "NOT in pairs" not in text
    main(["HEAD", "--root", str(root), "--csv", str(tmp_path / "made.csv")])
    first = next(csv.DictReader((tmp_path / "made.csv").open(newline="")))
    seed_columns = {name for name in first if name.startswith("seed")} - {"seeds"}
    assert (first["seeds"], seed_columns) == (str(len(common)), {f"seed{seed}" for seed in common})


def test_a_few_common_seeds_do_not_drop_the_others(root):
    """A single pair has no interval; five seeds of each side show a difference."""
    write(root, files(9.0, seeds=(4, 5, 6, 7, 8)))
    comparison, rows, text = compared(root)
    assert comparison.common == []
    assert rows["knn_top1_percent"].verdict == "better"
    assert "NOT in pairs, since the seeds differ" in text


def test_one_seed_says_nothing_of_others_and_other_test_images_are_not_paired_image_by_image(root):
    write(root, files(5.0, seeds=(0,)))
    assert compared(root)[1]["knn_top1_percent"].verdict == "one seed"
    write(
        root, with_lock(files(2.0) | {"metrics/main/prepare.json": json.dumps({"test_digest": "other", "classes": 10})})
    )
    comparison, rows, text = compared(root)
    assert comparison.rows[0].difference.freedom >= 4
    noise = 1.96 * 100 * (2 * 0.6 * 0.4 / IMAGES) ** 0.5  # of two samples, with about 60 % right
    assert rows["knn_top1_percent"].difference.half >= 0.8 * noise
    assert "The test images differ" in text


BOUNDS = "±: 95 % interval of the difference, {}; of accuracies over test images too."


@pytest.mark.parametrize(
    ("seeds", "digest", "notes"),
    [
        (range(5), "abc", [BOUNDS.format("in pairs of one seed")]),
        ((0,), "abc", ["The differences are in pairs of the seed 0, which both have."]),
        ((7,), "abc", ["The differences are NOT in pairs, since the seeds differ."]),
        (
            (7, 8),
            "other",
            [
                BOUNDS.format("NOT in pairs, since the seeds differ"),
                "The test images differ, so accuracies are not compared image by image.",
            ],
        ),
    ],
)
def test_the_notes_say_what_was_done_and_explain_an_interval_only_where_there_is_one(root, seeds, digest, notes):
    prepared = json.dumps({"test_digest": digest, "classes": 10})
    write(root, with_lock(files(2.0, seeds=tuple(seeds)) | {f"{METRICS}prepare.json": prepared}))
    _, rows, text = compared(root)
    lines = text.rpartition("\n\n")[2].splitlines()
    assert [note for note in lines if "by chance" not in note and "survives" not in note] == notes
    assert ("±" in text) == any(row.difference.half is not None for row in rows.values())


@pytest.mark.parametrize(("dataset", "classes", "place"), [("fog", 10, "a"), ("photos", 20, "a"), ("photos", 10, "b")])
def test_of_other_images_no_side_is_better(root, dataset, classes, place):
    prepared = json.dumps({"test_digest": "other", "classes": classes})
    write(root, files(dataset="photos", datasets={"photos": {"root": "a"}}))
    git(root, "commit", "-qam", "with a data set")
    changed = files(9.0, dataset=dataset, datasets={"photos": {"root": place}})
    write(root, with_lock(changed | {f"{METRICS}prepare.json": prepared}))
    comparison, rows, text = compared(root)
    assert {row.verdict for row in rows.values()} == {"other images"}
    assert "the tasks differ, so no side is better" in text
    for words in ("image by image", "by chance"):
        assert words not in text
    assert "**" not in as_markdown(comparison)
    write(root, files(9.0, dataset="photos", datasets={"photos": {"root": "elsewhere"}}))
    assert compared(root)[1]["knn_top1_percent"].verdict == "better", "the same images in another folder"


def test_an_experiment_is_found_by_its_name_and_what_dvc_keeps_beside_is_none(root):
    write(root, files(2.0))
    git(root, "commit", "-qam", "experiment")
    places = ["refs/exps/{}/{}/noisy-coho".format("ab", 38 * digit) for digit in "cd"]
    git(root, "update-ref", places[0], "HEAD")
    for place in ("exec/EXEC_HEAD", "apply/ORIG_HEAD", "exec/EXEC_APPLY", "stash"):
        git(root, "update-ref", f"refs/exps/{place}", "HEAD")
    git(root, "reset", "-q", "--hard", "HEAD~1")
    assert compared(root, "HEAD", "noisy-coho")[1]["knn_top1_percent"].verdict == "better"
    with pytest.raises(
        InputError, match=r"'coho' is not a git revision, and no DVC experiments have this name; .*here: noisy-coho$"
    ):
        read_side(root, "coho")
    git(root, "update-ref", places[1], "HEAD")
    with pytest.raises(InputError, match="'noisy-coho' is not a git revision, and several DVC experiments"):
        read_side(root, "noisy-coho")


METRICS = "metrics/main/"
NOT_RUN = [
    ({"params.yaml": ("sampler: ring", "sampler: uniform")}, "metrics were made with sampler: ring"),
    ({"params.yaml": ("inner: 0.01", "inner: 0.02")}, "metrics were made with samplers.ring.inner: 0.01"),
    ({"params.yaml": ("inner: 0.01", "inner: 0.01\n    outer: 1")}, "metrics were made with samplers.ring.outer: null"),
    ({"src/annulus/negatives.py": ("1", "2")}, "metrics were made with other code in src/annulus/negatives.py"),
    ({"metrics/main/pretrain.json": ("2.5", "2.4")}, "metrics/main/pretrain.json differs from dvc.lock"),
    (
        {"metrics/main/pretrain.json": ("2.5", "2.4"), "metrics/main/knn.json": ("}}", "} }")},
        "files differ from dvc.lock: metrics/main/pretrain.json, metrics/main/knn.json",
    ),
    ({"dvc.lock": ("pretrain:", "other:")}, "dvc.lock names no run of pretrain"),
]


@pytest.mark.parametrize(("edits", "clause"), NOT_RUN)
def test_a_side_that_did_not_run_says_so_first_and_no_verdict_is_printed(root, capsys, edits, clause):
    for name, (old, new) in edits.items():
        text = (root / name).read_text()
        assert old in text
        (root / name).write_text(text.replace(old, new, 1))
    for arguments in (["HEAD"], ["HEAD", "--markdown"]):
        with pytest.raises(SystemExit) as ended:
            main([*arguments, "--root", str(root), "--figure", str(root / "curves.png")])
        assert ended.value.code == 3
        printed = capsys.readouterr().out
        assert printed.strip("*").startswith(f"head's {clause}; run `dvc repro`")
        assert "verdict" not in printed
        assert "equal" not in printed
    assert not (root / "curves.png").exists()
    git(root, "commit", "-qam", "not run")
    _, rows, text = compared(root, "HEAD", "HEAD~1")
    assert text.startswith(f"base's {clause}; run `dvc repro`, commit dvc.lock and metrics/")
    assert rows == {}


DEEP, LONG, HUGE = 5000 * "[", "9" * 5000, "1" + 400 * "0"
BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{b}: &{b} [{', '.join(9 * [f'*{a}'])}]\n" for a, b in zip("abcdefghi", "bcdefghij", strict=True)
)
BY_SEED = [f"{METRICS}{stage}.json" for stage in ("knn", "linear", "pretrain", "diagnostics")]
RIGHT = [f"{METRICS}{stage}_right.json" for stage in ("knn", "linear")]
CURVES = f"{METRICS}pretrain_history.csv"
DAMAGED = [
    *((name, text) for name in BY_SEED for text in ("{}", "[]", "null", DEEP, '{"0": 1}', '{"x": {}}', "\0", "")),
    *((name, text) for name in RIGHT for text in ("[]", DEEP, '{"images": 8, "right": {"top1_percent": {"0": "zz"}}}')),
    *((RIGHT[0], f'{{"images": {count}, "right": {{}}}}') for count in ("0", "-8", "true", "1e9", HUGE, LONG)),
    *(
        (BY_SEED[2], f'{{"0": {{"loss_nats": {value}, "bound_nats": 1, "ceiling_nats": 1, "processor": "x"}}}}')
        for value in ("NaN", "-Infinity", "1e999", "true", '"1e3"', "null", "[]", HUGE, LONG)
    ),
    (BY_SEED[2], '{"0": {"loss_nats": 1, "bound_nats": 1, "ceiling_nats": 1, "processor": "\\ud800"}}'),
    *((f"{METRICS}prepare.json", text) for text in ("{}", "[]", '{"test_digest": 1}', '{"test_digest": "abc"}', DEEP)),
    *((CURVES, f"seed,epoch,bound_nats\n{row}") for row in ("0,x,1", "0,1,nan", "0,1", ",1,1", f"0,1,{200_000 * 'x'}")),
    *((CURVES, text) for text in ("", "seed,epoch\n", "seed,seed\n0,0\n", "seed\n0\n")),
    *(("params.yaml", text) for text in ("a: [\n", "[]", "x", BOMB, 500 * "{a: ", f"a: {LONG}", "a: 1\na: 2")),
    *(("dvc.lock", text) for text in ("a: [\n", "stages: 1", "stages: {pretrain: 1}", BOMB)),
    *(("dvc.yaml", text) for text in ("a: 1", "stages: [1]")),
    *((name, "a\n<<<<<<< HEAD\nb: 1\n=======\n") for name in ("params.yaml", "dvc.lock", BY_SEED[0], CURVES)),
]


@pytest.mark.parametrize(("name", "text"), DAMAGED, ids=lambda value: value[-40:])
def test_a_damaged_file_is_one_sentence_that_names_it(root, name, text):
    (root / name).write_text(text)
    with pytest.raises(InputError) as refused:
        compared(root)
    sentence = str(refused.value)
    assert sentence.startswith("workspace"), sentence
    assert Path(name).name in sentence
    assert len(sentence) < 600
    assert "\n" not in sentence
    assert ("conflict marks in line 2" in sentence) == ("<<<" in text)


@pytest.mark.parametrize("name", ["params.yaml", "dvc.lock", BY_SEED[0], RIGHT[0], CURVES])
def test_what_is_no_plain_file_is_refused_at_once(root, name):
    (root / name).unlink()
    for make in (lambda path: path.symlink_to("/dev/zero"), os.mkfifo, Path.mkdir):
        make(root / name)
        if name == "dvc.lock":
            assert "dvc.lock is missing" in compared(root)[2]
        else:
            with pytest.raises(InputError, match=f"^workspace has no numbers of the main line by seed .{name}: Is a "):
                compared(root)
        (root / name).rmdir() if (root / name).is_dir() and not (root / name).is_symlink() else (root / name).unlink()


def test_one_digest_of_two_counts_of_test_images_is_refused(root):
    contents = files()
    cut = json.loads(contents[RIGHT[0]])
    ends = {seed: bits[: 2 * 125] for seed, bits in cut["right"]["top1_percent"].items()}
    text = json.dumps({"images": 1000, "right": {"top1_percent": ends, "nn1_top1_percent": ends}})
    write(root, contents | {RIGHT[0]: text})
    with pytest.raises(InputError, match="1000 and 4000 test images of one digest"):
        compared(root)
    contents |= {RIGHT[0]: text, f"{METRICS}prepare.json": json.dumps({"test_digest": "other", "classes": 10})}
    write(root, with_lock(contents))
    assert compared(root)[1]["knn_top1_percent"].verdict, "of other images there may be fewer"


def test_why_git_does_not_answer_is_told_in_its_own_words(root, tmp_path_factory, monkeypatch):
    other = tmp_path_factory.mktemp("others")
    subprocess.run(["git", "clone", "-q", "--depth", "1", f"file://{root}", "shallow"], cwd=other, check=True)
    with pytest.raises(
        InputError, match=r"'HEAD~1' is not a git revision of this shallow clone \(`git fetch --unshallow`"
    ):
        read_side(other / "shallow", "HEAD~1")
    write(other / "zip", files())
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(other))
    with pytest.raises(InputError, match="zip: it is not a git repository; clone it to compare"):
        read_side(other / "zip", "HEAD")
    assert read_side(other / "zip", "workspace").seeds == [0, 1, 2, 3, 4]
    with monkeypatch.context() as patch:
        patch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
        with pytest.raises(InputError, match=r"dubious ownership.*git config --global --add safe\.directory"):
            read_side(root, "HEAD")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(InputError, match="git is not installed"):
        read_side(root, "HEAD")


@pytest.mark.slow
def test_the_command_finds_the_repository_from_a_folder_of_it_and_ends_quietly_in_a_pipe(root):
    (root / "stages").mkdir()
    with (
        chdir(root / "stages"),
        pytest.raises(InputError, match="is in no checkout of annulus"),
    ):
        main(["HEAD"])
    (root / ".dvc").mkdir()
    environment = os.environ | {"PYTHONPATH": str(SOURCE)}
    piped = f"{sys.executable} -m annulus compare HEAD | false; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", piped], cwd=root / "stages", env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (1, "")


def test_the_command_prints_the_table_as_markdown_and_draws_the_curves(root, capsys, monkeypatch):
    write(root, files(2.0))
    figures = []
    monkeypatch.setattr(
        "annulus_lab.compare.figure.Figure", lambda **options: figures.append(Figure(**options)) or figures[-1]
    )
    main(["HEAD", "--markdown", "--root", str(root), "--figure", str(root / "curves.png")])
    printed = capsys.readouterr().out
    assert "| knn_top1_percent |" in printed
    assert "**better**" in printed
    assert printed.strip() == as_markdown(compared(root)[0]).strip()
    assert (root / "curves.png").read_bytes().startswith(b"\x89PNG")
    means = [line for line in figures[0].axes[0].lines if line.get_linewidth() == 2]
    curves = [(line.get_xdata().tolist(), line.get_ydata().tolist()) for line in means]
    assert curves == [([1, 2], [10, 20])] * 2, "the means over seeds of both sides"
    main(["HEAD", "--root", str(root), "HEAD", "--markdown"])
    assert "head: HEAD (" in capsys.readouterr().out, "the head may stand after options"
    with pytest.raises(InputError, match=r"^--figure .*curves.pdf: the name must end in .png or .svg"):
        main(["HEAD", "--root", str(root), "--figure", str(root / "curves.pdf")])


def test_what_a_pull_request_brings_is_shown_in_markdown_and_is_no_markup(root):
    nasty = "x](http://evil.example) @torvalds **bold** | <b>pipe</b> ![i](http://evil.example/i.png) `\n# head"
    write(root, files(processor=nasty.splitlines()[0], **{f"a`b{nasty}": 1, "views": nasty}))
    for text in (as_markdown(compared(root)[0]), as_markdown(compared(root, "workspace", "HEAD")[0])):
        visible = re.sub(r"\\.", "", text)
        for markup in ("](", "**bold", "<b>", "@torvalds", "://", "\n# head"):
            assert markup not in visible
        assert "torvalds" in visible
    write(root, {"params.yaml": yaml.safe_dump(parse_yaml((root / "params.yaml").read_text()) | {"sampler": nasty})})
    (first, *_) = as_markdown(compared(root, "workspace", "HEAD")[0]).splitlines()
    assert first.startswith("**base's metrics were made with sampler: ring; run `dvc repro`")


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("columns", [["validation_nn1_percent", "bound_nats"], ["bound_nats"], []])
@pytest.mark.parametrize("name", ["$x_{$", 250 * "W", "\u4e2d\U0001f600", "workspace"])
def test_any_name_stands_whole_in_the_figure_s_legend_where_any_panel_has_data(
    root, tmp_path, monkeypatch, name, columns
):
    side = read_side(root, "HEAD")
    curves = [{"seed": 0.0, "epoch": epoch, **dict.fromkeys(columns, epoch)} for epoch in (1.0, 2.0)]
    side = replace(side, name=f"{name} (c010111)", curves=curves)
    figures = []
    monkeypatch.setattr(
        "annulus_lab.compare.figure.Figure", lambda **options: figures.append(Figure(**options)) or figures[-1]
    )
    draw(compare(side, side), tmp_path / "curves.png")
    assert len(figures[0].legends) == bool(columns)
    for legend in figures[0].legends:
        base, head = legend.get_texts()
        for text, role in ((base, "base"), (head, "head")):
            assert text.get_text().startswith(f"{role}: {name[:40]}" if name.isascii() else f"{role}: ?? ")
            assert text.get_text().endswith(" (c010111)")
            assert text.get_window_extent(dpi=150).x1 < 150 * figures[0].get_figwidth()


def test_the_table_as_a_metrics_file_has_both_sides_the_interval_and_each_seed_s_difference(root, tmp_path):
    write(root, with_lock(files(2.0, scale="demo")))
    main(["HEAD", "--root", str(root), "--csv", str(tmp_path / "metrics/made.csv")])
    row = Metrics(tmp_path).rows("made.csv")[0]
    difference = compared(root)[1][row["number"]].difference
    assert (row["difference"], row["interval"]) == (round(difference.mean, 2), round(difference.half, 2))
    assert (row["seeds"], row["test_images"], row["scale"]) == (5, IMAGES, "demo")
    assert sum(row[f"seed{seed}"] for seed in range(5)) / 5 == pytest.approx(row["difference"], abs=0.01)


def with_summary(contents: dict[str, str], **numbers) -> dict[str, str]:
    summary = {
        "knn_top1_percent": 59.37,
        "knn_top1_interval_percent": 1.2,
        "linear_top1_percent": 70.4,
        "bound_nats": 0.5,
    }
    return with_lock(contents | {"metrics/summary.json": json.dumps(summary | numbers)})


def experiment(root: Path, name: str, content: dict[str, str]) -> None:
    """Commits this content under an experiment's reference only."""
    write(root, content)
    git(root, "commit", "-q", "--allow-empty", "-am", name)
    git(root, "update-ref", f"refs/exps/ab/{38 * 'c'}/{name}", "HEAD")
    git(root, "reset", "-q", "--hard", "HEAD~1")


def test_the_runs_stand_side_by_side_in_100_columns(root, capsys):
    write(root, with_summary(files()))
    git(root, "add", "-A")
    git(root, "commit", "-qm", "summed up")
    many = {f"key{i}": 12 * "long " for i in range(9)}
    experiment(root, "noisy-coho", with_summary(files(sampler="uniform", **many), knn_top1_percent=55.3))
    long_key = "k" * 60
    experiment(root, "whole-key", with_summary(files(**{long_key: 1})))
    experiment(root, "half-written", with_summary(files()) | {"metrics/summary.json": "{"})
    experiment(root, "strange", with_summary(files(), bound_nats="1e3"))
    (root / "params.yaml").write_text((root / "params.yaml").read_text().replace("inner: 0.01", "inner: 0.02"))
    runs_table.main(["--root", str(root)])
    lines = capsys.readouterr().out.splitlines()
    assert "not shown" not in "".join(lines)
    assert max(map(len, lines)) <= 100
    rows = {line.split()[0]: line.split(None, 1)[1] for line in lines if line[:1].strip() and " " in line}
    assert rows["workspace"] == "not run: metrics were made with samplers.ring.inner: 0.01"
    assert rows["HEAD"].split() == ["59.37", "±", "1.20", "70.40", "0.5000"]
    assert rows["noisy-coho"].startswith("sampler=uniform")
    assert "55.30 ± 1.20" in rows["noisy-coho"]
    assert "and 4 more" in " ".join(" ".join(lines).split())
    assert rows["whole-key"].split() == rows["HEAD"].split(), "the key stands below the numbers"
    assert 23 * " " + f"{long_key}=1" in lines
    assert rows["half-written"].startswith("not run: metrics/summary.json differs from dvc.lock")
    assert rows["strange"] == 'no numbers: bound_nats is "1e3", expected a number'
    runs_table.main(["--root", str(root), "--most", "1"])
    assert '\n3 older experiments are not shown: make runs ARGS="--most 4"' in capsys.readouterr().out
    with pytest.raises(InputError, match=r"^--most 0 is below 1; name a number of experiments"):
        runs_table.main(["--root", str(root), "--most", "0"])


def test_a_tree_is_flat_by_dotted_keys():
    actual = flat({"a": {"b": 1, "c": {}}, "d": [2]})
    assert list(actual.items()) == [("a.b", 1), ("a.c", {}), ("d", [2])]
