"""Sections of params.yaml to samplers, neighbours, annealing and bounds; and what needs no pydantic."""

import inspect

import pytest
from settings import TREE, load

from annulus.bounds.alpha import CPC, MLCPC
from annulus.bounds.build import build_bound
from annulus.bounds.infonce import InfoNCE
from annulus.bounds.la import LocalAggregation
from annulus.errors import InputError
from annulus.methods.build import method_class
from annulus.methods.contrast import ContrastConfig
from annulus.methods.critics import build_critic
from annulus.negatives.build import build_annealing, build_neighbours, build_sampler
from annulus.negatives.clusters import Clustering
from annulus.negatives.neighbours import CloseNeighbours, ClusterNeighbours
from annulus.negatives.samplers import Cave, Ring


def test_samplers_have_the_borders_and_clusterings_of_params_yaml():
    found = {name: build_sampler(section) for name, section in load({}).samplers}
    assert found == {
        "uniform": Ring(inner=0.0, outer=1.0),
        "ball": Ring(inner=0.0, outer=0.1),
        "ring": Ring(inner=0.01, outer=0.1),
        "cave": Cave(0.1, "outside", Clustering(clusters=300, iterations=20, runs=1)),
    }


def test_neighbours_and_bounds_are_those_of_params_yaml():
    sets = load({}).neighbour_sets
    assert build_neighbours(sets.none) is None
    assert build_neighbours(sets.s) == CloseNeighbours(share=0.01, start=0.05, until=0.5, in_denominator=False)
    assert build_neighbours(sets.k) == ClusterNeighbours(
        Clustering(clusters=300, iterations=20, runs=10), start=0.05, in_denominator=False
    )
    bounds = load({"bounds.cpc.eqco_alpha": 64.0}).bounds
    assert build_bound(bounds.infonce) == InfoNCE()
    assert build_bound(bounds.la) == LocalAggregation()
    assert build_bound(bounds.cpc) == CPC(alpha=1.0, eqco_alpha=64.0)
    assert build_bound(bounds.mlcpc) == MLCPC(alpha_start=10.0, alpha_end=0.1, divide_by_alpha=False)
    partition, section = build_bound(bounds.binary_nce).partition, TREE["bounds"]["binary-nce"]
    assert {name: getattr(partition, name) for name in section} == section


@pytest.mark.parametrize("build", [build_sampler, build_neighbours, build_annealing, build_bound, method_class])
def test_a_section_that_nothing_is_known_for_is_refused(build):
    with pytest.raises(TypeError, match=r"^no .* (is|are) known for KnnParams$"):
        inspect.unwrap(build)(load({}).knn)  # the checks of types in tests would refuse it first


def test_an_unknown_critic_is_refused():
    with pytest.raises(InputError, match=r"^critic 'cosine' is none of dot, bilinear, concat-linear, mlp-1, mlp-2$"):
        inspect.unwrap(build_critic)("cosine", 8, 0.07, 0)


def test_a_bound_of_one_positive_refuses_neighbours():
    message = r"^MLCPC takes one positive per query, but CloseNeighbours gives several; choose another bound, or no n"
    with pytest.raises(InputError, match=message):
        ContrastConfig(Ring(0.0, 1.0), CloseNeighbours(0.1, 0.0, 0.5, True), MLCPC(1.0, 1.0), 5)
