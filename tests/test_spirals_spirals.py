"""The spirals: their geometry, their views, a plain step of training, and a read-out whose answer is known."""

import math
from argparse import Namespace
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from by_path import script

from annulus.errors import InputError
from annulus_lab.config.params import plain
from annulus_lab.studies.spirals import spirals as module
from annulus_lab.studies.spirals.spirals import (
    build_encoder,
    curve_rows,
    plane_rows,
    read_out,
    row,
    spirals,
    train_encoder,
    train_spirals,
    view,
)
from annulus_lab.studies.spirals.spirals_params import SearchParams, SpiralsParams

pytestmark = pytest.mark.usefixtures("untouched_global_randomness")
COUNTS = {"points": 60, "test_points": 40, "batch_size": 8, "negatives": 7, "iterations": 6}
RATES = {"learning_rate": 0.03, "momentum": 0.9, "weight_decay": 1e-5, "temperature": 0.2, "bank_rate": 0.5}
SHOWN = {"curve_points": 3, "shown_points": 5}
SHAPE = {"turns": 1.0, "inner": 0.25, "noise": [0.0, 0.5], "start": "he", "hidden": 16, "layers": 2}
PARAMS = SpiralsParams(**SHAPE, **COUNTS, **RATES, **SHOWN)


def test_one_spiral_spins_clockwise_and_one_counter_clockwise_and_they_cross_twice_a_turn(generator):
    points, labels = spirals(4000, 1.5, 0.25, generator)
    assert points.abs().max() <= 2
    assert labels.bincount().tolist() == [2000, 2000]
    radius = points.norm(dim=1)
    angle = torch.atan2(points[:, 1], points[:, 0])
    angle = torch.where(labels == 0, angle, math.pi - angle)  # the second starts at the left, clockwise
    share = (radius / 2 - 0.25) / 0.75
    assert ((angle - 3 * math.pi * share).cos() > 1 - 1e-4).all(), "the angle grows in a line with the radius"
    assert abs((share < 0.5).double().mean() - 0.5) < 4 * math.sqrt(0.25 / 4000), "evenly over the angle"
    first, second = points[labels == 0], points[labels == 1]
    near = first[torch.cdist(first, second).min(dim=1).values < 0.02]
    assert near[:, 0].abs().max() < 0.15, "they cross above and below their middle"
    crossed = 2 * (0.25 + 0.75 * (torch.arange(3) + 0.5) / 3) * torch.tensor([1.0, -1.0, 1.0])
    assert torch.cdist(near[:, 1:], crossed[:, None]).min(dim=0).values.max() < 0.05, "three times in 1.5 turns"


def test_a_view_adds_up_to_its_noise_to_each_coordinate(generator):
    points = torch.zeros(5000, 2)
    seen = view(points, 0.4, generator)
    assert seen.min() >= 0
    assert seen.max() <= 0.4
    assert seen.mean(dim=0).tolist() == pytest.approx([0.2, 0.2], abs=0.01)
    assert not torch.equal(seen[:, 0], seen[:, 1])
    assert torch.equal(view(points, 0.0, generator), points)


def test_training_is_ir_written_plainly():
    """Three steps: a softmax over each point's own row and the other drawn rows, SGD, the bank's average."""
    every = replace(PARAMS, iterations=3, weight_decay=0.1)
    train, encoder, plain = spirals(60, 1.0, 0.25, seeded(0)), build_encoder(every, 3), build_encoder(every, 3)
    losses = train_encoder(encoder, train, every, 0.5, 3)
    seen, order, draws = (module.generator(3, name) for name in ("views", "order", "negatives"))
    with torch.no_grad():
        bank = F.normalize(plain(view(train.points, 0.5, seen)), dim=1)
    speeds = [torch.zeros_like(weight) for weight in plain.parameters()]
    for value in losses:
        index = torch.randint(60, (8,), generator=order)
        queries = F.normalize(plain(view(train.points[index], 0.5, seen)), dim=1)
        drawn, losses_of_points = torch.randint(60, (7,), generator=draws), []
        for query, point in zip(queries, index, strict=True):
            others = [row for row in drawn if row != point]
            scores = torch.stack([query @ bank[row] / 0.2 for row in (point, *others)])
            losses_of_points.append(scores.logsumexp(dim=0) - scores[0])
        loss = torch.stack(losses_of_points).mean()
        assert value == pytest.approx(loss.item(), rel=1e-5)
        slopes = torch.autograd.grad(loss, list(plain.parameters()))
        with torch.no_grad():
            for weight, slope, speed in zip(plain.parameters(), slopes, speeds, strict=True):
                speed.mul_(0.9).add_(slope + 0.1 * weight)
                weight -= 0.03 * speed
            for point in index.unique():
                mine = queries[index == point].mean(dim=0)
                bank[point] = F.normalize(0.5 * bank[point] + 0.5 * mine, dim=0)


def seeded(seed):
    return torch.Generator().manual_seed(seed)


def test_the_read_out_separates_what_a_line_separates_and_nothing_else(generator):
    points = torch.randn(2000, 2, generator=generator) * torch.tensor([1.0, 30.0])
    line, ring = (points[:, 0] > 0.3).long(), (points[:, 0].abs() > 0.67).long()
    half = slice(None, 1000), slice(1000, None)
    for labels, expected in ((line, pytest.approx(100, abs=1)), (ring, pytest.approx(50, abs=6))):
        assert read_out(points[half[0]], labels[half[0]], points[half[1]], labels[half[1]]) == expected


def test_each_setting_of_the_search_changes_what_it_names_and_weights_start_by_their_rule():
    settings = {"as it is": {}, "start of PyTorch": {"start": "torch", "hidden": 64}}
    variants = SearchParams(iterations=3, noise=[0.4], settings=settings).variants(PARAMS, "study")
    assert variants["as it is"] == replace(PARAMS, iterations=3, noise=[0.4])
    uniform = build_encoder(variants["start of PyTorch"], 0)[2]  # 64 inputs: all weights and biases within 1 / 8
    assert 0.124 < uniform.weight.abs().max() <= 0.125
    assert 0 < uniform.bias.abs().max() <= 0.125
    assert not build_encoder(PARAMS, 0)[2].bias.any(), "by He's rule biases start at 0"
    with pytest.raises(ValueError, match=r"^study\.typo: turn: unknown key; did you mean 'turns'\?"):
        SearchParams(iterations=3, noise=[0.4], settings={"typo": {"turn": 1.0}}).variants(PARAMS, "study")
    with pytest.raises(ValueError, match=r"^study\.few: .*curve_points: 3 of 2 iterations; .* take fewer points$"):
        SearchParams(iterations=2, noise=[0.4], settings={"few": {}}).variants(PARAMS, "study")


def test_a_piece_repeats_itself_and_its_row_is_over_seeds():
    first, again, other = (train_spirals(PARAMS, (0.5, seed)) for seed in (0, 0, 1))
    assert first == again
    assert first["curve"] != other["curve"]
    assert len(first["curve"]) == 3
    assert len(first["plane"]) == len(first["labels"]) == 5
    assert first["points"] == train_spirals(PARAMS, (0.0, 0))["points"], "the coordinates know nothing of the views"
    both = {0: first, 1: other}
    line = row(PARAMS, 0.5, both, both)
    assert line["verdict"] == "base"
    assert line["ceiling_nats"] == pytest.approx(math.log(8))
    assert line["bound_nats"] == pytest.approx(math.log(8) - (first["curve"][-1] + other["curve"][-1]) / 2)


@pytest.mark.parametrize("name", ["spirals", "search"])
def test_a_further_noise_changes_no_training_of_the_others(name, monkeypatch):
    stage, calls = script(f"stages/spirals/{name}.py"), []
    monkeypatch.setattr(stage.ResumableTasks, "run", lambda _, tasks: calls.append(tasks) or 1 / 0)
    for noise in ([0.0], [0.0, 0.5]):
        params = plain(replace(PARAMS, noise=noise))
        with pytest.raises(ZeroDivisionError):
            stage.main({"params": params, "settings": {"one": params}, "seeds": [0, 1], "scale": "tiny"}, Namespace())
    assert calls[0].items() < calls[1].items()


def test_read_outs_are_of_unseen_points_by_the_plane_the_circle_and_their_own_coordinates(monkeypatch):
    calls = []
    monkeypatch.setattr(module, "train_encoder", lambda *_: [1.0])
    monkeypatch.setattr(module, "read_out", lambda *arguments: calls.append(arguments) or float(len(calls)))
    result = train_spirals(PARAMS, (0.5, 3))
    train, test = (
        spirals(count, 1.0, 0.25, module.generator(3, name)) for name, count in (("points", 60), ("test points", 40))
    )
    with torch.no_grad():
        planes = [build_encoder(PARAMS, 3)(part.points) for part in (train, test)]
    circles = [F.normalize(plane, dim=1) for plane in planes]
    for arguments, (learn, seen) in zip(calls, (planes, circles, (train.points, test.points)), strict=True):
        torch.testing.assert_close(arguments, (learn, train.labels, seen, test.labels))
    assert [result[name] for name in ("accuracy", "circle", "points")] == [1, 2, 3]
    assert (result["plane"], result["labels"]) == (planes[1][:5].tolist(), test.labels[:5].tolist())


def test_rows_are_means_over_seeds_and_gains_in_pairs_of_a_seed():
    places = {"plane": [[1.0, 2.00004]], "labels": [1]}
    with_noise, without = (
        {
            seed: {"curve": [2.0, 1.5, 1.0 + seed], "accuracy": top1 + 5 * seed, "circle": 70.0, "points": 60.0}
            | places
            for seed in (0, 1)
        }
        for top1 in (90.0, 80.0)
    )
    line = row(PARAMS, 0.5, with_noise, without)
    numbers = {"seeds": 2, "top1_percent": 92.5, "circle_percent": 70, "coordinates_percent": 60, "gain_percent": 10}
    seeds = {"top1_seed0_percent": 90, "top1_seed1_percent": 95, "gain_seed0_percent": 10, "gain_seed1_percent": 10}
    assert line | numbers | seeds | {"gain_interval_percent": 0, "verdict": "better"} == line
    assert line["bound_nats"] == pytest.approx(math.log(8) - 1.5)
    curve = [(one["series"], one["x"], one["loss_nats"]) for one in curve_rows(PARAMS, {0.5: with_noise})]
    assert curve == [("noise 0.5", 2, 2.0), ("noise 0.5", 4, 1.5), ("noise 0.5", 6, 1.5)]
    assert plane_rows({0.5: with_noise}) == [{"noise": 0.5, "x": 1.0, "y": 2.0, "spiral": 1}]


def test_a_training_that_diverges_says_where_and_names_the_learning_rate():
    diverging = replace(PARAMS, learning_rate=1000.0, hidden=128, layers=4)
    with pytest.raises(InputError, match=r"not finite at iteration \d \(noise 0.5, seed 1\) with .* 1000; lower"):
        train_spirals(diverging, (0.5, 1))
