"""The loop: what it learns, what it stores, how it goes on after a kill."""

import math
from pathlib import Path

import pytest
import torch

from annulus.config import (
    AdaptiveEpochAnneal,
    AdaptiveStepAnneal,
    AnnealParams,
    BackboneParams,
    CaveParams,
    ConstantAnneal,
    CosineSchedule,
    IRParams,
    LinearAnneal,
    OptimizerParams,
    PlateauSchedule,
    PretrainScale,
    RingParams,
    SamplerParams,
    ScheduleParams,
    UniformParams,
)
from annulus.data import ImageSet
from annulus.encoders import EncoderConfig, build_encoder
from annulus.errors import InputError
from annulus.methods import InstanceDiscrimination
from annulus.params_file import load_params
from annulus.scratch import Scratch
from annulus.training import Recipe, Training

CPU = torch.device("cpu")
VIEWS = load_params(Path(__file__).parents[1] / "params.yaml").view_sets["standard"]
RING = RingParams(outer=0.5, inner=0.1)
CAVE = CaveParams(outer=0.5, clusters=8, runs=2, iterations=3, keep="outside")


def stripes(images: int, seed: int) -> ImageSet:
    """Two classes that stay apart under every view: stripes across and along, of random colours."""
    random = torch.Generator().manual_seed(seed)
    labels = torch.arange(images) % 2
    waves = torch.arange(16) // 2 % 2 * 120
    across = waves.view(1, 1, 16, 1).expand(images, 3, 16, 16)
    pixels = torch.where(labels.view(-1, 1, 1, 1) == 0, across, across.transpose(2, 3))
    colour = torch.randint(0, 100, (images, 3, 1, 1), generator=random)
    return ImageSet.of((pixels + colour).to(torch.uint8), labels, torch.arange(images) + 1000, ("across", "along"))


def training(
    sampler: SamplerParams = RING,
    anneal: AnnealParams | None = None,
    schedule: ScheduleParams | None = None,
    images: int = 70,
    validation: int = 10,
    epochs: int = 3,
    learning_rate: float = 0.03,
    bank_start: str = "encoder",
) -> Training:
    config = EncoderConfig.of(
        BackboneParams(architecture="alexnet", stem="imagenet"),
        head="linear",
        embedding_dim=8,
        view_size=16,
        channels="rgb",
        mean=(0.4,) * 3,
        std=(0.2,) * 3,
    )
    params = IRParams(temperature=0.2, bank_rate=0.5, bank_start=bank_start, embedding_dim=8, head="linear")
    method = InstanceDiscrimination(build_encoder(config, 0), images, params, sampler, 12, 0, CPU)
    scale = PretrainScale(epochs=epochs, batch_size=16, negatives=12, learning_rate=learning_rate)
    recipe = Recipe(
        scale,
        OptimizerParams(momentum=0.9, weight_decay=1e-4, warmup=0.0),
        schedule or CosineSchedule(),
        anneal or LinearAnneal(until=0.5),
        VIEWS,
        seed=0,
    )
    return Training(method, stripes(images, 0), stripes(validation, 1), recipe, CPU)


def weights(run: Training) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in run.method.state_dict().items() if isinstance(value, torch.Tensor)}


class Killed(Exception):
    pass


def killed_after(run: Training, steps: int, scratch: Scratch) -> None:
    """Run until some steps are done, saving after each one; then stop as a kill would, between two steps."""
    step, done = run.step, 0

    def counted(order):
        nonlocal done
        if done == steps:
            raise Killed
        if done > 0:
            scratch.save(run.state_dict())
        done += 1
        step(order)

    run.step = counted
    with pytest.raises(Killed):
        run.run(scratch)
    run.step = step
    scratch.save(run.state_dict())


@pytest.mark.parametrize("steps", [1, 4, 6, 11])
@pytest.mark.parametrize(
    ("sampler", "anneal"),
    [
        (RING, LinearAnneal(until=0.5)),
        (CAVE, AdaptiveEpochAnneal(delta=0.5, window=2)),
        (UniformParams(), AdaptiveStepAnneal(delta=0.1, window=3)),
    ],
)
def test_a_killed_run_ends_in_the_same_bits_as_an_uninterrupted_one(steps, sampler, anneal, tmp_path, monkeypatch):
    monkeypatch.setenv("DVC_ROOT", str(tmp_path))
    whole = training(sampler, anneal)
    history = whole.run()

    with Scratch("pretrain", {"case": steps}) as scratch:
        killed_after(training(sampler, anneal), steps, scratch)
        resumed = training(sampler, anneal)
        assert resumed.run(scratch) == history
    for name, value in weights(whole).items():
        assert torch.equal(weights(resumed)[name], value), name


def test_a_plateau_counts_on_over_a_kill(tmp_path, monkeypatch):
    monkeypatch.setenv("DVC_ROOT", str(tmp_path))
    schedule = PlateauSchedule(patience=1, factor=0.1, drops=2)
    history = training(schedule=schedule, epochs=5).run()
    with Scratch("pretrain", {}) as scratch:
        killed_after(training(schedule=schedule, epochs=5), 13, scratch)
        assert training(schedule=schedule, epochs=5).run(scratch) == history


def test_the_same_seed_gives_the_same_history_and_leaves_the_global_generators_alone(untouched_global_randomness):
    assert training().run() == training().run()


def test_training_learns_what_the_views_share():
    run = training(UniformParams(), ConstantAnneal(), images=160, validation=40, epochs=12)
    history = run.run()
    assert history[-1]["loss_nats"] < history[0]["loss_nats"] - 0.2
    assert history[-1]["validation_nn1_percent"] >= 90


def test_every_epoch_sees_each_image_at_most_once_in_another_order():
    run = training(images=70)
    first = run._order()
    run.epoch = 1
    second = run._order()
    assert first.shape == (4, 16)  # the last 6 images of an epoch are left out
    assert len(first.unique()) == 64
    assert not torch.equal(first, second)
    assert set(range(70)) - set(first.flatten().tolist()) != set(range(70)) - set(second.flatten().tolist())


def test_the_bank_starts_from_the_encoder_or_at_random():
    run, random = training(epochs=1), training(epochs=1, bank_start="random")
    rows = run.method.bank.rows.clone()
    assert torch.equal(rows, random.method.bank.rows)
    seen = []
    run.step = lambda order: (seen.append(run.method.bank.rows.clone()), setattr(run, "batch", run.batches))
    run.run()
    with torch.no_grad():
        embedded = run.method.encoder.eval()(stripes(70, 0).images / 255)
    torch.testing.assert_close(seen[0], embedded)
    random.step = lambda order: (seen.append(random.method.bank.rows.clone()), setattr(random, "batch", random.batches))
    random.run()
    assert torch.equal(seen[1], rows)


def test_after_an_epoch_the_rows_of_its_images_have_moved_and_stay_unit():
    run = training(epochs=1)
    order = run._order().flatten()
    run.run()
    assert torch.allclose(run.method.bank.rows.norm(dim=1), torch.ones(70))
    left_out = sorted(set(range(70)) - set(order.tolist()))
    started = training(epochs=1)
    started.step = lambda _: setattr(started, "batch", started.batches)
    started.run()
    same = (run.method.bank.rows == started.method.bank.rows).all(dim=1)
    assert same.nonzero().flatten().tolist() == left_out


def test_history_holds_the_bound_its_ceiling_and_the_annealed_shares():
    history = training(anneal=LinearAnneal(until=0.5), epochs=4).run()
    for row in history:
        assert row["ceiling_nats"] == pytest.approx(math.log(13))
        assert row["bound_nats"] == pytest.approx(row["ceiling_nats"] - row["loss_nats"])
        assert row["bound_nats"] <= row["ceiling_nats"]
    assert [row["outer_share"] for row in history] == pytest.approx([0.75, 0.5, 0.5, 0.5])
    assert [row["inner_share"] for row in history] == pytest.approx([0.05, 0.1, 0.1, 0.1])
    last_step = (1 + math.cos(math.pi * 15 / 16)) / 2
    assert history[-1]["learning_rate"] == pytest.approx(0.03 * last_step)


def test_a_loss_that_is_not_finite_stops_with_step_rate_and_rows():
    with pytest.raises(InputError, match=r"loss is nan at step \d+ .*learning rate 1e\+30, rows \[1\d\d\d, .*lower"):
        training(UniformParams(), learning_rate=1e30, schedule=PlateauSchedule(patience=9, factor=0.1, drops=1)).run()


@pytest.mark.parametrize(
    "choice",
    [
        {"schedule": PlateauSchedule(patience=1, factor=0.1, drops=1)},
        {"anneal": AdaptiveEpochAnneal(delta=0.1, window=1)},
    ],
)
def test_what_decides_by_validation_is_refused_without_one(choice):
    with pytest.raises(InputError, match="validation part holds 0 images; raise"):
        training(validation=0, **choice)


def test_without_a_validation_part_the_accuracy_is_left_out():
    assert "validation_nn1_percent" not in training(validation=0, epochs=1).run()[0]
