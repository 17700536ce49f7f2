"""params.yaml is read whole, and every fault becomes one sentence with its full key and the way out."""

import math
import os

import pytest
import yaml
from by_path import ROOT
from dvc.utils.hydra import apply_overrides
from settings import changed, refusal
from stated import MISSING, TREE, stated_params

from annulus.errors import InputError, abridge
from annulus_lab.config import tree
from annulus_lab.config.file import load_params
from annulus_lab.config.tree import read_tree

BEGINNINGS = {  # of the sentence for a value at a key
    "sampelr": (1, "unknown key; did you mean 'sampler'? (known: "),
    "samplers.rign": (1, "unknown key; did you mean 'ring'? (known: "),
    "samplers.ring.otter": (1, "unknown key; did you mean 'outer'? (known: outer, inner)"),
    "samplers.ring.xyz": ({}, "unknown key (known: outer, inner)"),
    "view_sets.standard.crop.scale_mim": (1, "unknown key; did you mean 'scale_min'? (known: "),
    "samplers.cave.clusters": ("0", "'0' refused; input should be a valid integer"),
    "datasets.shapes.image_size": (True, "True refused; input should be a valid integer"),
    "scales.tiny.pretrain.epochs": ([], "[] refused; input should be a valid integer"),
    "samplers.ball.outer": (math.nan, "nan refused; input should be a finite number"),
    "bounds.infonce.eqco_alpha": (math.inf, "inf refused; input should be a finite number"),
    "samplers.cave": (3, "3 refused; expected keys and values, or {} for none"),
    "scales.demo.pretrain": ([1], "[1] refused; expected keys and values, or {} for none"),
    "view_sets.standard.crop": ("text", "'text' refused; expected keys and values, or {} for none"),
    "methods.ir.critic": ("zzz", "'zzz' refused; input should be 'dot', 'bilinear', 'concat-linear', 'mlp-1' or "),
}


def test_a_key_or_value_that_is_wrong_is_named_in_full_each_on_its_line():
    for key, (value, sentence) in BEGINNINGS.items():
        assert refusal({key: value}).startswith(f"{key}: {sentence}")
    for key in ("seeds", "samplers", "samplers.cave.keep", "scales.paper.pretrain.queue"):
        assert refusal({key: MISSING}) == f"{key}: missing; it has no default: write a value"
    assert refusal({"seeds": []}) == "seeds: [] refused; list should have at least 1 item after validation, not 0"
    assert len(refusal({"samplers.ring.outer": 2.0, "seeds": [-1], "sampelr": "ring"}).splitlines()) == 3


@pytest.fixture
def path(tmp_path):
    return tmp_path / "params.yaml"


@pytest.mark.parametrize("text", ["1e-06", "1e-6", "1.e-6", ".1E-5", "+1e-6", "0.000001"])
def test_a_number_is_one_by_yaml_1_2_too_as_dvc_has_it(text, path):
    path.write_text(yaml.safe_dump(changed({"linear.weight_decay": "HERE"})).replace("HERE", text))
    assert load_params(path).linear.weight_decay == pytest.approx(1e-6, rel=1e-12)


@pytest.mark.parametrize("override", ["1e-6", "1e-06", "0.000001"])
def test_a_small_number_that_dvc_writes_for_exp_run_s_is_read_back(override, path):
    stated_params(path)
    apply_overrides(path, [f"linear.weight_decay={override}"])
    assert "weight_decay: 1e-06" in path.read_text(), "what YAML 1.1 takes for text"
    assert load_params(path).linear.weight_decay == 1e-6


@pytest.mark.parametrize("text", ["'1e-4'", "1e-4x", "0,1", "1e", "e5"])
def test_text_in_the_place_of_a_number_is_said_to_be_and_the_way_out(text, path):
    path.write_text(yaml.safe_dump(changed({"optimizer.weight_decay": "HERE"})).replace("HERE", text))
    with pytest.raises(InputError, match=r"weight_decay: '.*' is text to YAML; write a number, such as 1\.0e-4$"):
        load_params(path)


def test_what_cannot_be_read_is_named(path, tmp_path):
    with pytest.raises(InputError, match=r"cannot read .*params\.yaml: No such file or directory"):
        load_params(path)
    with pytest.raises(InputError, match=r"cannot read .*: Is a directory"):
        load_params(tmp_path)
    path.write_bytes(b"\xff\xfe\x00s")
    with pytest.raises(InputError, match=r"params\.yaml is not text in UTF-8 \(.*byte 0xff.*\); save it as such"):
        load_params(path)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(InputError, match=r"cannot read .*params\.yaml: Is a pipe or a device, not a file"):
        read_tree(path)


def test_libyaml_reads_what_python_reads():
    assert tree._QuickLoader is not tree._Loader, "PyYAML comes with libyaml"
    for path in (ROOT / f"stages/{name}/params.yaml" for name in ("law", "cifar10_negatives", "algorithms")):
        text = path.read_text()
        assert repr(yaml.load(text, tree._QuickLoader)) == repr(yaml.load(text, tree._Loader)), path


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("seed: [", r"params\.yaml is not YAML: .*line \d, column \d+"),
        (f"seed: {'[' * 10_000}{']' * 10_000}", r"nests sections too deeply to be read; four levels are enough"),
        ("# a comment", r"params\.yaml holds NoneType, expected keys and values"),
        ("- seed", r"params\.yaml holds list, expected keys and values"),
        (yaml.safe_dump(TREE | {1: 2}), "keys should be strings"),
        ("a: 1\nb: 2\na: 3\n", "YAML: 'a' stands twice, in line 1 and line 3; delete one of them$"),
        ("s:\n  r: {x: 1}\n  t: 0\n  r: 2\n", "YAML: 'r' stands twice, in line 2 and line 4; delete one of them$"),
        ("a: &a {x: 1,\n  x: 2}\nb: {<<: *a}\n", "YAML: 'x' stands twice, in line 1 and line 2; delete one of them$"),
        ("a: &a {}\nb: {<<: *a, <<: *a}\n", r"'<<' stands twice, in line 2 and line 2; write `<<: \[\*one, \*other\]`"),
        ("day: 2026-99-99\n", "YAML: '2026-99-99' in line 1 looks like timestamp and is none; quote it$"),
        ("a: b\t # c\n", r"YAML: .*found character '\\t' that cannot start any token"),
        ("a: 010\n", "YAML: '010' in line 1 is not the same to YAML 1.1 and 1.2; write it in decimal without leading"),
        ("a: 1:30\n", "YAML: '1:30' in line 1 is not the same to YAML 1.1 and 1.2"),
        (f"seed: {'9' * 5000}\n", rf"'{'9' * 37}\.\.\.{'9' * 38}' in line 1 looks like int and is none; quote it$"),
    ],
    ids=range(14),
)
def test_yaml_that_holds_no_keys_or_would_lose_or_misread_a_value_is_refused_with_its_lines(text, sentence, path):
    path.write_text(text)
    with pytest.raises(InputError, match=sentence) as refused:
        load_params(path)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("value", "start"),
    [
        ("x" * 10**6, f"'{'x' * 37}...{'x' * 38}'"),
        (16**50_000, "a number of thousands of digits"),
        ({str(i): ["y" * 60] * 8 for i in range(8)}, "{'0': ['"),
        ({"plain": [1, 2.5, None]}, "{'plain': [1, 2.5, None]}"),
    ],
    ids=["text", "digits", "section", "plain"],
)
def test_a_long_value_is_cut_in_its_sentence(value, start):
    assert abridge(value).startswith(start)
    assert len(abridge(value)) <= 203
    assert refusal({"linear.patience": value}).startswith(f"linear.patience: {abridge(value)} refused; ")
