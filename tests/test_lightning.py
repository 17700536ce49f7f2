"""A method in Lightning's Trainer against a plain loop: weights, memory, random states; resumed bit for bit."""

import doctest
from functools import partial
from importlib.util import find_spec

import pytest
import torch
from gloo import together
from torch import nn

import annulus

if not (find_spec("lightning") or find_spec("pytorch_lightning")):
    pytest.skip("Lightning is not installed; it comes with `make install`", allow_module_level=True)

from annulus.device.distributed import rank
from annulus.lightning import Callback, LightningModule, Pretraining, ProbeCallback

if find_spec("lightning"):
    from lightning.pytorch import Trainer
    from lightning.pytorch.loggers import CSVLogger
else:
    from pytorch_lightning import Trainer
    from pytorch_lightning.loggers import CSVLogger

IMAGES, EPOCHS, BATCH = 32, 4, 8
LEARNING = partial(torch.optim.SGD, lr=0.05, momentum=0.9)
ANNEALING = annulus.negatives.LinearAnnealing(until=0.7)
CAVE = annulus.negatives.Cave(outer=0.9, clusters=3, runs=1, iterations=2, keep="outside")
RING = annulus.ContrastConfig(annulus.negatives.Ring(inner=0.1, outer=0.6), negatives=6)
METHODS = {
    "ir": (annulus.IR, {"critic": "bilinear", "contrast": RING}),
    "ir cave": (annulus.IR, {"contrast": annulus.ContrastConfig(CAVE, negatives=4)}),
    "moco": (annulus.MoCo, {"queue": 24, "shuffle_groups": 2, "contrast": RING}),
    "simclr": (annulus.SimCLR, {}),
    "simo": (annulus.methods.SiMo, {"batch_norm": "shuffle", "shuffle_groups": 2}),
}

EACH = [pytest.param(name, marks=[] if name in ("moco", "simclr") else pytest.mark.slow) for name in METHODS]


class Numbered(torch.utils.data.Dataset):
    """Views of images, drawn by the global generator, and their numbers."""

    def __init__(self, views):
        colours = torch.rand(IMAGES, 3, 1, 1, generator=torch.Generator().manual_seed(1))
        self.images = (255 * colours.expand(-1, -1, 10, 10)).to(torch.uint8)
        self.transform = annulus.views.TwoViews("moco-v2", size=8, count=views)

    def __len__(self):
        return IMAGES

    def __getitem__(self, place):
        return self.transform(self.images[place]), place


def build_method(name):
    kind, settings = METHODS[name]
    torch.manual_seed(0)
    layers = nn.Linear(192, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 8)
    return kind.create(nn.Sequential(nn.Flatten(), *layers), images=IMAGES, dim=8, **settings)


def build_loader(method):
    return torch.utils.data.DataLoader(Numbered(method.views), batch_size=BATCH, shuffle=True)


def build_module(name):
    method = build_method(name)
    embed = (lambda: method.stored) if name == "ir cave" else None
    return Pretraining(method, LEARNING, ANNEALING, embed)


def build_trainer(folder, epochs, **settings):
    quiet = {"enable_progress_bar": False, "enable_model_summary": False, "accelerator": "cpu", "logger": False}
    return Trainer(max_epochs=epochs, default_root_dir=folder, **{**quiet, **settings})


@pytest.fixture(autouse=True)
def own_randomness():
    with torch.random.fork_rng(devices=[]):
        yield


def assert_equal(actual, expected):
    actual, expected = actual.state_dict(), expected.state_dict()
    assert actual.keys() == expected.keys()
    for name, value in expected.items():
        tensors = [value["generator"], actual[name]["generator"]] if isinstance(value, dict) else [value, actual[name]]
        assert torch.equal(*tensors), name


@pytest.mark.parametrize("parts", [1, 2], ids=["", "two batches a step"])
@pytest.mark.parametrize("name", EACH)
def test_a_training_is_the_plain_loop(name, parts, tmp_path):
    module = build_module(name)
    torch.manual_seed(3)
    trainer = build_trainer(tmp_path, 2, accumulate_grad_batches=parts, enable_checkpointing=False)
    trainer.fit(module, build_loader(module.method))

    method = build_method(name)
    optimizer, loader = LEARNING(method.parameters()), build_loader(method)
    total, done = 2 * IMAGES // BATCH // parts, 0
    torch.manual_seed(3)
    for epoch in range(2):
        if name == "ir cave":
            method.before_epoch(epoch, lambda: method.stored)
        for number, (views, index) in enumerate(loader, start=1):
            share = done / total
            step = method.loss(views, index, annulus.Progress(share, ANNEALING.progress(share)))
            (step.estimate.loss / parts).backward()
            if number % parts == 0:
                optimizer.step(), optimizer.zero_grad()
                done += 1
            method.after_step(index, step, follow=number % parts == 0)
    assert_equal(module.method, method)


class StopAfter(Callback):
    """Saves a checkpoint and ends the training after some epochs, as a job's time limit does."""

    def __init__(self, epochs, path):
        self.epochs, self.path = epochs, path

    def on_train_epoch_end(self, trainer, module):
        if trainer.current_epoch + 1 == self.epochs:
            trainer.save_checkpoint(self.path)
            trainer.should_stop = True


@pytest.mark.parametrize("name", EACH)
def test_a_run_that_resumes_has_the_bits_of_one_that_never_stopped(name, tmp_path):
    whole = build_module(name)
    torch.manual_seed(3)
    build_trainer(tmp_path, EPOCHS, enable_checkpointing=False).fit(whole, build_loader(whole.method))

    first = build_module(name)
    torch.manual_seed(3)
    stop = StopAfter(EPOCHS // 2, tmp_path / "half.ckpt")
    trainer = build_trainer(tmp_path, EPOCHS, enable_checkpointing=False, callbacks=[stop])
    trainer.fit(first, build_loader(first.method))

    torch.manual_seed(99)  # another process
    second = build_module(name)
    torch.manual_seed(98)
    trainer = build_trainer(tmp_path, EPOCHS, enable_checkpointing=False)
    trainer.fit(second, build_loader(second.method), ckpt_path=tmp_path / "half.ckpt")
    assert trainer.current_epoch == EPOCHS
    assert_equal(second.method, whole.method)
    with pytest.raises(AssertionError):
        assert_equal(first.method, whole.method)


def test_the_callback_logs_what_the_probes_find_and_leaves_the_training_as_it_is(tmp_path):
    images = torch.randint(256, (60, 3, 8, 8), generator=torch.Generator().manual_seed(2), dtype=torch.uint8)
    labels = torch.arange(60) % 3
    part = torch.utils.data.TensorDataset(images[:40], labels[:40])
    train, test = torch.utils.data.DataLoader(part, batch_size=16), [(images[40:], labels[40:])]
    knn, linear = annulus.KnnSettings(k=3), annulus.LinearBudget(epochs=2)
    callback = ProbeCallback(train, test, every=2, knn=knn, linear=linear, classes=("a", "b", "c"))
    runs = []
    for callbacks in ([callback], []):
        runs.append(build_module("moco"))
        torch.manual_seed(3)
        logger = CSVLogger(tmp_path, flush_logs_every_n_steps=1)
        settings = {"logger": logger, "log_every_n_steps": 1, "callbacks": callbacks, "enable_checkpointing": False}
        trainer = build_trainer(tmp_path, 2, **settings)
        trainer.fit(runs[-1], build_loader(runs[-1].method))
        if callbacks:
            logged, written = trainer.callback_metrics, (tmp_path / f"{logger.log_dir}/metrics.csv").read_text()
    assert_equal(*(run.method for run in runs))
    assert all(part.training for part in runs[0].modules())
    encoder = runs[0].method.encoder
    features = [annulus.extract_features(encoder, each, classes=("a", "b", "c")) for each in (train, test)]
    assert logged["knn_top1_percent"] == annulus.evaluate_knn(*features, knn).metrics["top1_percent"]
    assert logged["linear_top1_percent"] == annulus.probe_features(*features, scale=linear).metrics["top1_percent"]
    head, *rows = [line.split(",") for line in written.splitlines()]
    assert {"loss_nats", "bound_nats", "knn_top1_percent", "linear_top1_percent", "epoch", "step"} <= {*head}
    assert sum(row[head.index("loss_nats")] != "" for row in rows) == 2 * IMAGES // BATCH
    assert [row[head.index("epoch")] for row in rows if row[head.index("knn_top1_percent")]] == ["1"]


def random_states():
    """Random numbers of this process right after saving a checkpoint and right after loading it."""
    torch.manual_seed(rank())
    module, checkpoint = build_module("simclr"), {}
    torch.manual_seed(5 + rank())
    module.on_save_checkpoint(checkpoint)
    before, _ = torch.rand(3), torch.manual_seed(7)
    module.on_load_checkpoint(checkpoint)
    module.on_fit_start()
    return before, torch.rand(3)


def test_each_process_goes_on_with_its_own_random_numbers():
    results = together(random_states)
    assert all(torch.equal(*numbers) for numbers in results)
    assert not torch.equal(results[0][0], results[1][0])


def test_the_examples_in_the_docstrings_run():
    failed, tried = doctest.testmod(annulus.lightning, extraglobs={"annulus": annulus, "torch": torch, "nn": nn})
    assert (failed, tried > 5) == (0, True)


def test_a_method_that_stores_nothing_reads_the_views_of_a_batch_alone(tmp_path):
    """A batch has views and labels, as from an ImageFolder."""
    module = build_module("simclr")
    data = [(views, 0) for views, _ in Numbered(2)]
    trainer = build_trainer(tmp_path, 1, enable_checkpointing=False)
    trainer.fit(module, torch.utils.data.DataLoader(data, batch_size=BATCH))
    assert trainer.global_step == IMAGES // BATCH
    assert isinstance(module, LightningModule)
