"""Shapes and types are checked while tests run; in a run of quick tests only in a test's first calls of a function."""

import math

import conftest
import pytest
import torch
from jaxtyping import TypeCheckError

from annulus.bounds.infonce import infonce
from annulus.negatives.samplers import Ball

GOOD, WRONG = (torch.zeros(3, 1), torch.zeros(3, 4)), (torch.zeros(3), torch.zeros(4))


def test_a_wrong_shape_and_a_wrong_field_are_refused():
    infonce(*GOOD)
    with pytest.raises(TypeCheckError, match="parameters of annulus"):
        infonce(*WRONG)
    with pytest.raises(TypeCheckError, match="outer"):
        Ball(outer="half")


@pytest.mark.parametrize(("most", "refused"), [(math.inf, 3), (2, 2)])
def test_the_first_calls_in_a_test_are_checked_and_without_a_limit_all(monkeypatch, most, refused):
    def shape(scores: torch.Tensor) -> None: ...

    monkeypatch.setattr(conftest, "most_calls", most)
    sentences = []
    for _ in range(3):
        inner = conftest.checked(shape, typechecker=conftest.check)  # a new object of the inner function at each call
        try:
            inner("no tensor")
        except TypeCheckError as error:
            sentences.append(str(error))
    assert len(sentences) == refused


@pytest.mark.parametrize(("expression", "most"), [("not slow", conftest.FIRST_CALLS), ("", math.inf)])
def test_only_a_run_of_quick_tests_has_a_limit(monkeypatch, pytestconfig, expression, most):
    monkeypatch.setattr(pytestconfig.option, "markexpr", expression)
    monkeypatch.setattr(conftest, "most_calls", None)
    conftest.pytest_configure(pytestconfig)
    assert conftest.most_calls == most
