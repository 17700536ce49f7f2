"""Networks compiled by torch take the steps of networks that are not."""

import pytest
from compiled_steps import found


def test_compiled_steps_are_those_of_plain_ones_and_each_network_is_one_graph_compiled_once():
    """MoCo has a network that learns, and one without gradient that is normalised in groups."""
    steps = found("moco", "cpu", "yes")
    for name, plain in steps["plain"].items():
        assert steps["compiled"][name] == pytest.approx(plain, rel=1e-5, abs=1e-7), name
    assert steps["graphs"] == 2
    assert not steps["breaks"]
