"""Studies at scale paper have the papers' printed settings (published.yaml). Presets have their own test file."""

import pytest
from by_path import ROOT, read_yaml
from stated import TREE, stated_params

from annulus_lab.config.resolved import PRETRAIN, build_run, values
from annulus_lab.report.papers.comparison import load_figures, load_tables
from annulus_lab.studies.moving_digits.digit_networks import FILTERS, WIDTH
from annulus_lab.studies.shared.grid import part_settings
from annulus_lab.studies.shared.study import Study

PRINTED = {table.id: table for table in load_tables()} | load_figures()


def section(study, name, scale="paper"):
    """Section of a study's own settings with the scale's changes."""
    content = read_yaml(ROOT / f"stages/{study}/params.yaml")
    return content[name] | (content["scales"][scale].get(name) or {})


@pytest.fixture
def runs(tmp_path):
    """Function that returns a part's points at the papers' scale: series, value, run, and scales with budgets."""

    def load(study, part):
        root = stated_params(tmp_path / "root.yaml")
        points = part_settings(Study(root, ROOT / f"stages/{study}/params.yaml", "paper"), part)["points"]
        return [
            (point["series"], point["value"], build_run(values(point["run"], PRETRAIN), 0), point["run"]["scales"])
            for point in points
        ]

    return load


def sgd_settings(run):
    """SGD settings that all papers print: learning rate, batch size, momentum, weight decay."""
    return run.learning_rate, run.budget.batch_size, run.optimizer.momentum, run.optimizer.weight_decay


@pytest.mark.parametrize("part", ["ir", "cmc", "noise", "crop", "small-crops"])
def test_augmentations_train_as_mutualinfo_appendix_c_1(part, runs):
    printed = PRINTED["mutualinfo.fig1"].pretrain
    for series, _, run, _ in runs("augmentations", part):
        assert sgd_settings(run) == tuple(printed[name] for name in ("lr", "batch_size", "momentum", "weight_decay"))
        assert (run.budget.epochs, run.budget.negatives) == (printed["epochs"], printed["negatives"])
        assert (run.method.temperature, run.method.bank_rate) == (printed["temperature"], printed["bank_rate"])
        assert type(run.schedule).__name__ == "ConstantSchedule"
        assert (run.view_size, run.backbone.architecture) == (224, "resnet18")
        if series in ("crop", "all"):
            assert (run.views.crop.scale_min, run.views.crop.scale_max) == (0.2, 1.0)
        if part == "noise":
            assert run.views.crop is None
            assert run.views.jitter is not None


@pytest.mark.parametrize(
    ("part", "schedule"),
    [("annealing", "Constant"), ("start", "Constant")]
    + [(part, "Plateau") for part in ("count", "temperature", "bank-rate", "stability", "critic")],
)
def test_negatives_train_as_mutualinfo_and_ring_say(part, schedule, runs):
    """mutualinfo Appendix C.2 and C.3: the rate falls once. ring Figure 2: 200 epochs, before the first fall."""
    for series, value, run, _ in runs("negatives", part):
        assert sgd_settings(run) == (0.03, 256, 0.9, 1e-4)
        assert (run.budget.epochs, run.view_size) == (200, 224)
        assert type(run.schedule).__name__ == f"{schedule}Schedule"
        if schedule == "Plateau":
            assert (run.schedule.patience, run.schedule.factor, run.schedule.drops) == (10, 0.1, 1)
        if part == "count":
            assert value in (100, 1024, 4096)
        elif part == "start":
            assert round(value * 200) in (10, 50, 100, 150)
            assert series.startswith("100") or run.sampler.outer == float(series.split()[0]) / 100


def test_eqco_s_parts_are_moco_v2_and_simo_with_all_that_they_imitate(runs):
    for part, alpha in (("eqco-moco", 65536.0), ("eqco-simo", 256.0)):
        for series, _, run, _ in runs("negatives", part):
            assert sgd_settings(run) == (0.03, 256, 0.9, 1e-4)
            assert (run.budget.epochs, run.method.embedding_dim, run.method.temperature) == (200, 128, 0.2)
            assert (run.backbone.architecture, type(run.schedule).__name__) == ("resnet50", "CosineSchedule")
            assert run.views.blur is not None
            assert run.method.momentum == 0.999
            assert run.bound.eqco_alpha == (alpha if series == "EqCo" else None)
            if part == "eqco-moco":
                assert (run.method.head, run.method.shuffle_groups, run.budget.queue) == ("mlp", 8, 65536)
            else:
                assert (run.method.head, run.method.batch_norm, run.method.warmup > 0) == ("mlp-bn", "sync", True)


@pytest.mark.parametrize(("part", "figure"), [("crop", "infomin.fig11"), ("jitter", "infomin.fig12"), ("steps", None)])
def test_strengths_train_as_infomin_section_7_2(part, figure, runs):
    printed, points = PRINTED["infomin.fig11"], runs("strength", part)
    for series, _, run, scales in points:
        assert sgd_settings(run)[:2] == (printed.pretrain["lr"], printed.pretrain["batch_size"])
        assert (run.budget.epochs, run.budget.queue) == (printed.pretrain["epochs"], printed.pretrain["negatives"])
        assert (run.method.shuffle_groups, type(run.schedule).__name__) == (printed.pretrain["gpus"], "CosineSchedule")
        assert scales["paper"]["linear"]["epochs"] == printed.eval["epochs"]
        head = "mlp" if series == "MLP head" else "linear"
        assert (run.method.head, run.method.temperature) == (head, 0.15 if head == "mlp" else 0.07)
    if figure:
        assert {series for series, *_ in points} == {"linear head", "MLP head"}
        assert sorted({value for _, value, *_ in points}) == PRINTED[figure].sweep


def test_infomin_s_chain_is_moco_then_its_jigsaw_then_its_head(runs):
    variants = {series: run for series, _, run, _ in runs("strength", "branches")}
    kinds = {
        series: (type(run.method).__name__, run.method.head, run.method.temperature) for series, run in variants.items()
    }
    assert kinds == {
        "RA-CJ-Blur": ("MoCoSettings", "linear", 0.07),
        "+ jigsaw": ("MoCoJigsawSettings", "linear", 0.07),
        "+ MLP head": ("MoCoJigsawSettings", "mlp", 0.15),
    }
    for run in variants.values():
        assert sgd_settings(run)[:2] == (0.03, 256)
        assert (run.method.shuffle_groups, run.budget.epochs, run.budget.queue) == (8, 100, 65536)
        assert set(run.views.operators) == {"infomin"}


def test_distance_colour_and_frequency_have_infomin_s_epochs_and_values():
    printed = PRINTED["infomin.fig4"]
    study = read_yaml(ROOT / "stages/distance/params.yaml")
    own = study["scales"]["paper"]
    assert own["scales.paper.pretrain.epochs"] == printed.pretrain["epochs"]
    assert TREE["scales"]["paper"]["pretrain"]["learning_rate"] == printed.pretrain["lr"]
    offsets = study["pairs"]["paper"]["offsets"]
    assert {*printed.numbers} <= {*offsets}
    assert (offsets[0], offsets[-1]) == (64, 384)
    assert study["sets"]["large"]["paper"]["datasets.folder.view_size"] == 64
    for name in ("distance", "colour", "frequency", "view_learning"):
        scale = read_yaml(ROOT / f"stages/{name}/params.yaml")["scales"]["paper"]
        assert scale["scales.paper.linear.epochs"] == PRINTED["infomin.fig5"].eval["epochs"]
    sigmas = read_yaml(ROOT / "stages/frequency/params.yaml")["parts"]["sigma"]["sweep"]["values"]
    assert {*PRINTED["infomin.fig6"].numbers} <= {*sigmas}


def test_view_generators_have_the_printed_rates_one_of_them_turned_round_and_one_alike():
    rates = read_yaml(ROOT / "stages/view_learning/params.yaml")["rates"]["paper"]
    pairs = {name: (each["generator_rate"], each["estimator_rate"]) for name, each in rates.items()}
    assert pairs == {"printed": (2e-4, 6e-4), "larger": (6e-4, 2e-4), "equal": (6e-4, 6e-4)}


def test_moving_digits_are_infomin_s():
    printed, world, training = (
        PRINTED["infomin.table1"].pretrain, section("moving_digits", "world"), section("moving_digits", "training")
    )  # fmt: skip
    assert [training[name] for name in ("batch_size", "epochs", "learning_rate")] == [
        printed[name] for name in ("batch_size", "epochs", "lr")
    ]
    assert [world[name] for name in ("canvas", "digit", "ground", "speed", "frames", "target")] == [
        *(64, 28, 96, 0.1, 10, 20)
    ]
    assert (FILTERS, WIDTH) == ((8, 16, 32, 64), 64)
    assert len(training["sharings"]) == len(PRINTED["infomin.table1"].rows) - 1  # without the supervised one


def test_estimators_are_those_of_eqco_mlcpc_and_mutualinfo():
    printed, own = PRINTED["eqco.table9"].pretrain, section("estimators", "gaussians")
    assert [own[name] for name in ("dims", "learning_rate", "steps", "evaluations", "eqco_alpha")] == [
        printed[name] for name in ("dims", "lr", "steps", "eval_repeats", "alpha")
    ]
    assert (own["layers"], own["hidden"], own["pairs"]) == (1, 256, [64, 128, 256, 512])
    printed = PRINTED["mlcpc.fig3"].pretrain
    for critic, own in read_yaml(ROOT / "stages/estimators/params.yaml")["staircases"].items():
        assert [own[name] for name in ("dims", "learning_rate", "pairs", "hidden")] == [
            printed["dims"], float(printed["lr"]), printed["batch_size"], printed["hidden"]
        ]  # fmt: skip
        assert own["outputs"] == (printed["separable_out"] if critic == "separable" else None)
        assert (own["layers"], own["steps_per_level"]) == (2, 4000)
        assert (own["information"], own["alphas"][0], own["alphas"][-1]) == ([2.0, 4.0, 6.0, 8.0, 10.0], 1.0, 0.0001)
    for table in ("mutualinfo.table3", "ring.table5"):
        printed, own = PRINTED[table].pretrain, section("estimators", "conditional")
        assert [own[name] for name in ("points", "batch_size", "epochs", "negatives")] == [
            printed[name] for name in ("points", "batch_size", "epochs", "negatives")
        ]
        assert (own["layers"] + 1, own["hidden"]) == (5, 10)
        assert own["variants"]["cosine"] == {"score": "cosine", "learning_rate": printed["lr"], "warm_start": 0.0}
    kept = [row.settings["percent_closest"] for row in PRINTED["mutualinfo.table3"].rows if row.method == "VINCE"]
    assert own["percents"] == [100, *kept]


def test_spirals_are_mutualinfo_s():
    printed, own = PRINTED["mutualinfo.fig6"].pretrain, section("spirals", "spirals")
    same = {name: name for name in ("negatives", "momentum", "weight_decay", "batch_size", "iterations", "bank_rate")}
    for name, theirs in (same | {"temperature": "temperature", "points": "points", "learning_rate": "lr"}).items():
        assert own[name] == printed[theirs], name
    assert (own["layers"] + 1, own["hidden"]) == (5, 128)
    assert {0.0, *PRINTED["mutualinfo.fig6"].numbers} <= {*own["noise"]}


def test_distillation_is_mlcpc_s_of_thirteen_pairs():
    for name in ("mlcpc.table1", "mlcpc.table2"):
        printed = PRINTED[name].pretrain
        for network in ("teacher", "student"):
            own = section("distillation", network)
            assert [own[key] for key in ("epochs", "batch_size", "learning_rate", "momentum", "weight_decay")] == [
                printed[key] for key in ("epochs", "batch_size", "lr", "momentum", "weight_decay")
            ]
            drops = [round(share * own["epochs"]) for share in own["schedule"]["at"]]
            assert (f"x{own['schedule']['factor']} at {', '.join(map(str, drops))}") == printed["lr_drops"]
        own = section("distillation", "contrast")
        assert (own["negatives"], own["temperature"]) == (printed["negatives"], printed["temperature"])
    plain = {"MobileNetV2": "mobilenet_v2", "ShuffleNetV1": "shufflenet_v1", "ShuffleNetV2": "shufflenet_v2"}

    def architecture(network):
        return plain.get(network, network.lower().replace("-", "_"))

    pairs = [
        (architecture(pair["teacher"]), architecture(pair["student"]))
        for name in ("mlcpc.table1", "mlcpc.table2")
        for pair in PRINTED[name].columns.values()
    ]
    own = read_yaml(ROOT / "stages/distillation/params.yaml")["thirteen"]
    assert [(pair["teacher"], pair["student"]) for pair in own] == pairs
    alphas = [0.01, 0.05, 0.1, 0.2, 0.5, 1.0]
    rows = read_yaml(ROOT / "stages/distillation/params.yaml")["rows"]
    for bound in ("cpc", "mlcpc"):
        numbers = [row["contrast"]["alpha"] for row in rows.values() if row.get("contrast", {}).get("bound") == bound]
        assert sorted({*numbers}) == alphas == PRINTED["mlcpc.fig4"].sweep


def test_transfer_probes_as_ring_does():
    printed, own = PRINTED["ring.table3"].eval, section("transfer", "probe")
    assert [own[name] for name in ("learning_rate", "momentum", "weight_decay", "epochs")] == [
        printed[name] for name in ("lr", "momentum", "weight_decay", "epochs")
    ]
    assert own["layer"] == "map"
