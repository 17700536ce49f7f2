"""A run's parameters as a tree for a JSON file, and back."""

import json

import pytest
from settings import load

from annulus.errors import InputError
from annulus_lab.config.resolved import IMAGES, RUN, read_settings, resolved, values

OTHERS = {"sampler": "cave", "anneal": "adaptive-epoch", "neighbours": "k", "bound": "la", "method": "moco"}
VARIANTS = [{}, OTHERS, {"sampler": "uniform", "bound": "mlcpc", "schedule": "plateau", "views": "none", "seeds": [7]}]


@pytest.mark.parametrize("changes", VARIANTS)
def test_a_tree_in_a_file_gives_the_same_values_of_the_same_types(changes):
    params = load(changes)
    for names in (RUN, IMAGES):
        actual = values(json.loads(json.dumps(resolved(params, names))), names)
        assert actual == {name: params.get(name) for name in names}
        assert [type(value) for value in actual.values()] == [type(params.get(name)) for name in names]


def test_a_tree_holds_the_chosen_sections_and_nothing_else():
    tree = resolved(load({"sampler": "cave", "anneal": "adaptive-step"}), RUN)
    assert (list(tree["samplers"]), list(tree["anneals"])) == (["cave"], ["adaptive-step"])
    assert tree["datasets"] == {"shapes": {"view_size": 20}}
    assert not {"seeds", "sampler"} & set(tree), "a run's seed stands beside, and a section says which choice it is"
    same = {"samplers.cave.clusters": 7, "methods.moco.momentum": 0.5, "dataset": "shapes"}
    assert resolved(load(same), RUN) == resolved(load({}), RUN)


def test_a_tree_of_another_version_is_one_sentence():
    sentence = r"^the settings do not fit this version of the code [^\n]*; run `dvc repro`$"
    for sampler in (3, {}, {"ring": {}, "ball": {}}, {"rnig": {}}, {"ring": {"inner": 0.5}}):
        with pytest.raises(InputError, match=sentence):
            values({"samplers": sampler}, ["samplers.${sampler}"])


def test_a_file_that_is_no_settings_file_is_one_sentence(tmp_path):
    path = tmp_path / "RING.json"
    for content in (None, b"{", b"[]", b"\xff"):
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(InputError, match=r"RING\.json is .*not a settings file.*; run `dvc repro`$"):
            read_settings(path)
