"""Networks compiled by torch take the steps of networks that are not."""

import pytest
from compiled_steps import found


@pytest.mark.slow
def test_compiled_steps_are_those_of_plain_ones_and_each_network_is_one_graph_compiled_once():
    """MoCo has a network that learns, and one without gradient that is normalised in groups."""
    steps = found("moco", "cpu", "yes")
    assert steps["compiled"]["losses"] == pytest.approx(steps["plain"]["losses"], rel=1e-4)
    assert steps["compiled"]["state"] == pytest.approx(steps["plain"]["state"], rel=1e-3, abs=1e-5)
    assert steps["graphs"] == 2
    assert not steps["breaks"]
