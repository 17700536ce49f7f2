"""params.yaml is read whole, and every fault becomes one sentence with its full key and the way out."""

import math
import os

import pytest
import yaml
from settings import MISSING, TREE, changed, refusal

from annulus.config.file import load_params, read_tree, shown
from annulus.errors import InputError


def test_an_unknown_key_is_named_in_full_with_the_nearest_and_the_known_ones_of_its_place():
    for key, meant in {
        "sampelr": "sampler",
        "samplers.rign": "ring",
        "samplers.ring.otter": "outer",
        "view_sets.standard.crop.scale_mim": "scale_min",
    }.items():
        assert refusal({key: 1}).startswith(f"{key}: unknown key; did you mean {meant!r}? (known: ")
    assert refusal({"samplers.ring.xyz": {}}) == "samplers.ring.xyz: unknown key (known: outer, inner)"


def test_a_missing_key_is_named_in_full():
    for key in ("seeds", "samplers", "samplers.cave.keep", "scales.paper.pretrain.queue"):
        assert refusal({key: MISSING}) == f"{key}: missing; every value is written in params.yaml"


def test_every_fault_gets_its_line():
    message = refusal({"samplers.ring.outer": 2.0, "seeds": [-1], "sampelr": "ring"})
    assert len(message.splitlines()) == 3


def test_a_value_outside_a_fixed_choice_is_refused_with_the_choice():
    for key, known in {
        "samplers.cave.keep": "'outside' or 'inside'",
        "methods.ir.critic": "'dot', 'bilinear', 'concat-linear', 'mlp-1' or 'mlp-2'",
    }.items():
        assert refusal({key: "zzz"}) == f"{key}: 'zzz' refused; input should be {known}"


def test_a_number_without_a_point_is_text_to_yaml_and_the_way_out_is_said(tmp_path):
    path = tmp_path / "params.yaml"
    for key in ("optimizer.weight_decay", "bounds.binary-nce.constant", "anneals.linear.until"):
        text = yaml.safe_dump(changed({key: "HERE"})).replace("HERE", "1e-4")
        path.write_text(text)
        with pytest.raises(InputError, match=rf"{key}: '1e-4' is text to YAML; write a number, such as 1\.0e-4"):
            load_params(path)
        path.write_text(text.replace("1e-4", "1.0e-4"))
        load_params(path)


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("datasets.shapes.image_size", "0", "input should be a valid integer"),
        ("datasets.shapes.image_size", True, "input should be a valid integer"),
        ("seeds", [], "list should have at least 1 item after validation, not 0"),
        ("samplers.ball.outer", math.nan, "input should be a finite number"),
        ("bounds.infonce.eqco_alpha", math.inf, "input should be a finite number"),
    ],
)
def test_a_value_of_another_type_is_refused_not_converted(key, value, expected):
    assert refusal({key: value}) == f"{key}: {value!r} refused; {expected}"


def test_a_value_where_a_section_belongs_is_refused():
    for key, value in (("samplers", 3), ("scales.demo.pretrain", [1]), ("view_sets.standard.crop", "text")):
        assert refusal({key: value}).startswith(f"{key}: {value!r} refused; input should be a valid dictionary")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "params.yaml"


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


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("seed: [", r"params\.yaml is not YAML: .*line \d, column \d+"),
        (f"seed: {'[' * 10_000}{']' * 10_000}", r"nests sections too deeply to be read; four levels are enough"),
        ("# a comment", r"params\.yaml holds NoneType, expected keys and values"),
        ("- seed", r"params\.yaml holds list, expected keys and values"),
        (yaml.safe_dump(TREE | {1: 2}), "keys should be strings"),
    ],
    ids=range(5),
)
def test_a_file_without_keys_and_values_is_refused(text, sentence, path):
    path.write_text(text)
    with pytest.raises(InputError, match=sentence) as refused:
        load_params(path)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a: 1\nb: 2\na: 3\n", "'a' stands twice, in line 1 and line 3; delete one of them"),
        ("s:\n  r: {x: 1}\n  t: 0\n  r: 2\n", "'r' stands twice, in line 2 and line 4; delete one of them"),
        ("a: &a {x: 1,\n  x: 2}\nb: {<<: *a}\n", "'x' stands twice, in line 1 and line 2; delete one of them"),
        ("a: &a {}\nb: {<<: *a, <<: *a}\n", "'<<' stands twice, in line 2 and line 2; write `<<: [*one, *other]`"),
        ("day: 2026-99-99\n", "'2026-99-99' in line 1 looks like timestamp and is none; quote it"),
        (f"seed: {'9' * 5000}\n", f"'{'9' * 37}...{'9' * 38}' in line 1 looks like int and is none; quote it"),
    ],
)
def test_yaml_that_would_lose_or_misread_a_value_is_refused_with_its_lines(text, sentence, path):
    path.write_text(text)
    with pytest.raises(InputError) as refused:
        read_tree(path)
    assert str(refused.value) == f"{path} is not YAML: {sentence}"


@pytest.mark.parametrize(
    ("value", "seen"),
    [
        ("x" * 10**6, f"'{'x' * 37}...{'x' * 38}'"),
        (16**50_000, "a number of thousands of digits"),
        ({str(i): ["y" * 60] * 8 for i in range(8)}, "{'0': ['"),
        ({"plain": [1, 2.5, None]}, "{'plain': [1, 2.5, None]}"),
    ],
    ids=["text", "digits", "section", "plain"],
)
def test_a_long_value_is_cut_in_its_sentence(value, seen):
    assert shown(value).startswith(seen)
    assert len(shown(value)) <= 203
    assert refusal({"linear.patience": value}).startswith(f"linear.patience: {shown(value)} refused; ")
