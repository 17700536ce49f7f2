"""params.yaml is read whole, and every fault becomes one sentence with its full key and the way out."""

import math
import os

import pytest
import yaml
from settings import MISSING, ROOT, TREE, changed, refusal

from annulus.config.file import checked, load_params, read_tree, shown
from annulus.config.negatives import ConstantAnneal, RingParams
from annulus.config.params import Params
from annulus.errors import InputError


def test_params_yaml_itself_is_valid():
    assert load_params(ROOT / "params.yaml").scale == TREE["scale"]
    assert read_tree(ROOT / "params.yaml") == TREE


def test_a_tree_s_faults_say_where_the_tree_comes_from():
    with pytest.raises(InputError, match=r"^a study: MoCo: samplers\.ring\.outer: 2\.0 refused; input should be less"):
        checked(changed({"samplers.ring.outer": 2.0}), "a study: MoCo")


class Studied(Params):
    """What a study of its own might hold."""

    ring: RingParams
    rings: dict[str, RingParams]
    none: ConstantAnneal | None
    steps: list[int]


STUDIED = {
    "ring": {"inner": 0.1, "outer": 0.5},
    "rings": {"far": {"inner": 0.5, "outer": 1.0}},
    "none": {},
    "steps": [1],
}


def test_a_tree_is_checked_against_the_model_that_is_given():
    found = checked(STUDIED, "a study", Studied)
    assert isinstance(found, Studied)
    assert found.rings["far"] == RingParams(inner=0.5, outer=1.0)
    with pytest.raises(InputError, match=r"a study: ring: unknown key"):
        checked(STUDIED, "a study")  # params.yaml's own, where there is none given


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"rnig": 1}, "rnig: unknown key; did you mean 'ring'? (known: ring, rings, none, steps)"),
        ({"ring": {"inner": 0.1, "outer": 0.5, "otter": 1}}, "ring.otter: unknown key; did you mean 'outer'? (known: "),
        (
            {"rings": {"far": {"inner": 0.1, "outer": 0.5, "iner": 1}}},
            "rings.far.iner: unknown key; did you mean 'inner'? (known: outer, inner)",
        ),
        ({"none": {"until": 1}}, "none.until: unknown key (known: )"),
        ({"steps": [1, 2.5]}, "steps.1: 2.5 refused; input should be a valid integer"),
        ({"ring": {"inner": 0.6, "outer": 0.5}}, "ring: ring needs inner < outer, got inner=0.6, outer=0.5"),
    ],
)
def test_another_model_s_faults_have_their_full_keys_and_its_own_known_ones(changes, sentence):
    with pytest.raises(InputError) as refused:
        checked(STUDIED | changes, "a study", Studied)
    assert str(refused.value).startswith(f"a study: {sentence}")


def test_a_fault_of_a_whole_model_is_its_sentence_without_a_key():
    with pytest.raises(InputError, match=r"^a study: ring needs inner < outer, got inner=0\.6, outer=0\.5$"):
        checked({"inner": 0.6, "outer": 0.5}, "a study", RingParams)


# --- unknown and missing keys -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("sampelr", "sampler"),
        ("samplers.rign", "ring"),
        ("samplers.ring.otter", "outer"),
        ("view_sets.standard.crop.scale_mim", "scale_min"),
        ("anneals.adaptive-epoc", "adaptive-epoch"),
        ("scales.demo.pretrain.epoch", "epochs"),
        ("methods.simo.batchnorm", "batch_norm"),
        ("bounds.binary-nce.normalizer", "normaliser"),
    ],
)
def test_an_unknown_key_is_named_in_full_with_the_nearest_known_one(key, meant):
    assert refusal({key: 1}).startswith(f"{key}: unknown key; did you mean {meant!r}? (known: ")


def test_the_known_keys_of_the_place_are_listed():
    assert refusal({"samplers.ring.xyz": 1}) == "samplers.ring.xyz: unknown key (known: outer, inner)"
    assert refusal({"view_sets.none.xyz": 1}) == (
        "view_sets.none.xyz: unknown key (known: crop, flip, jitter, grayscale, blur)"
    )
    assert refusal({"anneals.xyz": {}}) == (
        "anneals.xyz: unknown key (known: none, linear, step, adaptive-epoch, adaptive-step)"
    )
    assert refusal({"methods.xyz": {}}) == "methods.xyz: unknown key (known: ir, cmc, moco, simclr, simo)"
    assert refusal({"bounds.xyz": {}}) == "bounds.xyz: unknown key (known: infonce, binary-nce, la, cpc, mlcpc)"
    assert refusal({"bounds.cpc.xyz": 1}) == "bounds.cpc.xyz: unknown key (known: eqco_alpha, alpha)"
    assert refusal({"neighbour_sets.xyz": {}}) == "neighbour_sets.xyz: unknown key (known: none, s, k)"
    assert refusal({"neighbour_sets.k.xyz": 1}) == (
        "neighbour_sets.k.xyz: unknown key (known: clusters, runs, iterations, start, in_denominator)"
    )
    assert refusal({"methods.simclr.xyz": 1}) == (
        "methods.simclr.xyz: unknown key (known: temperature, negatives, embedding_dim, warmup, head)"
    )


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("methods.simclr.momentum", 0.99),  # moco's
        ("methods.moco.bank_rate", 0.5),  # ir's
        ("methods.cmc.critic", "dot"),  # ir's
        ("bounds.la.eqco_alpha", None),  # infonce's
        ("bounds.infonce.alpha", 1.0),  # cpc's
        ("bounds.cpc.normaliser", "exact"),  # binary-nce's
        ("neighbour_sets.s.clusters", 8),  # k's
        ("optimizer.warmup", 0.1),  # the method's
    ],
)
def test_a_key_of_another_choice_is_refused_where_it_would_do_nothing(key, value):
    assert refusal({key: value}).startswith(f"{key}: unknown key")


@pytest.mark.parametrize(
    "key",
    [
        "seed",
        "sampler",
        "bound",
        "neighbours",
        "samplers",
        "samplers.cave.keep",
        "view_sets.crop.blur",
        "anneals.adaptive-step",
        "methods.simo",
        "methods.moco.warmup",
        "bounds.binary-nce",
        "bounds.mlcpc.divide_by_alpha",
        "bounds.infonce.eqco_alpha",
        "neighbour_sets.none",
        "scales.paper.pretrain.queue",
    ],
)
def test_a_missing_key_is_named_in_full(key):
    assert refusal({key: MISSING}) == f"{key}: missing; every value is written in params.yaml"


def test_every_fault_gets_its_line():
    message = refusal({"samplers.ring.outer": 2.0, "seed": -1, "sampelr": "ring"})
    assert len(message.splitlines()) == 3


# --- fixed choices -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "known"),
    [
        ("backbones.resnet18.architecture", "'resnet18', 'resnet34', 'resnet50', 'alexnet' or 'convnet'"),
        ("backbones.resnet18.stem", "'imagenet' or 'cifar'"),
        ("samplers.cave.keep", "'outside' or 'inside'"),
        ("methods.ir.head", "'linear' or 'mlp'"),
        ("methods.ir.critic", "'dot', 'bilinear', 'concat-linear', 'mlp-1' or 'mlp-2'"),
        ("methods.ir.bank_start", "'encoder' or 'random'"),
        ("methods.moco.negatives", "'sampled' or 'all'"),
        ("methods.moco.head", "'linear' or 'mlp'"),
        ("methods.simclr.head", "'linear', 'mlp' or 'mlp-bn'"),
        ("methods.simo.batch_norm", "'sync' or 'shuffle'"),
        ("bounds.binary-nce.normaliser", "'constant', 'first-batch', 'moving-average' or 'exact'"),
        ("knn.layer", "'pooled' or 'embedding'"),
        ("linear.inputs", "'features' or 'views'"),
        ("linear.layer", "'pooled' or 'map'"),
    ],
)
def test_a_value_outside_a_fixed_choice_is_refused_with_the_choice(key, known):
    assert refusal({key: "zzz"}) == f"{key}: 'zzz' refused; input should be {known}"


# --- types --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["optimizer.weight_decay", "bounds.binary-nce.constant", "anneals.linear.until"])
def test_a_number_without_a_point_is_text_to_yaml_and_the_way_out_is_said(key, tmp_path):
    path = tmp_path / "params.yaml"
    text = yaml.safe_dump(changed({key: "HERE"})).replace("HERE", "1e-4")
    path.write_text(text)
    with pytest.raises(InputError, match=rf"{key}: '1e-4' is text to YAML; write a number, such as 1\.0e-4"):
        load_params(path)
    path.write_text(text.replace("1e-4", "1.0e-4"))
    load_params(path)


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("seed", "0", "input should be a valid integer"),
        ("seed", 0.5, "input should be a valid integer"),
        ("seed", 1.0, "input should be a valid integer"),
        ("seed", True, "input should be a valid integer"),
        ("seed", None, "input should be a valid integer"),
        ("sampler", 3, "input should be a valid string"),
        ("sampler", None, "input should be a valid string"),
        ("samplers.ball.outer", True, "input should be a valid number"),
        ("samplers.ball.outer", None, "input should be a valid number"),
        ("samplers.ball.outer", math.nan, "input should be a finite number"),
        ("optimizer.weight_decay", math.inf, "input should be a finite number"),
        ("datasets.folder.root", 3, "input should be a valid string"),
        ("schedules.milestones.at", 0.5, "input should be a valid list"),
        ("scales.demo.pretrain.epochs", 2.5, "input should be a valid integer"),
        ("scales.demo.pretrain.negatives", "all", "input should be a valid integer"),  # that is the method's
        ("scales.demo.pretrain.queue", None, "input should be a valid integer"),
        ("methods.moco.negatives", 64, "input should be 'sampled' or 'all'"),
        ("methods.moco.shuffle_groups", 2.0, "input should be a valid integer"),
        ("bounds.mlcpc.divide_by_alpha", 0, "input should be a valid boolean"),
        ("bounds.mlcpc.alpha_start", None, "input should be a valid number"),
        ("bounds.infonce.eqco_alpha", math.inf, "input should be a finite number"),
        ("bounds.infonce.eqco_alpha", "none", None),
        ("view_sets.standard.flip", "yes", None),
    ],
)
def test_a_value_of_another_type_is_refused_not_converted(key, value, expected):
    message = refusal({key: value})
    if expected is None:
        assert message == f"{key}: {value!r} is text to YAML; write a number, such as 1.0e-4"
    else:
        assert message == f"{key}: {value!r} refused; {expected}"


@pytest.mark.parametrize(
    "key", ["samplers", "samplers.ring", "scales.demo.pretrain", "view_sets.standard.crop", "methods.moco"]
)
@pytest.mark.parametrize("value", [3, [1], "text"])
def test_a_value_where_a_section_belongs_is_refused(key, value):
    assert refusal({key: value}).startswith(f"{key}: {value!r} refused; input should be a valid dictionary")


# --- the file -----------------------------------------------------------------------------------------


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InputError, match=r"cannot read .*nowhere\.yaml: No such file or directory"):
        load_params(tmp_path / "nowhere.yaml")


def test_a_folder_in_its_place_is_named(tmp_path):
    with pytest.raises(InputError, match=r"cannot read .*: Is a directory"):
        load_params(tmp_path)


@pytest.mark.parametrize("text", ["seed: [", "seed: 0\n\tscale: demo", "a: b: c"])
def test_a_file_that_is_not_yaml_is_refused_with_the_place(text, tmp_path):
    path = tmp_path / "params.yaml"
    path.write_text(text)
    with pytest.raises(InputError, match=r"params\.yaml is not YAML: .*line \d, column \d+") as refused:
        load_params(path)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a: 1\nb: 2\na: 3\n", "'a' stands twice, in line 1 and line 3; delete one of them"),
        ("s:\n  r: {x: 1}\n  t: 0\n  r: 2\n", "'r' stands twice, in line 2 and line 4; delete one of them"),
        ("s: {x: 1, y: 2, x: 1}\n", "'x' stands twice, in line 1 and line 1; delete one of them"),
        ("- 0\n- {a: 1,\n   a: 2}\n", "'a' stands twice, in line 2 and line 3; delete one of them"),
        ("a: &a {x: 1,\n  x: 2}\nb: {<<: *a}\n", "'x' stands twice, in line 1 and line 2; delete one of them"),
        (
            "a: &a {x: 1}\nb:\n  <<: *a\n  <<: *a\n",
            "'<<' stands twice, in line 3 and line 4; write `<<: [*one, *other]`",
        ),
        ("day: 2026-99-99\n", "'2026-99-99' in line 1 looks like timestamp and is none; quote it"),
        ("a: 1\nb: !!float text\n", "'text' in line 2 looks like float and is none; quote it"),
        (f"seed: {'9' * 5000}\n", f"'{'9' * 37}...{'9' * 38}' in line 1 looks like int and is none; quote it"),
    ],
)
def test_yaml_that_would_lose_or_misread_a_value_is_refused_with_its_lines(text, sentence, tmp_path):
    path = tmp_path / "params.yaml"
    path.write_text(text)
    with pytest.raises(InputError) as refused:
        read_tree(path)
    assert str(refused.value) == f"{path} is not YAML: {sentence}"


def test_anchors_and_merge_keys_are_read_as_ever(tmp_path):
    path = tmp_path / "params.yaml"
    path.write_text("a: &a {x: 1, y: 2}\nb: &b {z: 3}\nc:\n  <<: [*a, *b]\n  x: 9\nd:\n  <<: *a\n  y: 8\ne: *a\n")
    a = {"x": 1, "y": 2}
    assert read_tree(path) == {"a": a, "b": {"z": 3}, "c": {"x": 9, "y": 2, "z": 3}, "d": {"x": 1, "y": 8}, "e": a}


@pytest.mark.parametrize("text", [f"seed: {'[' * 10_000}{']' * 10_000}", f"seed: {'{a: ' * 10_000}1{'}' * 10_000}"])
def test_ten_thousand_levels_are_refused(text, tmp_path):
    path = tmp_path / "params.yaml"
    path.write_text(text)
    with pytest.raises(InputError, match=r"params\.yaml nests sections too deeply to be read; four levels are enough"):
        read_tree(path)


@pytest.mark.timeout(20)
def test_a_pipe_in_its_place_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "params.yaml")
    with pytest.raises(InputError, match=r"cannot read .*params\.yaml: Is a pipe or a device, not a file"):
        read_tree(tmp_path / "params.yaml")


@pytest.mark.parametrize(
    ("value", "seen"),
    [
        ([1] * 10**6, "[1, 1, 1, 1, 1, 1, 1, 1, ...]"),
        ("x" * 10**6, f"'{'x' * 37}...{'x' * 38}'"),
        (16**50_000, "a number of thousands of digits"),
        (10**30, str(10**30)),
        ([[[1]]], "[[[...]]]"),
        ({str(i): ["y" * 60] * 8 for i in range(8)}, "{'0': ['"),
        ({"plain": [1, 2.5, None]}, "{'plain': [1, 2.5, None]}"),
    ],
    ids=["list", "text", "digits", "number", "levels", "section", "plain"],
)
def test_a_long_value_is_cut_in_its_sentence(value, seen):
    assert shown(value).startswith(seen)
    assert len(shown(value)) <= 203
    assert refusal({"linear.patience": value}).startswith(f"linear.patience: {shown(value)} refused; ")


def test_a_file_that_is_no_text_is_refused(tmp_path):
    path = tmp_path / "params.yaml"
    path.write_bytes(b"\xff\xfe\x00s")
    with pytest.raises(InputError, match=r"params\.yaml is not text in UTF-8 \(.*byte 0xff.*\); save it as such"):
        load_params(path)


@pytest.mark.parametrize(("text", "held"), [("", "NoneType"), ("# a comment", "NoneType"), ("- seed", "list")])
def test_a_file_without_keys_is_refused(text, held, tmp_path):
    path = tmp_path / "params.yaml"
    path.write_text(text)
    with pytest.raises(InputError, match=rf"params\.yaml holds {held}, expected keys and values"):
        load_params(path)


def test_a_key_that_is_no_text_is_refused(tmp_path):
    path = tmp_path / "params.yaml"
    path.write_text(yaml.safe_dump(TREE | {1: 2}))
    with pytest.raises(InputError, match="keys should be strings"):
        load_params(path)
