"""Presets: each line, applied by DVC's own code, selects what the study's row selects. Hours come from metrics/."""

import json
import shlex
import shutil
from functools import cache

import pytest
from by_path import ROOT, script
from dvc.utils.hydra import apply_overrides
from hydra.core.override_parser.overrides_parser import OverridesParser
from stated import stated_params

from annulus.errors import InputError
from annulus.negatives.ranks import rank_limits
from annulus_lab.config.file import checked, load_params
from annulus_lab.config.resolved import IMAGES, RUN, resolved
from annulus_lab.config.tree import read_tree
from annulus_lab.report.papers.comparison import load_tables
from annulus_lab.report.presets import line, listing
from annulus_lab.report.presets.hours import hours
from annulus_lab.report.presets.preset import Presets, studies
from annulus_lab.studies.shared.study import Study

SETTINGS = {"algorithms": "algorithms", "cifar10_algorithms": "algorithms", "cifar10": "cifar10"}


def overrides(presets, preset):
    command, *words = shlex.split(presets.line(preset))[2:]
    assert command == "run"
    assert words[::2] == ["-S"] * (len(words) // 2)
    return words[1::2]


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """This checkout's stages and metrics with the tests' fixed params.yaml."""
    folder = tmp_path_factory.mktemp("checkout")
    stated_params(folder / "params.yaml")
    for name in ("stages", "metrics"):
        (folder / name).symlink_to(ROOT / name)
    return folder


@pytest.fixture(scope="module")
def load_presets(checkout):
    """Cached function that returns the presets of a study at a scale."""
    return cache(lambda study, scale=None: Presets(checkout, study, scale))


@pytest.fixture(scope="module")
def stage_settings(checkout):
    @cache
    def settings(study):
        own = checkout / "stages" / study / "params.yaml"
        return script(f"stages/{SETTINGS[study]}/settings.py").main(Study(checkout / "params.yaml", own))

    def read(study, row):
        files = settings(study)
        run = files.get(f"rows/{row}") or files[f"rows/{row}/0"]
        return run["run"], files["images"], files["table"]["seeds"]

    return read


def set_by(words, tree):
    """Copy of a tree with overrides set as DVC sets them: parsed in the grammar of Hydra, without `+`."""
    tree = json.loads(json.dumps(tree))
    for override in OverridesParser.create().parse_overrides(words):
        assert override.type.name == "CHANGE"
        assert not override.is_sweep_override()
        place, parts = tree, override.key_or_group.split(".")
        for part in parts[:-1]:
            place = place[part]
        assert parts[-1] in place
        place[parts[-1]] = override.value()
    return tree


@pytest.mark.parametrize("study", SETTINGS)
def test_every_line_selects_what_the_row_selects(study, stage_settings, load_presets, monkeypatch, checkout):
    monkeypatch.chdir(checkout)
    presets, tree = load_presets(study), read_tree(checkout / "params.yaml")
    assert len(presets.all) >= 38
    for preset in presets.all.values():
        params = checked(set_by(overrides(presets, preset), tree), preset.name)
        run, images, seeds = stage_settings(study, preset.row)
        assert resolved(params, RUN) == run, preset.name
        assert resolved(params, IMAGES[1:]) == {name: images[name] for name in images if name != "seeds"}, preset.name
        assert params.seeds == seeds, preset.name


@pytest.mark.parametrize(
    ("study", "scale", "name"),
    [
        ("algorithms", None, "ring.table1a/IRing"),
        ("algorithms", "paper", "ring.table6/CMCRing (+C_i)"),
        ("cifar10_algorithms", None, "mlcpc.table3a/J_5.0 to J_0.2"),
        ("algorithms", None, "none/untrained, Lab"),
    ],
)
def test_dvc_writes_a_params_yaml_that_selects_the_preset(study, scale, name, tmp_path, checkout, load_presets):
    presets = load_presets(study, scale)
    preset = presets.find(name)
    shutil.copy(checkout / "params.yaml", tmp_path)
    apply_overrides(tmp_path / "params.yaml", overrides(presets, preset))
    selected = [resolved(params, [*RUN, *IMAGES]) for params in (load_params(tmp_path / "params.yaml"),)]
    assert selected == [resolved(presets.params(preset), [*RUN, *IMAGES])]


TABLES = {table.id: table for table in load_tables()}
TRAINED = 45_000  # of CIFAR-10's 50,000 images, without the validation part


@pytest.fixture(scope="module")
def at_papers_scale(load_presets):
    """Function that returns parameters, method settings and budget of a table's presets, by the table's method name."""
    presets = load_presets("algorithms", "paper")

    def load(table):
        selected = {name.partition("/")[2]: presets.params(preset) for name, preset in presets.all.items()
                 if name.startswith(f"{table}/")}  # fmt: skip
        assert selected.keys() <= {row.method for row in TABLES[table].rows} or table == "mlcpc.table3a"
        return {method: (params, params.get("methods.${method}"), params.get("scales.${scale}.pretrain"))
                for method, params in selected.items()}  # fmt: skip

    return load


@pytest.mark.parametrize("table", ["mutualinfo.table1", "ring.table1a", "ring.table2a", "ring.table6"])
def test_at_the_papers_scale_a_preset_trains_and_probes_as_its_table_prints(table, at_papers_scale):
    """All rows have ring's epochs, drops and probe: mutualinfo leaves them open or prints others."""
    printed, ring = TABLES[table].pretrain, TABLES["ring.table1a"]
    for name, (params, method, budget) in at_papers_scale(table).items():
        images, backbone = params.get("datasets.${dataset}"), params.get("backbones.${backbone}")
        batch = printed["batch_size" if params.split == "none" else "batch_size_cmc"]
        assert params.dataset == printed["dataset"].lower(), name
        assert (images.image_size, images.view_size) == (printed["image_size"], printed["crop"]), name
        assert (backbone.architecture, backbone.stem) == (printed["backbone"].lower().replace("-", ""), "imagenet")
        assert (method.embedding_dim, method.temperature) == (printed["embedding_dim"], printed["temperature"]), name
        assert params.method != "ir" or method.bank_rate == TABLES["mutualinfo.table1"].pretrain["bank_rate"], name
        assert (method.head, method.warmup) == ("linear", 0.0), name
        optimizer = params.optimizer
        assert (optimizer.momentum, optimizer.weight_decay) == (printed["momentum"], printed["weight_decay"]), name
        assert budget.batch_size == batch, name
        assert budget.learning_rate * batch / 256 == pytest.approx(printed["lr"]), name
        assert budget.negatives == 4096, "mutualinfo Appendix C"
        assert (budget.epochs, ring.pretrain["lr_drops"]) == (ring.pretrain["epochs"], "x0.1 at 200 and 250"), name
        drops = params.get("schedules.${schedule}")
        assert [round(share * budget.epochs) for share in drops.at] == [200, 250], name
        assert drops.factor == 0.1, name
        probe, fit = params.linear, params.get("scales.${scale}.linear")
        assert (probe.inputs, probe.layer, probe.patience) == ("views", "map", None), name
        assert (probe.momentum, probe.weight_decay) == (ring.eval["momentum"], ring.eval["weight_decay"]), name
        assert (fit.epochs, fit.learning_rate) == (ring.eval["epochs"], ring.eval["lr"]), name


def test_at_the_papers_scale_negatives_and_neighbours_are_those_of_mutualinfo_appendix_c(at_papers_scale):
    for table in ("mutualinfo.table1", "ring.table1a", "ring.table2a", "ring.table6"):
        for name, (params, method, budget) in at_papers_scale(table).items():
            sampler, annealing = params.get("samplers.${sampler}"), params.get("anneals.${anneal}")
            neighbours, la = params.get("neighbour_sets.${neighbours}"), name.startswith("LA")
            ranks = rank_limits(*sampler.shares, TRAINED - 1)
            if la:
                assert (ranks, method.negatives, params.bound) == ((0, 4096), "all", "la"), name
                assert round(annealing.until * budget.epochs) == 10, "of IR first"
            elif params.sampler != "uniform" and "Cave" not in name:
                assert ranks == ((449, 4499) if params.sampler == "ring" else (0, 4499)), name
            if params.anneal == "linear":
                assert round(annealing.until * budget.epochs) == 100, name
            if params.neighbours == "s":
                first = (0, 0) if "anneal" not in name else (10, 100)
                epochs = [round(share * budget.epochs) for share in (neighbours.start, neighbours.until)]
                assert (neighbours.share, *epochs) == (0.01, *first), name
            if params.neighbours == "k":
                assert (neighbours.clusters, neighbours.runs) == (300, 10), name
            if params.sampler == "cave":
                inside = "Cave" in name  # ring's name for negatives of the own cluster alone
                assert (sampler.keep, sampler.outer) == (("inside", 1.0) if inside else ("outside", 0.1)), name
                assert inside or sampler.clusters == 300, name


def test_at_the_papers_scale_cpc_and_mlcpc_train_as_mlcpc_appendix_c_4_says(at_papers_scale):
    """The network and the probe are the same in all rows. Settings that are not printed are MoCo v2's."""
    printed = TABLES["mlcpc.table3a"].pretrain
    selected = at_papers_scale("mlcpc.table3a")
    assert len(selected) == 5
    for name, (params, method, budget) in selected.items():
        assert (params.dataset, params.method, method.temperature) == ("cifar10", "moco", printed["temperature"]), name
        assert (budget.batch_size, budget.learning_rate) == (printed["batch_size"], printed["lr"]), name
        assert (budget.epochs, params.schedule, params.views) == (200, "cosine", "moco-v2"), name
        assert (method.head, method.momentum, method.warmup) == ("mlp", 0.999, 0.0), name
        assert (method.negatives, budget.queue, method.shuffle_groups) == ("all", 65536, 8), name
    alphas = {
        name: tuple(map(str, (bound.alpha_start, bound.alpha_end)))
        for name, bound in ((name, params.get("bounds.${bound}")) for name, (params, _, _) in selected.items())
        if hasattr(bound, "alpha_start")
    }
    assert {f"J_{start} to J_{end}": (start, end) for start, end in alphas.values()} == alphas
    assert selected["CPC (MoCo-v2)"][0].get("bounds.${bound}").alpha == 1.0


def test_an_edited_params_yaml_gets_the_line_that_it_needs(tmp_path, checkout):
    for file in ("params.yaml", "stages/algorithms/params.yaml"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(checkout / file, tmp_path / file)
    operators = {"solarize": {"probability": 0.2, "threshold": 0.5}}
    text = (tmp_path / "params.yaml").read_text()
    edited = text.replace("operators: {}", f"operators: {json.dumps(operators)}", 1).replace(
        "sampler: ring", "sampler: cave"
    )
    (tmp_path / "params.yaml").write_text(
        edited.replace("    jitter:\n      probability: 0.8", "    jitter:\n      probability: 0.7", 1)
    )
    presets = Presets(tmp_path)
    changes = presets.changes(presets.params(presets.find("ring.table1a/IRing")))
    assert changes["sampler"] == "ring"
    presets = Presets(checkout)
    presets.tree = read_tree(tmp_path / "params.yaml")  # the study was read over the unedited file
    words = overrides(presets, presets.find("ring.table1a/IRing"))
    assert "view_sets.gentle.operators={}" in words
    assert "view_sets.gentle.jitter.probability=0.8" in words
    presets.tree["view_sets"]["gentle"]["jitter"] = None
    words = overrides(presets, presets.find("ring.table1a/IRing"))
    wanted = read_tree(checkout / "params.yaml")["view_sets"]["gentle"]["jitter"]
    assert set_by(words, presets.tree)["view_sets"]["gentle"]["jitter"] == wanted


def test_a_near_miss_is_one_sentence(capsys, checkout):
    for words, sentence in (
        (["ring.table1a/IRng"], r"no preset 'ring\.table1a/IRng'; did you mean 'ring\.table1a/IRing'\?"),
        (["mocoring"], r"no preset 'mocoring'; did you mean 'ring\.table1a/MoCoRing'\?"),
        (["x"], r"no preset 'x' \(`annulus presets` lists the tables\)"),
        (["x", "--study", "algorithms"], r"no preset 'x' \(52 of algorithms\)"),
        (["infomin.table14/Exemplar"], r"Exemplar has no command: not a contrastive method, and annulus has none"),
        (["x", "--study", "cifar"], r"'cifar' is not a study with the papers' tables; did you mean 'cifar10'\?"),
        (["x", "--scale", "papr"], r"'papr' is none of tiny, demo, paper; did you mean 'paper'\?"),
    ):
        with pytest.raises(InputError, match=sentence):
            line.main([*words, "--root", str(checkout)])
    with pytest.raises(InputError, match="is not a study with the papers' tables"):
        Presets(checkout, "spirals")


def test_the_list_has_every_row_of_the_tables_in_100_columns(capsys, checkout):
    listing.main(["--root", str(checkout), "--study", "algorithms"])
    printed = capsys.readouterr().out.splitlines()
    assert max(map(len, printed)) <= 100
    tables = read_tree(checkout / "stages/algorithms/params.yaml")["tables"]
    names = [f"{table}/{method}" for table, entry in tables.items() for method in entry["methods"]]
    assert [text.split("  ")[0].rstrip() for text in printed[1 : 1 + len(names)]] == names
    assert any(text.split() == ["ring.table1a/IRing", "RING+anneal", "83.9"] for text in printed)
    assert studies(checkout)[0] == "algorithms"


def test_the_command_is_a_line_of_the_shell_and_a_comment(capsys, checkout):
    line.main(["ring.table1a/IRing", "--root", str(checkout)])
    command, comment = capsys.readouterr().out.splitlines()
    assert command == (
        "dvc exp run -S 'seeds=[0,1,2,3,4]' -S dataset=fog -S scales.demo.prepare.test_images=6000 "
        "-S scales.demo.pretrain.epochs=10 -S scales.demo.pretrain.negatives=64"
    )
    assert comment.startswith("# hours: ")


@pytest.fixture
def root(tmp_path):
    """Speeds whose hours one can compute by hand."""
    files = {
        "benchmarks/sweep.json": {"runs": 10, "runs_own_seconds": 360, "processor": "P"},
        "benchmarks/step.json": {
            "imagenet_stem_bare_images_per_second": 500,
            "imagenet_stem_uniform_percent_of_bare": 100.0,
            "imagenet_stem_ring_percent_of_bare": 50.0,
            "pixels": 32,
            "threads": 2,
            "processor": "Q",
        },
        "benchmarks/methods.json": {
            "moco_imagenet_stem_images_per_second": 100,
            "pixels": 32,
            "threads": 2,
            "processor": "R",
        },
    }
    for name, content in files.items():
        (tmp_path / "metrics" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "metrics" / name).write_text(json.dumps(content))
    (tmp_path / "metrics/searches").mkdir()
    (tmp_path / "metrics/searches/cifar10_algorithms.csv").write_text(
        "row,seconds\nRING,30\nRING,50\nMoCo,9\nRING,72\n"
    )
    return tmp_path


@pytest.mark.parametrize(
    ("study", "scale", "name", "text"),
    [
        # 5 * 36 s
        ("algorithms", None, "ring.table1a/IR", "0.05 on one core of P: 5 seeds, 36 s each (mean of 10 runs"),
        ("algorithms", None, "none/untrained", "not known; no such run was timed"),
        # the median, 5 * 50 s
        ("cifar10_algorithms", None, "mutualinfo.table1/RING", "0.069 on a processor that the file does not name: 5"),
        ("cifar10_algorithms", None, "mutualinfo.table1/BALL", "not known"),
        # 300 * 45000 * 49 / 500 s = 367.5 h
        ("algorithms", "paper", "ring.table1a/IR", "1838 on 2 cores of Q: 5 seeds, 368 h each (pretraining alone: 300"),
        # half the speed, twice the networks
        ("algorithms", "paper", "ring.table1a/CMCRing", "7350 on 2 cores of Q: 5 seeds, 1470 h each (pretraining"),
        ("algorithms", "paper", "ring.table1a/MoCo", "9188 on 2 cores of R: 5 seeds, 1838 h each"),
        ("algorithms", "paper", "none/SiMo", "not known"),
        ("cifar10", None, "ring.table1a/IR", "not known"),
        ("cifar10_later", None, "none/MoCo-4 DCL", "0.013 on a processor that the file does not name: 5 seeds, 9 "),
        ("cifar10_later", None, "none/HCL", "not known"),
    ],
)
def test_hours_follow_from_the_timed_speeds(study, scale, name, text, root, load_presets):
    presets = load_presets(study, scale)
    assert f"hours: {text}" in hours(root, presets, presets.find(name))


def test_without_metrics_hours_are_not_known_and_a_damaged_file_is_a_sentence(root, tmp_path_factory, load_presets):
    presets = load_presets("cifar10_algorithms")
    preset = presets.find("mutualinfo.table1/RING")
    assert "not known" in hours(tmp_path_factory.mktemp("empty"), presets, preset)
    (root / "metrics/searches/cifar10_algorithms.csv").write_text("a,b\n1,2\n")
    with pytest.raises(InputError, match="no columns row and seconds"):
        hours(root, presets, preset)
