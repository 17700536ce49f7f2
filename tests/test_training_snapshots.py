"""Snapshots: their epochs, images and content for each method. They do not change the bits of training."""

from dataclasses import replace

import pytest
import torch
from method_cases import assert_equal_states
from settings import CPU, Killed, chosen, killed_after, observer, run, stripes

from annulus.files.packed import read_packed
from annulus.files.store import Resident
from annulus.running.checkpoint import Checkpoint
from annulus.training import snapshots as module
from annulus.training.snapshots import MOST_SNAPSHOTS, Snapshots
from annulus.views.recipe import augment, center_view
from annulus.views.settings import Patches, ViewSet

MEMORY = {"ir": "bank", "cmc": "bank", "moco": "queue", "simclr": "batch"}


def run_with_snapshots(changes, file):
    """A run at its first step with snapshots, as stages/pretrain.py builds it."""
    training = run(changes)
    settings = training.settings
    snapshots = Snapshots(training.source, settings.views, settings.budget.epochs, settings.seed, CPU, file)
    training.observers.append(snapshots)
    return training


@pytest.mark.parametrize("method", MEMORY)
def test_a_run_with_snapshots_is_bit_for_bit_the_run_without_and_their_file_says_what_is_in_it(
    method, tmp_path, untouched_global_randomness
):
    plain, with_snapshots = run(chosen(method)), run_with_snapshots(chosen(method), tmp_path / "file")
    assert with_snapshots.run() == plain.run()
    assert with_snapshots.metrics == plain.metrics
    assert_equal_states(with_snapshots.method, plain.method)
    assert torch.equal(with_snapshots.view_generator.get_state(), plain.view_generator.get_state())

    tensors, about = read_packed(tmp_path / "file")
    assert about == {"memory": MEMORY[method], "crossed": method == "cmc", "train_images": 70}
    assert tensors["epochs"].tolist() == [1, 2, 3]
    shape = (3, 70, 16 if method == "cmc" else 8)
    assert tensors["queries"].shape == tensors["second"].shape == tensors["current"].shape == shape
    assert ("memory" in tensors) == (method != "simclr")
    assert torch.equal(tensors["images"], torch.arange(70))
    snapshots = observer(with_snapshots, Snapshots).taken
    assert torch.equal(tensors["current"], torch.stack([one["current"] for one in snapshots]))
    if MEMORY[method] == "bank":  # cmc: both banks side by side, as in the encoder's embeddings
        banks = [bank.rows for bank in with_snapshots.method.banks]
        rows = torch.cat(banks, dim=1) * len(banks) ** -0.5
        torch.testing.assert_close(snapshots[-1]["memory"].float(), rows, rtol=2e-3, atol=1e-4)
    if MEMORY[method] == "queue":  # from its oldest place to its newest: a later key replaces an earlier one
        queue, expected = with_snapshots.method.queues[0], torch.zeros(70, 8)
        for step in range(len(queue.keys)):
            place = (int(queue.next) + step) % len(queue.keys)
            expected[queue.images[place]] = queue.keys[place]
        assert torch.equal(snapshots[-1]["memory"], expected.half())
        assert (snapshots[-1]["memory"].float().norm(dim=1) == 0).sum() == 70 - 32


@pytest.mark.parametrize(("method", "steps"), [("ir", 3), ("cmc", 4), ("moco", 9)])
def test_a_killed_run_keeps_its_snapshots_and_goes_on_to_the_same_ones(method, steps, tmp_path, monkeypatch):
    """Three epochs have twelve steps. The kill is before the first snapshot, right after it, or after the second."""
    monkeypatch.setenv("DVC_ROOT", str(tmp_path))
    names = "whole", "killed", "resumed"
    whole, killed, resumed = (run_with_snapshots(chosen(method), tmp_path / name) for name in names)
    whole.run()
    with Checkpoint("pretrain", {"method": method, "steps": steps}) as checkpoint:
        killed_after(killed, steps, checkpoint)
        resumed.run(checkpoint)
    assert (tmp_path / "whole").read_bytes() == (tmp_path / "resumed").read_bytes()


def test_a_run_killed_between_the_last_step_and_the_end_of_an_epoch_ends_in_the_same_snapshots(tmp_path, monkeypatch):
    monkeypatch.setenv("DVC_ROOT", str(tmp_path))
    names = "whole", "killed", "resumed"
    whole, killed, resumed = (run_with_snapshots(chosen("ir"), tmp_path / name) for name in names)
    history = whole.run()
    save = Checkpoint.save

    def kill(checkpoint, state):
        save(checkpoint, state)
        if state["batch"] == killed.batches:
            raise Killed

    with Checkpoint("pretrain", {"method": "ir"}) as checkpoint:
        with monkeypatch.context() as patched:
            patched.setattr(Checkpoint, "due", True)
            patched.setattr(Checkpoint, "save", kill)
            with pytest.raises(Killed):
                killed.run(checkpoint)
        assert (killed.epoch, killed.batch, killed.history) == (0, killed.batches, [])
        assert resumed.run(checkpoint) == history
    assert (tmp_path / "whole").read_bytes() == (tmp_path / "resumed").read_bytes()


# --- epochs and images --------------------------------------------------------------------------------


def test_snapshots_are_evenly_spaced_with_the_last_epoch_among_them(tmp_path):
    training = run({})
    for epochs in (1, 15, 17, 32):
        snapshots = Snapshots(stripes(8, 0), training.settings.views, epochs, 0, CPU, tmp_path / "file")
        for epoch in range(1, epochs + 1):
            snapshots.after_epoch(training, {"epoch": epoch})
        due = [one["epoch"].item() for one in snapshots.taken]
        assert (len(due), due[-1]) == (min(epochs, MOST_SNAPSHOTS), epochs)
        gaps = [after - before for before, after in zip([0, *due], due, strict=False)]
        assert max(gaps) - min(gaps) <= 1


def test_of_many_images_some_are_kept_the_same_for_a_seed_and_queries_are_among_them(monkeypatch, tmp_path):
    monkeypatch.setattr(module, "MOST_IMAGES", 40)
    monkeypatch.setattr(module, "MOST_QUERIES", 12)
    views = run({}).settings.views
    one, again, other = (Snapshots(stripes(70, 0), views, 3, seed, CPU, tmp_path) for seed in (0, 0, 1))
    assert (len(one.images.unique()), len(one.query_images.unique())) == (40, 12)
    assert one.images.max() > 40, "not the first ones, which in a folder are of the first classes"
    assert set(one.query_images.tolist()) < set(one.images.tolist()) <= set(range(70))
    assert torch.equal(one.images, one.images.sort().values)
    assert torch.equal(one.images, again.images)
    assert not torch.equal(one.images, other.images)


# --- content ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["ir", "cmc"])
def test_the_last_snapshot_holds_what_the_trained_encoder_makes_of_the_images(method, monkeypatch, tmp_path):
    for name, value in (("MOST_IMAGES", 40), ("MOST_QUERIES", 12), ("BATCH_SIZE", 7)):
        monkeypatch.setattr(module, name, value)
    training = run_with_snapshots(chosen(method), tmp_path / "file")
    training.run()
    snapshots = observer(training, Snapshots)
    last = snapshots.taken[-1]
    encoder, images = training.method.encoder.eval(), stripes(70, 0).images.pixels
    random = module.generator(0, "snapshot views")
    with torch.no_grad():
        expected = {"current": encoder(center_view(images[snapshots.images], 16))}
        for name in ("queries", "second"):
            expected[name] = encoder(augment(images[snapshots.query_images], training.settings.views, 16, random))
    embeddings = {name: last[name].float() for name in expected}
    torch.testing.assert_close(embeddings, expected, rtol=2e-3, atol=1e-4)
    assert last["queries"].shape == (12, 16 if method == "cmc" else 8)
    assert not torch.equal(last["queries"], last["second"])
    snapshots.after_epoch(training, {"epoch": 3})
    torch.testing.assert_close(snapshots.taken[-1], last, rtol=0, atol=0)  # the views are the same at every epoch


@pytest.mark.parametrize(("pattern", "equal"), [(4, True), (24, False)], ids=["repeats", "does not"])
def test_with_patches_the_two_views_are_of_the_patches_at_a_distance_that_training_sees(pattern, equal, tmp_path):
    """Images that repeat every 4 pixels have equal patches 4 pixels apart, wherever the first patch lies."""
    tile = torch.randint(0, 256, (20, 3, pattern, pattern), generator=torch.Generator().manual_seed(0))
    store = Resident(tile.to(torch.uint8).repeat(1, 1, 24 // pattern, 24 // pattern))
    images, views = replace(stripes(20, 0), images=store), ViewSet(patches=Patches(offset=4))
    snapshots = Snapshots(images, views, 1, 0, CPU, tmp_path / "file")
    snapshots.after_epoch(run({}), {"epoch": 1})
    snapshot = snapshots.taken[0]
    middle = snapshot["current"][torch.searchsorted(snapshots.images, snapshots.query_images)]
    assert torch.equal(snapshot["queries"], snapshot["second"]) == equal
    assert not torch.equal(snapshot["queries"], middle)
