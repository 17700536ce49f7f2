"""A killed stage finds its own last state, whole, and nobody else's."""

import errno
import fcntl
import os
import re
import resource
import shutil
import socket
import zipfile
from contextlib import chdir
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from annulus.errors import InputError
from annulus.optim.schedules import ConstantSchedule, CosineSchedule
from annulus.running import checkpoint as checkpoint_module
from annulus.running.checkpoint import (
    Checkpoint,
    LockedError,
    clear,
    hash_files,
    hash_images,
    let_go,
    seconds_to_next_save,
)

KEY = {"seed": 0}


@pytest.fixture(autouse=True)
def checkout(tmp_path, monkeypatch):
    monkeypatch.setenv("DVC_ROOT", str(tmp_path / "main"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "main"


def start(work):
    """Starts another process, which runs `work(pipe)` in one thread; returns it and the other end of the pipe."""
    fork = get_context("fork")
    ours, theirs = fork.Pipe()
    process = fork.Process(target=work, args=(theirs,))
    process.start()
    theirs.close()
    return process, ours


def state(stage="pretrain", key=KEY):
    with Checkpoint(stage, key) as checkpoint:
        return checkpoint.load()


def test_what_was_saved_last_comes_back_whole(tmp_path):
    weights, generator = torch.nn.Linear(3, 2).state_dict(), torch.Generator().manual_seed(5)
    saved = {"epoch": 3, "best": None, "history": [{"epoch": 1, "loss_nats": 0.5}]}
    with Checkpoint("pretrain", KEY) as checkpoint:
        assert checkpoint.load() is None
        checkpoint.save({"epoch": 2})
        checkpoint.save(saved | {"network": weights, "generator": generator.get_state()})

    (tmp_path / "temporary copy").mkdir()
    os.chdir(tmp_path / "temporary copy")  # where a queued experiment runs
    got = state()
    torch.testing.assert_close(got.pop("network"), dict(weights), rtol=0, atol=0)
    assert torch.Generator().set_state(got.pop("generator")).initial_seed() == 5
    assert got == saved


def test_saving_takes_a_fiftieth_of_the_time_and_a_slow_save_puts_the_next_off_by_minutes():
    assert [seconds_to_next_save(saving) for saving in (0.01, 1.0, 3600.0)] == pytest.approx([10, 50, 300])


def test_a_save_is_due_some_time_after_the_last_one_and_the_longer_that_took_the_later(monkeypatch):
    now = 1000.0
    monkeypatch.setattr(checkpoint_module.time, "monotonic", lambda: now)
    with Checkpoint("pretrain", KEY) as checkpoint:
        due = [checkpoint.due]
        now += 10.1
        due.append(checkpoint.due)

        def slow(*_):
            nonlocal now
            now += 2

        monkeypatch.setattr(checkpoint_module, "write_torch", slow)
        checkpoint.save({})
        for seconds in (99.9, 0.2):
            now += seconds
            due.append(checkpoint.due)
    assert due == [False, True, False, True]


def test_the_state_of_a_later_part_lies_beside_the_first_and_is_forgotten_with_it(checkout):
    with Checkpoint("trials", KEY, device="cuda, bf16") as checkpoint:
        checkpoint.save({"epoch": 3})
        for part, epoch in (("one", 1), ("two", 2)):
            checkpoint.beside(part).save({"epoch": epoch})
    with Checkpoint("trials", KEY, device="cuda, bf16") as checkpoint:
        states = [checkpoint, *map(checkpoint.beside, ("one", "two", "three"))]
        assert [state.load() for state in states] == [{"epoch": 3}, {"epoch": 1}, {"epoch": 2}, None]
        assert checkpoint.beside("one").due is False
    assert state("trials") is None, "another kind of device does not go on from it"
    with Checkpoint("trials", KEY, device="cuda, bf16") as checkpoint:
        checkpoint.done()
    assert list((checkout / ".annulus/checkpoints").rglob("*.pt")) == []


def test_a_state_that_is_forgotten_and_a_block_without_one_leave_nothing(checkout):
    with Checkpoint("pretrain", KEY) as checkpoint:
        checkpoint.save({"epoch": 1})
    assert state() == {"epoch": 1}
    with Checkpoint("pretrain", KEY) as checkpoint:
        checkpoint.done()
    with pytest.raises(RuntimeError), Checkpoint("pretrain", KEY):
        raise RuntimeError  # before its first state
    assert not list((checkout / ".annulus/checkpoints/pretrain").iterdir())


def test_a_state_that_was_let_go_serves_the_same_computation_until_another_stage_ends(checkout):
    """DVC keeps the outputs after the stage has ended. If that fails, it runs the stage again."""
    for key in (KEY, {"other": 1}):
        with Checkpoint("pretrain", key) as checkpoint:
            checkpoint.save({"epoch": 3})
    let_go([Checkpoint("pretrain", KEY)])
    with Checkpoint("pretrain", KEY) as checkpoint:
        clear()
        assert checkpoint.load() == {"epoch": 3}, "it runs again"
    clear()
    assert state() == {"epoch": 3}, "it ran again and was killed"
    let_go([Checkpoint("pretrain", KEY)])
    clear()
    assert state() is None
    assert state(key={"other": 1}) == {"epoch": 3}


def test_a_state_that_another_process_uses_is_left_to_that_one(checkout):
    with Checkpoint("pretrain", KEY) as used:
        used.save({"epoch": 3})
        let_go([Checkpoint("pretrain", KEY)])
        assert used.load() == {"epoch": 3}
    clear()
    assert state() == {"epoch": 3}


def test_what_an_experiment_beside_let_go_stays_while_its_folder_is_there(checkout, tmp_path):
    """DVC may still copy its outputs."""
    beside = tmp_path / "experiment"
    beside.mkdir()
    with Checkpoint("pretrain", KEY) as checkpoint:
        checkpoint.save({"epoch": 3})
        with chdir(beside):
            checkpoint.let_go()
    clear()
    assert len(list((checkout / ".annulus/checkpoints").rglob("*.pt"))) == 1
    beside.rmdir()
    clear()
    assert not list((checkout / ".annulus/checkpoints/pretrain").iterdir())


def test_any_other_key_or_stage_never_sees_the_state_nor_does_another_torch_or_faiss(tmp_path, monkeypatch):
    images = tmp_path / "images"
    images.mkdir()
    (images / "train").write_bytes(b"1")
    (images / "z").mkdir()
    (images / "z/train").write_bytes(b"of the same name")
    params = {"seed": 0, "schedules.${schedule}": CosineSchedule()}
    key = {"params": params, "images": hash_files(images), "code": {"a.py": "1"}}
    with Checkpoint("pretrain", key) as checkpoint:
        checkpoint.save({"epoch": 1})
    assert state(key=key) == {"epoch": 1}
    assert Checkpoint("pretrain", dict(reversed(key.items()))).folder == checkpoint.folder
    assert state("linear", key) is None
    (images / "train").write_bytes(b"2")
    for change in (
        {"params": params | {"seed": 1}},
        {"params": params | {"schedules.${schedule}": ConstantSchedule()}},  # neither has fields
        {"code": {"a.py": "2"}},
        {"images": hash_files(images)},
    ):
        assert state(key=key | change) is None, change
    (images / "train").write_bytes(b"1")
    for place, name, other in (
        (torch, "__version__", "1.0"),
        (checkpoint_module, "faiss", SimpleNamespace(__version__="1.0")),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(place, name, other)
            assert state(key=key) is None, place
    assert state(key=key | {"images": hash_files(images)}) == {"epoch": 1}


def test_prepared_images_are_the_same_in_another_folder_and_others_if_one_part_is(tmp_path):
    for name, test in (("here", b"2"), ("there", b"2"), ("other", b"3")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "train.safetensors").write_bytes(b"1")
        (tmp_path / name / "test.safetensors").write_bytes(test)
    here, there, other = (hash_images(tmp_path / name) for name in ("here", "there", "other"))
    assert here == there != other


@dataclass(frozen=True)
class Ring:
    outer: float
    within: "Ring | Ball | None" = None


@dataclass(frozen=True)
class Ball:
    outer: float


def test_a_key_tells_dataclasses_of_other_values_or_another_type_and_paths_apart():
    keys = [Ring(0.1), Ring(0.2), Ball(0.1), Ring(0.1, Ring(0.1)), Ring(0.1, Ball(0.1)), Path("a/0"), Path("b/0")]
    assert len({Checkpoint("pretrain", {"sampler": key}).folder for key in keys}) == len(keys)
    assert Checkpoint("pretrain", {"sampler": Ring(0.1)}).folder == Checkpoint("pretrain", {"sampler": keys[0]}).folder


def test_a_second_process_is_told_who_computes_and_where(monkeypatch):
    def hold(pipe):
        with Checkpoint("pretrain", KEY):
            pipe.send("in")
            pipe.recv()

    holder, pipe = start(hold)
    pipe.recv()
    assert Checkpoint("pretrain", KEY).held()
    with pytest.raises(LockedError, match=f"pretrain: process {holder.pid} is already .*`kill {holder.pid}`"):
        state()
    monkeypatch.setattr(socket, "gethostname", lambda: "another")
    with pytest.raises(LockedError, match=rf"process {holder.pid} on \S+ is already .*`kill {holder.pid}` on \S+$"):
        state()
    assert state(key={"seed": 1}) is state("linear") is None, "other variants and other stages are free"
    pipe.send("out")
    holder.join()
    assert not Checkpoint("pretrain", KEY).held()
    assert state() is None


def test_a_look_whether_anybody_computes_keeps_nobody_off(monkeypatch):
    checkpoint, flock = Checkpoint("pretrain", KEY), fcntl.flock
    checkpoint.folder.mkdir(parents=True)
    look = (checkpoint.folder / "lock").open("a+")
    flock(look, fcntl.LOCK_SH)  # as `held` has it for a moment

    def over(lock, operation):
        if operation & fcntl.LOCK_SH:
            look.close()
        flock(lock, operation)

    monkeypatch.setattr(fcntl, "flock", over)
    assert state() is None
    assert look.closed


def test_a_file_system_without_locks_is_named_with_the_way_out(monkeypatch):
    """Lustre is such a file system unless it is mounted with `flock`."""

    def refuse(lock, operation):
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(
        InputError, match=r"^cannot lock .*: Function not implemented; .* \(NFS 4, Lustre with `flock`\)"
    ):
        state()


@pytest.mark.parametrize("again", [False, True])
def test_a_lock_on_a_file_that_was_removed_since_is_taken_again(monkeypatch, again):
    """The previous holder ends after the lock file is opened and before it is locked."""
    checkpoint, flock, calls = Checkpoint("pretrain", KEY), fcntl.flock, []

    def late(lock, operation):
        calls.append(operation)
        if len(calls) == 1:
            shutil.rmtree(checkpoint.folder)
            if again:
                checkpoint.folder.mkdir()
                (checkpoint.folder / "lock").touch()
        flock(lock, operation)

    monkeypatch.setattr(checkpoint_module.fcntl, "flock", late)
    with checkpoint:
        assert len(calls) == 2
        assert (checkpoint.folder / "lock").read_text() == f"{os.getpid()} {socket.gethostname()}"


def test_a_process_killed_while_saving_leaves_the_last_whole_state():
    """The state is a step and tensors full of it; whenever the saver dies, the two agree."""

    def save_on(pipe):
        with Checkpoint("pretrain", KEY) as checkpoint:
            step = (checkpoint.load() or {"step": 0})["step"]
            while True:
                pipe.send(step)
                step += 1
                checkpoint.save({"step": step, "tensors": [torch.full((20_000,), float(step)) for _ in range(10)]})

    last = 0
    for saves in (1, 3):
        process, pipe = start(save_on)
        step, *_ = (pipe.recv() for _ in range(saves + 1))
        assert step == last
        process.kill()  # while it saves the next one
        process.join()
        (Checkpoint("pretrain", KEY).folder / ".state.pt.half").touch()
        with Checkpoint("pretrain", KEY) as checkpoint:
            last_state = checkpoint.load()
            assert not list(checkpoint.folder.glob(".*"))  # the half-written file is gone
            assert (checkpoint.folder / "lock").read_text().split()[0] == str(os.getpid())
        assert last_state["step"] >= last + saves
        assert all((tensor == last_state["step"]).all() for tensor in last_state["tensors"])
        last = last_state["step"]


def test_a_damaged_state_is_ignored_with_a_warning(caplog):
    with Checkpoint("pretrain", KEY) as checkpoint:
        checkpoint.save({"rows": torch.zeros(1000)})
        content = checkpoint.state.read_bytes()
        # A truncated file, and one changed bit, which torch.load would accept.
        for damaged in (content[:-100], content[:2000] + bytes([content[2000] ^ 1]) + content[2001:]):
            checkpoint.state.write_bytes(damaged)
            assert checkpoint.load() is None
    assert len(re.findall(r"state\.pt is damaged \(.+\); starting from the beginning", caplog.text)) == 2


@pytest.mark.timeout(20)
def test_what_another_computation_or_program_wrote_is_ignored_with_a_warning(tmp_path, caplog):
    with Checkpoint("pretrain", {"seed": 1}) as other:
        other.save({"epoch": 1})
        foreign = other.state.read_bytes()
    torch.save({"epoch": torch.nn.Linear(2, 2)}, tmp_path / "module")
    torch.save([1, 2], tmp_path / "list")
    with zipfile.ZipFile(tmp_path / "zip", "w") as archive:
        archive.writestr("readme", "no state")
    with Checkpoint("pretrain", KEY) as checkpoint:
        for content in (foreign, *((tmp_path / name).read_bytes() for name in ("module", "list", "zip")), b"text"):
            checkpoint.state.write_bytes(content)
            assert checkpoint.load() is None
        for other in (os.mkfifo, os.mkdir):
            checkpoint.state.unlink()
            other(checkpoint.state)
            assert checkpoint.load() is None
        checkpoint.state.rmdir()
    assert caplog.text.count("; starting from the beginning") == 7
    assert "(it is of another computation); starting" in caplog.text


def test_a_full_disk_is_said_in_the_disk_s_words_and_leaves_the_state_before():
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    with Checkpoint("pretrain", KEY) as checkpoint:
        checkpoint.save({"epoch": 1})
        resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, limits[1]))
        try:
            with pytest.raises(InputError, match=r"cannot write .*state\.pt: File too large; .* Free some space"):
                checkpoint.save({"rows": torch.zeros(100_000)})
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert checkpoint.load() == {"epoch": 1}


def test_a_folder_that_cannot_be_made_and_a_key_of_files_that_are_not_there_or_of_other_things_are_named(checkout):
    checkout.mkdir()
    (checkout / ".annulus").write_text("a file in the way")
    with pytest.raises(InputError, match=r"cannot write .*\.annulus/checkpoints/pretrain.*: Not a dir"):
        state()
    with pytest.raises(InputError, match=r"cannot read data/images: No such file.*; run `dvc repro`"):
        hash_files(Path("data/images"))
    os.mkfifo("pipe")
    with pytest.raises(InputError, match="cannot read pipe: Is a pipe or a device, not a file"):
        hash_files(Path("pipe"))
    with pytest.raises(TypeError, match="a checkpoint key holds Tensor, expected numbers, text, paths"):
        Checkpoint("pretrain", {"rows": torch.zeros(1)})
