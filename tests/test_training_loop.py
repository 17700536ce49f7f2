"""Training loop: learning, banks, history, observers, and the continuation after a kill."""

import math

import pytest
import torch
from method_cases import assert_equal_states
from settings import killed_after, observer, stripes
from settings import run as small_run

from annulus.device.rng import derive
from annulus.errors import InputError
from annulus.negatives.clusters import kmeans
from annulus.optim.schedules import ConstantSchedule, Schedule
from annulus.running.checkpoint import Checkpoint
from annulus.training import loop
from annulus.training.loop import Observer
from annulus.training.validation import Validation
from annulus.views.patches import draw_views

RING, UNIFORM, LINEAR = {"sampler": "ring"}, {"sampler": "uniform"}, {"anneal": "linear"}
CAVE = {"sampler": "cave", "samplers.cave.clusters": 8}
PLATEAU = {"schedule": "plateau", "schedules.plateau": {"patience": 1, "factor": 0.1, "drops": 2}}


def training(*choices, images=70, validation=10, epochs=3):
    """Instance discrimination with ring, linear annealing and cosine schedule, changed by `choices`."""
    changes = {"methods.ir.temperature": 0.2, "scales.tiny.pretrain.epochs": epochs}
    for choice in choices:
        changes |= choice
    return small_run(changes, images, validation)


def adaptive(kind, delta, window):
    return {"anneal": kind, f"anneals.{kind}": {"delta": delta, "window": window}}


def watch(owner, name, record):
    """Makes `owner.name` also call `record` with its result and its arguments."""
    call = getattr(owner, name)

    def both(*arguments):
        result = call(*arguments)
        record(result, *arguments)
        return result

    setattr(owner, name, both)


@pytest.mark.parametrize(
    ("steps", "choice"),
    [
        (4, RING | LINEAR),
        (1, CAVE | adaptive("adaptive-epoch", 0.5, 2)),
        (6, RING | adaptive("adaptive-step", 0.1, 3)),
        (6, {"bound": "binary-nce", "bounds.binary-nce.normaliser": "moving-average", "methods.ir.critic": "mlp-1"}),
        (6, {"method": "simo", "split": "frequency", "neighbours": "k", "methods.simo.batch_norm": "shuffle"}),
        (6, {"method": "pirl", "methods.pirl.negatives": "sampled"}),
        (6, {"method": "moco-jigsaw"}),
        (11, {"method": "moco", "methods.moco.negatives": "sampled"}),
        (13, PLATEAU | {"scales.tiny.pretrain.epochs": 5}),
    ],
    ids=["ring", "cave", "adaptive", "nce", "simo", "pirl", "moco-jigsaw", "moco", "plateau"],
)
def test_a_killed_run_ends_in_the_same_bits_as_an_uninterrupted_one(
    steps, choice, tmp_path, monkeypatch, untouched_global_randomness
):
    monkeypatch.setenv("DVC_ROOT", str(tmp_path))
    whole, killed, resumed = (training(choice) for _ in range(3))
    history = whole.run()
    with Checkpoint("pretrain", {"case": steps}) as checkpoint:
        killed_after(killed, steps, checkpoint)
        assert resumed.run(checkpoint) == history
    assert_equal_states(resumed.method, whole.method)


def test_training_learns_what_the_views_share():
    history = training(UNIFORM, {"anneal": "none", "views": "colour"}, images=160, validation=40, epochs=10).run()
    assert history[-1]["loss_nats"] < history[0]["loss_nats"] - 0.3
    assert history[-1]["validation_nn1_percent"] >= 90


def test_each_view_is_drawn_from_the_method_s_own_set_for_it(monkeypatch):
    run, calls = training({"method": "pirl", "views": "colour"}), []
    monkeypatch.setattr(
        loop, "draw_views", lambda images, sets, *rest: calls.append(sets) or draw_views(images, sets, *rest)
    )
    run.step(run.order())
    [(query, jigsaw)] = calls
    assert query == run.settings.views
    assert (jigsaw.jitter, jigsaw.crop) == (None, run.method.params.jigsaw_crop), "a jigsaw's view has no colour"


def test_the_bank_starts_from_the_encoder_s_embeddings():
    run = training(epochs=1)
    run.step = lambda order: setattr(run, "batch", run.batches)
    run.run()
    with torch.no_grad():
        embeddings = run.method.encoder.eval()(stripes(70, 0).images.pixels / 255)
    torch.testing.assert_close(run.method.banks[0].rows, embeddings)


def test_history_holds_the_bound_its_ceiling_and_the_annealed_shares():
    history = training(LINEAR, epochs=4).run()
    for row in history:
        assert row["ceiling_nats"] == pytest.approx(math.log(13))
        # Steps and their means are float32: the rounding is relative to the operands, not to their difference.
        rounding = 4 * torch.finfo(torch.float32).eps * (row["ceiling_nats"] + row["loss_nats"])
        assert row["bound_nats"] == pytest.approx(row["ceiling_nats"] - row["loss_nats"], rel=0, abs=rounding)
        assert row["bound_nats"] <= row["ceiling_nats"]
    assert [row["outer_share"] for row in history] == pytest.approx([0.75, 0.5, 0.5, 0.5])
    assert [row["inner_share"] for row in history] == pytest.approx([0.05, 0.1, 0.1, 0.1])
    assert history[-1]["learning_rate"] == pytest.approx(0.03 * (1 + math.cos(math.pi * 15 / 16)) / 2)


def test_metrics_are_the_last_epoch_s_accuracies_and_nats():
    run = training()
    first, *_, last = run.run()
    metrics = run.metrics
    for name in ("loss_nats", "bound_nats", "ceiling_nats", "validation_nn1_percent", "online_linear_top1_percent"):
        assert metrics[name] == last[name]
    assert metrics["loss_nats"] != first["loss_nats"]


def test_the_loss_of_the_history_is_in_nats_where_a_bound_scales_its_gradient():
    """The bound of mlcpc is the ceiling minus the loss, even if alpha divides the loss for its gradient."""
    [row] = training(UNIFORM, {"bound": "mlcpc", "bounds.mlcpc.divide_by_alpha": True}, epochs=1).run()
    assert row["loss_nats"] == pytest.approx(row["ceiling_nats"] - row["bound_nats"], rel=1e-5)


def test_each_epoch_clusters_the_rows_as_they_are_then():
    run, epochs = training(CAVE, images=32, epochs=3), []

    def plain(_, epoch, embed):
        epochs.append((epoch, run.batch))
        rows, clusters = run.method.banks[0].rows, run.method.contrasts[0].clusters
        assert torch.equal(clusters, kmeans(rows, 8, 3, 2, derive(0, "clusters", epoch)))

    watch(run.method, "before_epoch", plain)
    run.run()
    assert epochs == [(0, 0), (1, 0), (2, 0)]


class Diary(Observer):
    """Records each call, and adds the number of calls to each row and to the metrics."""

    def __init__(self):
        self.moments = []

    def after_step(self, training, index, step):
        assert torch.equal(index, training.order()[training.batch - 1])
        self.moments.append(["step", training.epoch, training.batch, step.estimate.loss_nats.item()])

    def after_epoch(self, training, row):
        self.moments.append(["epoch", row["epoch"], row.get("loss_nats")])
        row["moments"] = len(self.moments)

    def at_end(self, training, metrics):
        self.moments.append(["end", len(training.history)])
        metrics["moments"] = len(self.moments)

    def state_dict(self):
        return {"moments": self.moments}

    def load_state_dict(self, state):
        self.moments = state["moments"]


def run_with_diary(place):
    """A run of two epochs with a diary as its first or last observer."""
    run, diary = training(epochs=2), Diary()
    run.observers.insert(len(run.observers) if place == "last" else 0, diary)
    return run, diary


def test_an_observer_is_called_at_each_step_epoch_and_end_in_the_order_of_the_list():
    (first, early), (last, late) = run_with_diary("first"), run_with_diary("last")
    history = last.run()
    first.run()
    steps = [[moment[1:3] for moment in late.moments[at : at + 4]] for at in (0, 5)]
    assert steps == [[[epoch, batch] for batch in (1, 2, 3, 4)] for epoch in (0, 1)]
    losses = [sum(moment[3] for moment in late.moments[at : at + 4]) / 4 for at in (0, 5)]
    assert [row["loss_nats"] for row in history] == pytest.approx(losses)
    ends = [["epoch", epoch + 1, history[epoch]["loss_nats"]] for epoch in (0, 1)]
    assert [late.moments[4], *late.moments[9:]] == [*ends, ["end", 2]], "after the measurement"
    assert [early.moments[4], early.moments[9]] == [["epoch", 1, None], ["epoch", 2, None]], "before it"
    assert [row["moments"] for row in history] == [5, 10]
    assert last.metrics["moments"] == 11


def test_an_observer_goes_on_with_its_state_and_a_finished_run_only_ends_again(tmp_path, monkeypatch):
    monkeypatch.setenv("DVC_ROOT", str(tmp_path))
    (whole, every), (killed, _), (resumed, some), (finished, again) = (run_with_diary("last") for _ in range(4))
    history = whole.run()
    with Checkpoint("pretrain", {"case": "diary"}) as checkpoint:
        killed_after(killed, 6, checkpoint)
        assert resumed.run(checkpoint) == history
        assert some.moments == every.moments
        finished.step = None  # `run` has saved its last state
        assert finished.run(checkpoint) == history
    assert again.moments == [*every.moments[:-1], ["end", 2]]
    assert finished.metrics == whole.metrics


def test_every_step_is_told_how_much_of_training_is_done_and_annealing_by_steps_follows_its_loss():
    run, progresses, losses = training(adaptive("adaptive-step", 0.1, 2), epochs=3), [], []

    def plain(step, views, index, progress):
        progresses.append(progress)
        losses.append(step.estimate.loss_nats.item())

    watch(run.method, "loss", plain)
    run.run()
    assert [progress.training for progress in progresses] == pytest.approx([step / 12 for step in range(12)])
    shares = [0.0, 0.0]
    for step in range(1, 11):
        before = losses[max(step - 2, 0) : step]
        shares.append(shares[-1] + 0.1 * (losses[step] < sum(before) / len(before)))
    assert 0 < shares[-1] < 1
    assert [progress.annealing for progress in progresses] == pytest.approx(shares)


def test_a_plateau_and_annealing_by_epochs_follow_the_nearest_neighbours_and_not_the_probe():
    """A row has the shares of its own epoch; its accuracy changes the shares of the next epoch."""
    run = training(PLATEAU, adaptive("adaptive-epoch", 0.25, 2), images=16, epochs=5)
    nearest = [40.0, 50.0, 46.0, 44.0, 60.0]  # epochs 3 and 4 do not improve on epoch 2
    ahead = iter([{"validation_nn1_percent": one, "online_linear_top1_percent": 100 - one} for one in nearest])
    observer(run, Validation).accuracies = lambda *_: next(ahead)
    history = run.run()
    assert [row["learning_rate"] for row in history] == pytest.approx([0.03, 0.03, 0.03, 0.003, 0.0003])
    # 50 exceeds 40, and 46 exceeds the mean of 40 and 50. 44 does not exceed the mean of 50 and 46.
    assert [row["outer_share"] for row in history] == pytest.approx([1, 1, 0.875, 0.75, 0.75])
    assert [row["inner_share"] for row in history] == pytest.approx([0, 0, 0.025, 0.05, 0.05])


def test_a_loss_that_is_not_finite_stops_with_step_rate_and_rows():
    run = training(UNIFORM)
    run.schedule = Schedule(ConstantSchedule(), 1e30, 0.0)  # more than params.yaml allows
    message = (
        r"^the loss is nan at step (\d+) \(epoch 1, batch \1\), learning rate 1e\+30, rows \[1\d\d\d, .*\] of the "
        r"training images; lower scales\.SCALE\.pretrain\.learning_rate or raise methods\.METHOD\.warmup$"
    )
    with pytest.raises(InputError, match=message):
        run.run()


@pytest.mark.parametrize("choice", [PLATEAU, adaptive("adaptive-epoch", 0.1, 1)])
def test_what_decides_by_validation_is_refused_without_one(choice):
    with pytest.raises(InputError, match="validation part holds 0 images; raise"):
        training(choice, validation=0)


def test_the_rate_rises_over_the_method_s_own_warmup():
    """eqco section 2: warm-up over a quarter of twelve steps. A rate of 0.48 for 256 images is 0.03 for 16."""
    run, rates = training({"methods.ir.warmup": 0.25, "schedule": "constant"}), []
    watch(run, "step", lambda *_: rates.append(run.optimizer.param_groups[0]["lr"]))
    run.run()
    assert rates == pytest.approx([0, 0.01, 0.02, *[0.03] * 9])


def test_the_gradient_norm_is_that_of_each_query_s_own_loss():
    """eqco eq. 11: expected row minus own row, divided by the temperature, if all rows are negatives."""
    run, norms = training({"anneal": "none", "methods.ir.negatives": "all"}, UNIFORM, epochs=1), []

    def plain(step, views, index, progress):
        rows = run.method.banks[0].rows.clone()
        expected = (step.queries.detach() @ rows.T / 0.2).softmax(dim=1) @ rows
        norms.append(((expected - rows[index]) / 0.2).norm(dim=1))

    watch(run.method, "loss", plain)
    [row] = run.run()
    norms = torch.cat(norms)
    assert row["gradient_norm"] == pytest.approx(norms.mean().item(), rel=1e-4)
    assert row["gradient_norm_std"] == pytest.approx(norms.std(correction=0).item(), rel=1e-4)


@pytest.mark.parametrize(
    ("method", "limit", "counts"),
    [("ir", None, (70, 10)), ("moco", None, (70, 10)), ("ir", 6, (6, 6)), ("moco", 6, (6, 6))],
)
def test_validation_looks_among_stored_embeddings_or_without_any_among_those_made_now(method, limit, counts):
    """A limit draws images evenly over the classes, anew for each seed. A bank is always used as a whole."""
    changes = {"method": method, "methods.ir.bank_start": "random", "scales.tiny.pretrain.validation_images": limit}
    run, other = training(changes, UNIFORM, epochs=1), training(changes | {"seed": 1}, UNIFORM, epochs=1)
    [row] = run.run()
    embed, evaluation = run.method.encoder.eval(), observer(run, Validation)
    train, validation = evaluation.nearest, evaluation.images
    for some, every, count in zip((train, validation), (stripes(70, 0), stripes(10, 1)), counts, strict=True):
        assert len(some) == count == 2 * int(some.labels.sum())
        assert torch.equal(some.images.pixels, every.images.pixels[some.rows - 1000])
    assert torch.equal(train.rows, observer(other, Validation).nearest.rows) == (limit is None)
    with torch.no_grad():
        rows = run.method.banks[0].rows if method == "ir" else embed(train.images.pixels / 255)
        nearest = (embed(validation.images.pixels / 255) @ rows.T).argmax(dim=1)
    labels = stripes(70, 0).labels if method == "ir" else train.labels
    expected = 100 * (labels[nearest] == validation.labels).double().mean().item()
    assert row["validation_nn1_percent"] == pytest.approx(expected)
    assert run.metrics["validation_images"] == counts[1]


def test_without_a_validation_part_the_accuracy_is_left_out():
    assert "validation_nn1_percent" not in training(validation=0, epochs=1).run()[0]
