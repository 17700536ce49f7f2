"""The oracle: negatives from other classes and positives from the query's class. A run must have labels."""

from dataclasses import replace

import method_cases as cases
import pytest
import torch
from plain_objectives import ranked_others, sets_of
from settings import CPU, read, stripes
from settings import run as small_run

from annulus.errors import InputError
from annulus.negatives.clusters import Clusters
from annulus.negatives.neighbours import ClassNeighbours
from annulus.negatives.other_class import OtherClass
from annulus.training.setup import build_training

pytestmark = pytest.mark.usefixtures("untouched_global_randomness")

QUERIES, ROWS, CLASSES = 35, 101, 4
ORACLE = {"sampler": "other-class", "anneal": "none"}


@pytest.fixture
def scores(generator):
    return torch.randn(QUERIES, ROWS, generator=generator)


@pytest.fixture
def labels(generator):
    return torch.randint(CLASSES, (ROWS,), generator=generator)


@pytest.mark.parametrize(
    ("outer", "progress", "kept"), [(1.0, 1.0, 100), (1.0, 0.0, 100), (0.3, 1.0, 30), (0.3, 0.5, 65)]
)
def test_its_set_is_the_plain_one_and_it_draws_each_row_of_the_set(outer, progress, kept, scores, labels):
    own, sampler = torch.arange(QUERIES), OtherClass(outer=outer)
    clusters = Clusters(labels[None], labels[None, own])
    whole = sampler.draw(scores, own, "all", torch.Generator().manual_seed(0), progress, clusters)
    drawn = sampler.draw(scores, own, 3000, torch.Generator().manual_seed(0), progress, clusters)
    for query, (rows, some) in enumerate(zip(sets_of(whole), drawn.index.tolist(), strict=True)):
        plain = [row for row in ranked_others(scores[query], [query])[:kept] if labels[row] != labels[query]]
        assert sorted(rows) == sorted(plain)
        assert {*some} == {*plain}


def test_an_empty_set_names_the_class_and_the_way_out(scores):
    one = Clusters(torch.zeros(1, ROWS, dtype=torch.int64), torch.zeros(1, QUERIES, dtype=torch.int64))
    with pytest.raises(
        InputError, match=r"35 queries have no candidate negatives .* of the query's own class\). Incre"
    ):
        OtherClass(outer=0.1).draw(scores, None, "all", torch.Generator(), 1.0, one)


@pytest.mark.parametrize("name", cases.PARAMS)
def test_of_each_method_no_negative_is_of_the_query_s_class_and_class_neighbours_are_the_rest(name, monkeypatch):
    seen = []

    class Watched(OtherClass):
        def draw(self, scores, self_index, k, generator, progress=1.0, clusters=None):
            drawn = super().draw(scores, self_index, k, generator, progress, clusters)
            neighbours = ClassNeighbours(start=0.0, in_denominator=True).find(scores, self_index, 0.5, clusters)
            seen.append((scores, self_index, clusters, drawn.marked(scores), neighbours.marked(scores)))
            return drawn

    method = cases.method_of(cases.PARAMS[name], cases.config_of(Watched(outer=1.0)))
    labels = torch.arange(cases.IMAGES) % 3
    method.set_classes(labels)
    seen.clear()  # the trial on made-up scores
    method.loss(cases.VIEWS[cases.Given], cases.INDEX)
    [(scores, own, clusters, negatives, neighbours)] = seen
    columns = clusters.columns[0].expand(len(scores), -1)
    queries = labels[cases.INDEX.repeat(method.queries_per_image)].tolist()
    mine = [[]] * len(scores) if own is None else own.view(len(scores), -1).tolist()
    left_out = []
    for query, label in enumerate(queries):
        others = [column for column in range(scores.shape[1]) if column not in mine[query]]
        same = [column for column in others if columns[query, column] == label]
        marked = negatives[query].nonzero().flatten().tolist()
        assert not {*marked} & {*same}
        left_out += [len(others) - len(same) - len(marked)]
        assert neighbours[query].nonzero().flatten().tolist() == same
    assert max(left_out) <= (name == "moco"), "without a key in the queue, the ball leaves out the last rank"


def test_a_query_before_its_classes_says_so_and_labels_are_checked():
    contrast = replace(
        cases.config_of(OtherClass(outer=1.0)), neighbours=ClassNeighbours(start=0.0, in_denominator=True)
    )
    method = cases.method_of(cases.PARAMS["ir"], contrast)
    with pytest.raises(InputError, match=r"OtherClass or the neighbours need the class of .*; call .* set_classes\(la"):
        method.loss(cases.VIEWS[cases.Given], cases.INDEX)
    for wrong in (torch.arange(5), torch.full((cases.IMAGES,), -1)):
        with pytest.raises(InputError, match=r"or below 0; give a class \(41,\) for each training image"):
            method.set_classes(wrong)


def test_a_run_gives_its_labels_and_one_without_labels_is_refused_before_it_starts():
    training = small_run(ORACLE | {"neighbours": "class"})
    contrast = training.method.contrasts[0]
    assert contrast.clusters[0].tolist() == contrast.neighbour_clusters[0].tolist() == [0, 1] * 35
    assert training.run()[-1]["loss_nats"] > 0
    images, run = stripes(70, 0), read(ORACLE)
    some = replace(images, labels=images.labels.where(torch.arange(70) > 9, -1))
    with pytest.raises(
        InputError, match=r"sampler: other-class and .* read the class .*, and 10 of 70 have none; take"
    ):
        build_training(run, some, stripes(10, 1), CPU)
    one = replace(images, labels=torch.zeros(70, dtype=torch.int64))
    with pytest.raises(InputError, match="need two classes, and all 70 training images are of one, across; take"):
        build_training(run, one, stripes(10, 1), CPU)
