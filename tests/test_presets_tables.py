"""Commands of every row of the papers' tables: each selects what its row prints or has a reason for absence."""

import json
import shlex
from itertools import pairwise

import pytest
import yaml
from by_path import ROOT, read_yaml
from stated import stated_params
from test_presets import set_by

from annulus.errors import InputError
from annulus_lab.config.file import checked
from annulus_lab.config.resolved import RUN, resolved
from annulus_lab.config.tree import read_tree
from annulus_lab.report.papers.comparison import agrees, load_tables
from annulus_lab.report.presets import hours, line, listing
from annulus_lab.report.presets.h200 import STEPS, estimate, multiply_adds
from annulus_lab.report.presets.overview import Commands, TableState, table_commands
from annulus_lab.report.presets.preset import Presets
from annulus_lab.report.presets.tables import TablePresets, load_entries, row_name
from annulus_lab.studies.detection.tasks import task_settings
from annulus_lab.studies.shared.study import OwnStudy

PRINTED = {f"{table.id}/{row_name(row, table)}": (table, row) for table in load_tables() for row in table.rows}


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """This checkout's stages and metrics with the tests' fixed params.yaml."""
    folder = tmp_path_factory.mktemp("checkout")
    stated_params(folder / "params.yaml")
    for name in ("stages", "metrics"):
        (folder / name).symlink_to(ROOT / name)
    return folder


@pytest.fixture(scope="module")
def presets(checkout):
    return TablePresets(checkout)


@pytest.fixture(scope="module")
def trained(presets):
    """The parameters of each row that trains the main line."""
    return {name: presets.params(row) for name, row in presets.rows.items() if row.row is not None}


def test_every_printed_row_has_a_command_or_a_reason(presets):
    assert len(PRINTED) == sum(len(table.rows) for table in load_tables()), "two rows have one name"
    assert PRINTED.keys() <= presets.rows.keys()
    for name in PRINTED:
        row = presets.rows[name]
        assert bool(row.absent) != bool(row.row or row.study or row.command), name
    further = [name for name in presets.rows if name not in PRINTED]
    assert {name.rpartition(", ")[2] for name in further} == {"500 epochs", "1000 epochs"}
    absent = {name: row.absent for name, row in presets.rows.items() if row.absent}
    assert len(absent) == 29
    assert {name.partition("/")[2].split(",")[0] for name in absent} == {
        "supervised", "CPC v2", "CMC", "Exemplar", "JigSaw", "Relative Position", "Rotation", "BigBiGAN"
    }  # fmt: skip


def test_every_entry_is_some_printed_rows():
    """Each entry is the first that agrees with some printed row. Another entry would have no effect."""
    for name, entry in load_entries().tables.items():
        printed = [row for table in load_tables() if table.id == name for row in table.rows]
        first = [next((own for own in entry.rows if agrees(row, own.theirs)), None) for row in printed]
        # Tables 4 and 14 of infomin, and 5 to 8, share one list, so each lacks some of its rows.
        assert len(entry.rows) in (len([own for own in entry.rows if own in first]), 24, 7), name
    used = {each for entry in load_entries().tables.values() for each in entry.sets}
    used |= {each for entry in load_entries().tables.values() for row in entry.rows for each in row.sets}
    assert used == load_entries().sets.keys()


def test_every_line_of_the_main_line_selects_the_rows_parameters(presets, trained, checkout):
    tree, seen = read_tree(checkout / "params.yaml"), set()
    for name, params in trained.items():
        words = shlex.split(presets.lines(presets.rows[name])[0])
        assert words[:3] == ["dvc", "exp", "run"]
        assert words[3:-1:2] == ["-S"] * len(words[3:-1:2]), name
        overrides = tuple(words[4::2])
        if overrides in seen:
            continue
        seen.add(overrides)
        selected = checked(set_by(list(overrides), tree), name)
        assert resolved(selected, RUN) == resolved(params, RUN), name
        assert selected.seeds == params.seeds
        assert len(selected.seeds) == 1 or params.dataset != "imagenet", "one run, as the papers have"
    assert len(seen) > 100


NETWORKS = {
    "ResNet-18": "resnet18", "ResNet18": "resnet18", "ResNet-50": "resnet50", "ResNet-101": "resnet101",
    "ResNet-152": "resnet152", "ResNeXt-101": "resnext101_32x8d", "ResNeXt-152": "resnext152_32x8d",
    "ResNet-50 (2x)": "resnet50_x2", "ResNet-50 (4x)": "resnet50_x4", "2x ResNet-50(1x)": "resnet50",
    "2x ResNet-50(2x)": "resnet50_x2", "ResNet50 with 3x3 stem conv": "resnet50",
}  # fmt: skip


def test_each_of_them_trains_what_its_row_prints(trained):
    """Data set, network, epochs, batch, negatives and constants, as far as table and row print them."""
    for name, (table, row) in PRINTED.items():
        if name not in trained:
            continue
        params, printed = trained[name], (table.pretrain or {}) | row.settings
        budget, method = params.get("scales.${scale}.pretrain"), params.get("methods.${method}")
        untrained = row.method == "random init"
        if "dataset" in printed:
            assert params.dataset == printed["dataset"].lower(), name
        if (network := printed.get("arch", printed.get("backbone"))) and table.id != "mlcpc.table3a":
            assert params.get("backbones.${backbone}").architecture == NETWORKS[network], name
        if printed.get("epochs") and not untrained:
            assert budget.epochs == printed["epochs"], name
        if row.source != "cited" and ("N" in printed or "batch_size" in printed):
            batch = printed.get("N", printed.get("batch_size"))
            assert budget.batch_size == (printed.get("batch_size_cmc", batch) if params.split == "lab" else batch), name
        if "K" in printed and table.id.startswith("eqco"):
            columns = method.negative_columns(1_268_355, budget.batch_size, budget.queue)
            drawn = budget.negatives if method.negatives == "sampled" else columns
            assert drawn in (printed["K"], printed["K"] - 1, 2 * printed["K"] - 2), (name, drawn)
        if "alpha" in row.settings and table.id.startswith("eqco"):
            assert params.get("bounds.${bound}").eqco_alpha == printed["alpha"], name
        if "alpha_start" in printed:
            bound = params.get("bounds.${bound}")
            assert (bound.alpha_start, bound.alpha_end) == (printed["alpha_start"], printed["alpha_end"]), name
        assert ("Ring" in row.method or "RING" in row.method) <= (params.sampler in ("ring", "ball")), name
        assert ("BALL" in row.method) <= (params.sampler == "ball"), name
        assert ("anneal" in row.method and "no anneal" not in row.method) <= (params.anneal == "linear"), name
        assert (row.method.startswith("CMC") or "-Lab" in row.method) == (params.split == "lab"), name


def test_shares_on_imagenet_are_those_of_mutualinfo_appendix_c(trained):
    sampler = trained["ring.table1d/IRing"].get("samplers.${sampler}")
    assert (sampler.outer, sampler.inner) == (0.003, 0.0003)
    cave = trained["mutualinfo.table2a/CAVE+anneal"].get("samplers.${sampler}")
    assert (cave.outer, cave.clusters, cave.keep) == (0.003, 300_000, "outside")
    local = trained["ring.table1d/LA"]
    assert round(local.get("samplers.${sampler}").outer * (1_268_355 - 1)) == 4096
    assert round(trained["ring.table1c/LA"].get("samplers.${sampler}").outer * (104_500 - 1)) == 4096
    assert local.get("neighbour_sets.${neighbours}").clusters == 300_000


def test_every_line_of_a_study_is_of_its_keys_and_stages(presets):
    """A detection study also accepts the changed task."""
    seen = 0
    for row in presets.rows.values():
        if row.study is None:
            continue
        folder = ROOT / "stages" / row.study
        words = shlex.split(presets.lines(row)[-1].strip("()"))
        assert words[:2] == ["cd", f"stages/{row.study}"]
        overrides = [word for before, word in pairwise(words) if before == "-S"]
        merged = OwnStudy(folder / "params.yaml").content
        changed = set_by(overrides, merged)
        assert changed["scale"] == "paper"
        stages = yaml.safe_load((folder / "dvc.yaml").read_text())["stages"]
        for stage in row.stages:
            name, _, item = stage.partition("@")
            assert name in stages, row.name
            if row.study == "detection":
                study = OwnStudy(folder / "params.yaml", "paper")
                study.content = changed
                assert task_settings(study, item)["task"] == item
        seen += 1
    assert seen > 100


def test_the_pairs_of_mlcpc_are_the_studys_thirteen(presets):
    study = read_yaml(ROOT / "stages/distillation/params.yaml")
    pairs = [presets.rows[f"mlcpc.table{table}/CRD"].study_changes["pairs"] for table in (1, 2)]
    assert [*pairs[0], *pairs[1]] == study["thirteen"]
    for table in (1, 2):
        changes = presets.rows[f"mlcpc.table{table}/CRD"].study_changes
        assert {*changes["teachers"]} == {pair["teacher"] for pair in changes["pairs"]}


def test_multiply_adds_are_the_published_ones():
    """He et al. 2015, arXiv:1512.03385, Table 1: 1.8 and 3.8 billion; 4.1 with the stride in the 3 x 3."""
    assert multiply_adds("resnet18", "imagenet", 224) == pytest.approx(1.8e9, rel=0.01)
    assert multiply_adds("resnet50", "imagenet", 224) == pytest.approx(4.1e9, rel=0.01)
    assert multiply_adds("resnet18", "imagenet", 448) == pytest.approx(4 * multiply_adds("resnet18", "imagenet", 224))


@pytest.fixture
def steps(tmp_path):
    """Timed steps: 10 ms of the host and 4 ms of the GPU for IR with a ring, 20 and 5 ms for MoCo."""
    (tmp_path / STEPS).parent.mkdir(parents=True)
    (tmp_path / STEPS).write_text(
        "what,graphs,host ms a step,GPU's ms a step\nIR with a ring,none,10,4\nIR with a ring,own,1,1\nMoCo,none,20,5\n"
    )
    return tmp_path


def test_hours_on_an_h200_follow_from_the_timed_steps(steps, trained):
    ratio = multiply_adds("resnet18", "imagenet", 224) / multiply_adds("resnet18", "cifar", 32)
    one = 300 * 45_000 / 256 / 1000
    assert estimate(steps, trained["ring.table1b/IR"]).seconds == pytest.approx(one * 4 * ratio)
    assert estimate(steps, trained["ring.table1b/CMC"]).seconds == pytest.approx(2 * one * 4 * ratio)
    assert estimate(steps, trained["ring.table1b/MoCo"]).seconds == pytest.approx(one * max(20, 5 * ratio)) == one * 20
    assert estimate(steps, trained["ring.table1c/IR"]).seconds == pytest.approx(one / 45_000 * 104_500 * 4 * ratio)
    (steps / STEPS).write_text("what,graphs\nMoCo,none\n")
    with pytest.raises(InputError, match="has no times of IR with a ring without graphs"):
        estimate(steps, trained["ring.table1b/IR"])
    (steps / STEPS).unlink()
    assert estimate(steps, trained["ring.table1b/IR"]) is None


def test_rows_of_studies_at_the_papers_scale_have_hours_on_an_h200(steps, checkout):
    later = Presets(checkout, "cifar10_later", "paper")
    text = "hours: at least 2 on an NVIDIA H200: 5 seeds, 1406 s each "  # 400 * 45,000 / 256 * 2 * 10 ms of the host
    assert hours.hours(steps, later, later.find("none/HCL")).startswith(text)


def test_hours_of_a_detector_are_its_iterations_times_detectron2s_seconds(presets):
    row = presets.rows["infomin.table5b/MoCo"]
    assert hours.detector_hours(presets.root, row) == pytest.approx(180_000 * 0.345 / 3600)
    cascade = hours.detector_hours(presets.root, presets.rows["infomin.table11a/InfoMin Aug."])
    assert cascade == pytest.approx(90_000 * (0.340 + 0.317 - 0.261) / 3600), (
        "Cascade R-CNN adds to R101 what it adds to R50"
    )
    eqco = hours.detector_hours(presets.root, presets.rows["eqco.table8/SiMo"])
    assert eqco == pytest.approx(12 * 118_287 / 16 * 0.345 / 3600, rel=1e-3), "twelve epochs of COCO"


def test_hours_of_teachers_and_students_are_their_timed_minutes(tmp_path, presets):
    row = presets.rows["mlcpc.table1/Teacher"]
    names, pairs = row.study_changes["teachers"], row.study_changes["pairs"]
    timed = {f"{name}_teacher_minutes": 60 for name in names}
    timed |= {f"{pair['name']}_student_minutes": 120 for pair in pairs}
    (tmp_path / "stages").symlink_to(presets.root / "stages")
    (tmp_path / hours.BENCHMARKS).mkdir(parents=True)
    file = tmp_path / hours.BENCHMARKS / "distillation.json"
    file.write_text(json.dumps(timed | {"threads": 2, "processor": "P"}))
    (line_of_teachers,) = hours.row_hours(tmp_path, presets, row)
    assert line_of_teachers.startswith(f"hours: 5 on 2 cores of P: 1 seed, 5 h each ({len(names)} teachers, ")
    (line_of_students,) = hours.row_hours(tmp_path, presets, presets.rows["mlcpc.table1/CRD"])
    assert line_of_students.startswith("hours: 56 on 2 cores of P: 4 seeds, 14 h each (7 students ")
    file.write_text("{}")
    assert "not known" in hours.row_hours(tmp_path, presets, row)[0]


def test_hours_of_studies_with_networks_of_their_own_are_those_of_all_seeds(steps, presets):
    stated_params(steps / "params.yaml")
    (steps / "stages").symlink_to(ROOT / "stages")
    toy, digit, all_digits, views = (
        presets.rows[name]
        for name in (
            "ring.table5/True",
            "infomin.table1/digit",
            "infomin.table1/Supervised",
            "infomin.table2/raw input",
        )
    )
    assert hours.study_time(steps, toy) is hours.study_time(steps, digit) is None
    timed = {"conditional_hours": 2.5, "sharing_hours": 3.0, "supervised_hours": 1.0, "processor": "P"}
    (steps / hours.PAPER_STUDIES).write_text(json.dumps(timed))
    assert hours.study_time(steps, toy) == ("2.5", "one core of P", f"the stage conditional ({hours.PAPER_STUDIES})")
    assert hours.study_time(steps, digit).hours == "28", "seven seeds of a sharing and of the supervised network"
    assert hours.study_time(steps, all_digits).hours == "154"
    assert hours.study_time(steps, views).details.startswith("3 seeds of 15 views and 3 networks")
    ratio = multiply_adds("resnet50_x2", "imagenet", 96) / multiply_adds("resnet18", "cifar", 32)
    one = 200 * 104_500 / 256 * 2 * (10 + 10 + 4 * ratio) / 1000 / 3600  # the host's time for the two smaller networks
    assert hours.study_time(steps, views).hours == f"at least {3 * 15 * one:.0f}"


def test_the_commands_of_a_detector_train_its_encoders_first(capsys, checkout):
    line.main(["infomin.table12b/InfoMin Aug.", "--root", str(checkout)])
    main, others, own, pretrained, detected = capsys.readouterr().out.splitlines()
    assert main.startswith("dvc exp run -S 'seeds=[50]' -S dataset=imagenet -S method=moco-jigsaw")
    assert others == "(cd stages/transfer && dvc exp run -S 'seeds=[50]' encoders@uniform encoders@untrained)"
    assert own == (
        "(cd stages/detection && dvc exp run -S scale=paper -S 'seeds=[50]' "
        "-S tasks.coco.configuration=fine-tuned-r50-fpn-2x detect@coco)"
    )
    assert pretrained.startswith("# hours: at least ")
    assert "on an NVIDIA H200: 1 seed, " in pretrained
    assert detected.startswith("# hours of coco: about 34 on 8 NVIDIA V100 ")  # 180,000 * 0.69 s


def test_the_overview_names_what_ran_and_the_rest_by_command_and_hours():
    state = TableState(
        table="ring.table0", title="Table 0: rows", coverage="2 of 3 rows run, fog, demo",
        claims=["direction of claims: held 1"],
        commands=Commands("ring.table0/a, b", 3, 1, "at least 2 h of an NVIDIA H200"),
    )  # fmt: skip
    assert listing.tables_as_text([state]).splitlines() == [
        "ring.table0  Table 0: rows",
        "    here: 2 of 3 rows run, fog, demo",
        "    direction of claims: held 1",
        "    3 commands, 1 row without; the first: at least 2 h of an NVIDIA H200",
        "    annulus preset 'ring.table0/a, b'",
    ]


def test_the_commands_of_a_table_are_at_the_papers_scale_and_name_what_is_not_known(checkout):
    commands = table_commands(checkout)
    assert commands["ring.table1a"].line == "annulus preset ring.table1a/IR --scale paper"
    assert commands["ring.table1b"].line == "annulus preset ring.table1b/IR"
    assert commands["infomin.table11a"].hours.endswith(" h of an NVIDIA H200 and about 9.9 h of 8 NVIDIA V100")
    assert commands["mutualinfo.table3"].hours.endswith(" h of one core of Intel(R) Xeon(R) Processor")
    assert commands["infomin.table12a"].hours.endswith(" h of an NVIDIA H200 and about 17 h of 8 NVIDIA V100")
    assert (commands["infomin.table12a"].count, commands["infomin.table12a"].missing) == (1, 1)


@pytest.mark.slow
def test_the_overview_of_this_checkout_has_every_table(capsys, checkout):
    listing.main(["--root", str(checkout)])
    printed = capsys.readouterr().out
    assert [text.split("  ")[0] for text in printed.splitlines() if text[:1].isalpha()][:-2] == [
        table.id for table in load_tables()
    ]
    listing.main(["infomin.table14", "--root", str(checkout)])
    rows = capsys.readouterr().out.splitlines()
    assert "infomin.table14/Exemplar  (no command: not a contrastive method, and annulus has none of its kind)" in rows
    with pytest.raises(InputError, match=r"no table 'ring.table1e'; did you mean 'ring.table1"):
        listing.main(["ring.table1e", "--root", str(checkout)])
