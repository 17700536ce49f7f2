"""Sections made by hand and read from a file: rules that are functions, and keys that a file may lack."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import pytest

from annulus.errors import InputError
from annulus.settings import Fraction, Rule, Section, Steps
from annulus_lab.config.file import checked
from annulus_lab.config.params import choice_section, filled, plain


def even(number: int) -> None:
    if number % 2:
        raise InputError(f"{number} is odd; take {number + 1}")


Even = Annotated[int, Rule(even)]


@dataclass(frozen=True, kw_only=True)
class Whole(Section):
    pairs: Even
    more: list[Even]
    name: str = "plain"


@dataclass(frozen=True, kw_only=True)
class Lacking(Whole):
    optional = True


@dataclass(frozen=True)
class Bounded(Section):
    share: Fraction
    steps: Steps | None


def test_a_rule_refuses_a_value_by_its_key_and_where_a_section_is_made_by_hand():
    tree = {"pairs": 2, "more": [4, 5], "name": "own"}
    with pytest.raises(InputError, match=r"^study: more\.1: 5 is odd; take 6$"):
        checked(tree, "study", Whole)
    with pytest.raises(InputError, match=r"^study: pairs: 3 is odd; take 4$"):
        checked({"pairs": 3, "more": [], "name": "own"}, "study", Whole)
    with pytest.raises(InputError, match=r"^3 is odd; take 4$"):
        Whole(pairs=3, more=[])
    with pytest.raises(InputError, match=r"^pairs 'two': give a whole number$"):
        Whole(pairs="two", more=[])


def test_a_class_that_is_no_dataclass_is_named_with_a_way_out():
    class Own(Section):
        share: Fraction

    with pytest.raises(InputError, match=r"test_settings: Own is not a dataclass, .*; write @dataclass\(frozen=True\)"):
        choice_section("Sections", {"own": Own})


def test_a_number_of_numpy_and_one_that_may_be_none_are_checked_as_python_s_own():
    assert Bounded(share=np.float32(0.5), steps=np.int64(3)) == Bounded(share=0.5, steps=3)
    assert Bounded(share=0.5, steps=None).steps is None
    for steps in (0, 1.5, np.float32(1), "3", True):
        with pytest.raises(InputError, match=r"^steps .*: give a whole number from 1 to"):
            Bounded(share=0.5, steps=steps)


def test_a_file_may_lack_only_the_optional_keys_of_a_section_that_says_so():
    tree = {"pairs": 2, "more": [4]}
    with pytest.raises(InputError, match=r"^study: name: missing"):
        checked(tree, "study", Whole)
    assert checked(tree, "study", Lacking) == Lacking(pairs=2, more=[4], name="plain")
    with pytest.raises(InputError, match=r"^study: more: missing"):
        checked({"pairs": 2}, "study", Lacking)


def test_a_section_is_written_to_a_file_of_settings_and_read_back_and_another_version_s_is_refused():
    section = Whole(pairs=2, more=[4], name="own")
    assert filled(Whole, plain(section)) == section
    with pytest.raises(InputError, match=r"do not fit this version of the code \(.*pairs.*\); run `dvc repro`$"):
        filled(Whole, plain(section) | {"pairs": "2"})
