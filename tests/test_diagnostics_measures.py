"""Measures of snapshots: closed forms and slow references, and the stage from a small run of every method."""

import logging
from argparse import Namespace
from pathlib import Path

import diagnostics as stage
import pytest
import torch
import torch.nn.functional as F
from settings import CPU, SMALL, chosen, load, run, stripes

from annulus.diagnostics import measures as module
from annulus.diagnostics import membership
from annulus.diagnostics.measures import Snapshot, load_run, measure, over_training
from annulus.diagnostics.membership import CandidateSets, members
from annulus.encoders.extract import extract
from annulus.encoders.features import save_features
from annulus.errors import InputError
from annulus.evals.geometry import alignment, effective_rank, tolerance, uniformity
from annulus.files.images import UNLABELLED, save_images
from annulus.files.packed import read_packed, write_packed
from annulus.files.results import write_table
from annulus.negatives.samplers import Ball, Ring, Uniform
from annulus.training.snapshots import Snapshots


def directions(*shape, seed=0) -> torch.Tensor:
    return F.normalize(torch.randn(*shape, generator=torch.Generator().manual_seed(seed)), dim=-1)


def test_staleness_is_one_minus_the_cosine_over_what_is_stored():
    memory, current = directions(6, 4), directions(6, 4, seed=1)
    memory[[1, 4]] = 0  # a queue without keys of these images
    cosines = [
        sum(a * b for a, b in zip(memory[row].tolist(), current[row].tolist(), strict=True)) for row in (0, 2, 3, 5)
    ]
    assert module.staleness(memory, current) == pytest.approx(1 - sum(cosines) / 4, abs=1e-6)
    assert module.staleness(current, current) == pytest.approx(0, abs=1e-6)
    assert module.staleness(-current, current) == pytest.approx(2)
    assert module.staleness(torch.zeros(6, 4), current) is None


def snapshot(whole=True, crossed=False, memory=True, epoch=1) -> Snapshot:
    """Nine queries among 31 images, whose rows in memory differ a little from the encoder's current embeddings."""
    current, own = directions(31, 8), torch.arange(0, 27, 3)
    stored = F.normalize(current + 0.3 * directions(31, 8, seed=1), dim=1)
    near = [F.normalize(current[own] + 0.2 * directions(9, 8, seed=seed), dim=1) for seed in (2, 3)]
    return Snapshot(epoch, *near, current, stored if memory else None, own, whole, crossed)


LABELS = torch.arange(31) % 3


def candidate_sets(one: Snapshot, **samplers) -> CandidateSets:
    similarity = [queries @ rows.T for queries, rows in one.comparisons()]
    chosen = {
        name: [members(side, one.self_index, sampler) for side in similarity] for name, sampler in samplers.items()
    }
    return CandidateSets(similarity, chosen, {})


def test_queries_meet_the_bank_or_where_there_is_none_the_embeddings_of_now():
    bank, queue, batch = snapshot(), snapshot(whole=False), snapshot(whole=False, memory=False)
    for one, rows in ((bank, bank.memory), (queue, queue.current), (batch, batch.current)):
        [(queries, others)] = one.comparisons()
        assert torch.equal(queries, one.queries)
        assert torch.equal(others, rows)


def test_with_a_split_each_part_meets_the_other_part_s_rows():
    one = snapshot(crossed=True)
    (l_queries, ab_rows), (ab_queries, l_rows) = one.comparisons()
    torch.testing.assert_close(l_queries, F.normalize(one.queries[:, :4], dim=1))
    torch.testing.assert_close(ab_queries, F.normalize(one.queries[:, 4:], dim=1))
    torch.testing.assert_close(l_rows, F.normalize(one.memory[:, :4], dim=1))
    torch.testing.assert_close(ab_rows, F.normalize(one.memory[:, 4:], dim=1))


@pytest.mark.parametrize("crossed", [False, True])
def test_a_positive_is_the_own_row_of_a_bank_else_the_other_view(crossed):
    one = snapshot(crossed=crossed)
    values = [(queries @ rows.T)[torch.arange(9), one.self_index].mean() for queries, rows in one.comparisons()]
    assert one.positive_similarity() == pytest.approx(torch.stack(values).mean().item())
    views = snapshot(whole=False, crossed=crossed)
    expected = F.cosine_similarity(views.queries, views.second).mean().item()
    assert views.positive_similarity() == pytest.approx(expected)


@pytest.mark.parametrize("crossed", [False, True])
def test_the_numbers_of_a_snapshot_are_those_of_its_parts_and_means_over_its_sides(crossed):
    one, ring = snapshot(crossed=crossed), Ring(inner=0.1, outer=0.5)
    sets = candidate_sets(one, uniform=Uniform(), ring=ring, training=Ball(0.3))
    numbers = measure(one, sets, LABELS)
    assert numbers["alignment"] == alignment(one.queries, one.second)
    assert numbers["uniformity"] == uniformity(one.current)
    assert numbers["effective_rank"] == effective_rank(one.current)
    assert numbers["staleness"] == module.staleness(one.memory, one.current)
    borders = [membership.radii(*side) for side in zip(sets.similarity, sets.chosen["ring"], strict=True)]
    assert numbers["ring_inner_similarity"] == pytest.approx(sum(inner for inner, _ in borders) / len(borders))
    assert numbers["ring_outer_similarity"] == pytest.approx(sum(outer for _, outer in borders) / len(borders))
    assert numbers["false_negatives_chance_percent"] == membership.chance_percent(LABELS)
    for name, comparisons in sets.chosen.items():
        rates = [membership.false_negative_percent(chosen, LABELS, one.self_index) for chosen in comparisons]
        assert numbers[f"false_negatives_{name}_percent"] == pytest.approx(sum(rates) / len(rates))
    assert numbers["tolerance"] == tolerance(one.current, LABELS)
    fewer = LABELS.masked_fill(LABELS == 0, UNLABELLED)
    expected = {name: value for name, value in numbers.items() if not name.startswith("false_negatives")}
    assert measure(one, sets, fewer) == expected | {"tolerance": tolerance(one.current, fewer)}


ROW = {"bound_nats": 1.5, "ceiling_nats": 6.0, "inner_share": 0.0, "outer_share": 1.0}
ANNEALED = ROW | {"bound_nats": -1.5, "inner_share": 0.1, "outer_share": 0.5}
SAMPLERS = {
    "uniform": Uniform(),
    "ball": Ball(0.5),
    "ring": Ring(inner=0.1, outer=0.5),
}


def make_run(*snapshots: Snapshot) -> module.RunSnapshots:
    return module.RunSnapshots(snapshots, torch.arange(31), snapshots[0].self_index, 31, 0.2)


def test_the_set_of_training_is_the_selected_sampler_s_as_annealing_had_left_it():
    run = make_run(snapshot(epoch=2), snapshot(epoch=4))
    rows, sets = over_training(run, {1: ROW, 2: ROW, 3: ANNEALED, 4: ANNEALED}, LABELS, SAMPLERS, "ring", 0)
    assert [row["epoch"] for row in rows] == [2, 4]
    assert [row["bound_share_of_ceiling"] for row in rows] == [0.25, -0.25]
    assert rows[0]["false_negatives_training_percent"] == rows[0]["false_negatives_uniform_percent"]
    assert rows[1]["false_negatives_training_percent"] == rows[1]["false_negatives_ring_percent"]
    assert rows[1]["training_outer_similarity"] == rows[1]["ring_outer_similarity"]
    assert rows[0]["training_outer_similarity"] < rows[0]["ring_outer_similarity"]
    assert set(sets.chosen) == {*SAMPLERS, "training"}


def test_what_one_snapshot_cannot_have_no_row_has_and_it_is_said(caplog):
    """The queue holds none of these images at the second snapshot; a ball of 1 % of 30 rows is empty."""
    empty = snapshot(whole=False, epoch=2)
    run = make_run(snapshot(whole=False), Snapshot(**vars(empty) | {"memory": torch.zeros(31, 8)}))
    samplers = SAMPLERS | {"ball": Ball(0.01)}
    with caplog.at_level(logging.WARNING, logger="annulus"):
        rows, sets = over_training(run, {1: ROW, 2: ROW}, LABELS, samplers, "ring", 0)
    assert "ball" not in sets.chosen
    for row in rows:
        assert row.keys() == rows[0].keys()
        assert not {"staleness", "false_negatives_ball_percent"} & row.keys()
    [message] = [record.getMessage() for record in caplog.records]
    assert message.startswith(
        "diagnostics: ball is left out: negatives of ranks [0, 0.01) hold none of the memory's 30"
    )


def test_snapshots_that_float16_rounded_are_unit_vectors_again(tmp_path):
    images = torch.arange(31)
    rounded = {name: directions(1, 31, 64, seed=seed).half() for seed, name in enumerate(module.EMBEDDINGS)}
    tensors = rounded | {"epochs": torch.tensor([1]), "images": images, "query_images": images.clone()}
    write_packed(tmp_path / "snapshots", tensors, {"memory": "bank", "crossed": False, "train_images": 31})
    [actual] = load_run(tmp_path / "snapshots", 0.2).snapshots
    for name, vectors in rounded.items():
        exact = vectors[0].double() / vectors[0].double().norm(dim=1, keepdim=True)
        torch.testing.assert_close(getattr(actual, name).double(), exact, rtol=0, atol=1e-6)


def test_snapshots_that_do_not_fit_are_refused(tmp_path):
    with pytest.raises(InputError, match="pretraining's curve has no epoch 3, but there is a snapshot of it; run `dvc"):
        over_training(make_run(snapshot(epoch=3)), {1: ROW, 2: ROW}, LABELS, SAMPLERS, "ring", 0)
    write_packed(tmp_path / "other.safetensors", {"rows": torch.zeros(1)}, {})
    with pytest.raises(InputError, match=r"other\.safetensors is a file of annulus, but holds no snapshots; run `dvc"):
        load_run(tmp_path / "other.safetensors", 0.2)


def pretrain(folder: Path, changes: dict) -> Namespace:
    """Files that the earlier stages write for a small run."""
    train, test = stripes(70, 0), stripes(30, 2)
    training = run(changes)
    settings = training.settings
    file = folder / "snapshots/0.safetensors"
    training.observers.append(Snapshots(train, settings.views, settings.budget.epochs, settings.seed, CPU, file))
    write_table(folder / "curve.csv", [{"seed": 0} | row for row in training.run()])
    for split, images in (("train", train), ("test", test)):
        save_images(folder / "images" / f"{split}.safetensors", images)
        features = extract(training.method.encoder, images, ["pooled", "embedding"], CPU)
        save_features(folder / "features/0", split, features)
    files = {"curve": "curve.csv", "snapshots": "snapshots", "examples": "examples.safetensors"}
    files |= {"neighbours": "neighbours.png", "map": "map.svg"}
    return Namespace(
        images=folder / "images", features=folder / "features", **{n: folder / f for n, f in files.items()}
    )


def diagnose(paths: Namespace, changes: dict) -> tuple[dict, list[dict]]:
    """The stage's metrics and history."""
    params = load(SMALL | {"seeds": [0]} | changes)
    results = stage.main({name: params.get(name) for name in stage.READS}, paths)
    return results.seeds[0], results.history


@pytest.mark.parametrize(
    ("method", "sampler"),
    [
        ("ir", "cave"),
        ("cmc", "ring"),
        pytest.param("moco", "cave", marks=pytest.mark.slow),
        pytest.param("simclr", "ring", marks=pytest.mark.slow),
    ],
)
def test_the_stage_measures_a_run_of_every_memory(method, sampler, tmp_path, untouched_global_randomness):
    changes = chosen(method) | {"sampler": sampler}
    paths = pretrain(tmp_path, changes)
    metrics, history = diagnose(paths, changes)
    examples = read_packed(paths.examples)[0]
    assert [row["epoch"] for row in history] == [1, 2, 3]
    for name, value in history[-1].items():
        assert name == "seed" or metrics[name] == value
    assert (metrics["images"], metrics["queries"], metrics["snapshots"], metrics["cave_clusters"]) == (70, 70, 3, 20)
    assert ("staleness" in metrics) == (method in ("ir", "cmc", "moco"))
    for row in history:
        assert row["false_negatives_uniform_percent"] == pytest.approx(row["false_negatives_chance_percent"])
        assert row["false_negatives_chance_percent"] == pytest.approx(100 * 34 / 69)
        assert row["false_negatives_training_percent"] != row["false_negatives_uniform_percent"]
        assert -1 <= row["ring_outer_similarity"] <= row["ring_inner_similarity"] <= 1
        assert row["bound_share_of_ceiling"] <= 1
        assert 1 <= row["effective_rank"] <= (16 if method == "cmc" else 8)
    assert metrics["false_negatives_training_percent"] == metrics[f"false_negatives_{sampler}_percent"]
    assert examples["test_neighbours"].shape == examples["negatives_cave"].shape == (8, 8)


def test_the_stage_gives_the_same_numbers_and_bytes_again_and_refuses_other_images(tmp_path):
    paths = pretrain(tmp_path, {})
    one, again = ((diagnose(paths, {}), paths.examples.read_bytes()) for _ in range(2))
    assert one == again
    save_images(paths.images / "train.safetensors", stripes(60, 0))
    with pytest.raises(InputError, match=r"snapshots/0\.safetensors is of 70 training .*images holds 60; run `dv"):
        diagnose(paths, {})
