"""Parallel computations: their order, errors and cores; and the pieces of a stopped stage."""

import errno
import itertools
import logging
import os
import signal
import sys
import tempfile
import time
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from multiprocessing import current_process, get_context
from pathlib import Path

import faiss
import pytest
import torch

from annulus.errors import InputError
from annulus.negatives.samplers import Ball, Ring
from annulus.running import end, progress
from annulus.running import workers as module
from annulus.running.checkpoint import Checkpoint, LockedError, clear
from annulus.running.end import end_with
from annulus.running.workers import ResumableTasks, map_processes, map_seeds


@pytest.fixture(autouse=True)
def cores(empty_checkout, monkeypatch):
    """Function that sets the number of cores."""
    return lambda count: monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(count)))


@pytest.fixture
def long_tmpdir(tmp_path, monkeypatch):
    """A folder for temporary files whose path is too long for a socket."""
    folder = tmp_path / ("x" * 115)
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setitem(current_process()._config, "tempdir", None)


# --- computations: functions of this module, so that a worker can import them by name ------------------


def wait_for(pattern: str, count: int) -> None:
    while len(list(Path().glob(pattern))) < count:
        time.sleep(0.01)


def late_first(item: int) -> int:
    """Item 0 ends last."""
    wait_for("done-*", 0 if item else 3)
    Path(f"done-{item}").touch()
    return 10 * item


def threads(item: int) -> tuple[int, int, int, int]:
    level = logging.getLogger("annulus").getEffectiveLevel()
    return torch.get_num_threads(), faiss.omp_get_max_threads(), os.getpid(), level


def total(item: int) -> float:
    """Enough work for several threads."""
    return torch.full((2_000_000,), float(item)).exp().sum().item()


def threads_and_total(base: torch.Tensor, item: int) -> tuple[tuple[int, int, int, int], torch.Tensor]:
    return threads(item), base + total(item)


def meet(workers: int) -> int:
    """Waits until `workers` workers compute at a time."""
    Path(f"here-{os.getpid()}").touch()
    wait_for("here-*", workers)
    return os.getpid()


def talk(item: int) -> None:
    """Reports progress and logs lines, some of them the same for every item."""
    logging.getLogger("annulus").warning("WARNING: of every item")
    logging.getLogger("annulus").info("too much")
    progress.say(f"line of {item}")
    for done in (5, 10):
        progress.report(done, 10, lambda: f"item {item}", ended=done == 10)


def visible_gpus(item: int) -> tuple[str, int]:
    meet(2)
    assert type(current_process()).__name__ == "SpawnProcess", "CUDA does not survive a fork"
    return os.environ["CUDA_VISIBLE_DEVICES"], item


def interrupts(item: int) -> tuple[list[signal.Handlers], set[signal.Signals]]:
    """Handlers of the interrupt signals in this process, and the blocked ones."""
    each = [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    return each, module.INTERRUPTS & signal.pthread_sigmask(signal.SIG_BLOCK, [])


def refuse_odd(item: int) -> int:
    if item % 2:
        raise InputError(f"item {item} is odd; take an even one")
    return item


def piece(settings, key) -> dict:
    """Records that it began. At key 2 it fails if a file `fails` exists, and is killed if a file `killed` exists."""
    with Path("begun").open("a", encoding="utf-8") as file:
        file.write(f"{key}\n")
    if Path("fails").exists() and key == 2:
        raise InputError(f"piece {key} failed")
    if Path("killed").exists() and key == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return {"nats": [float(len(str(key))), 1 / 3], "text": str(settings), "deep": {"a": [1, "b"]}}


def within(settings, key) -> Checkpoint:
    return Checkpoint("within", {"piece": key})


def in_two(settings, key) -> dict:
    """Saves a state of its own, as a training does."""
    with within(settings, key) as checkpoint:
        checkpoint.save({"step": 1})
    return {"key": key}


def reporting(settings, key) -> dict:
    progress.report(0, 100, lambda: "begin")
    time.sleep(0.01)
    progress.report(100, 100, lambda: "end", ended=True)
    return {}


def slow_once(settings, key) -> dict:
    """Waits for ever the first time."""
    if not Path(f"slow-{key}").exists():
        Path(f"slow-{key}").touch()
        signal.pause()
    return {"key": key}


def side_by_side(settings, key) -> dict:
    """Records that it began. Keys 0 and 1 last until a second process has to wait."""
    piece(settings, key)
    if key < 2:
        wait_for("second", 1)
    time.sleep(0.2)
    return {"key": key}


def begun() -> list[str]:
    """Pieces that were begun since the last call."""
    lines = Path("begun").read_text(encoding="utf-8").splitlines() if Path("begun").exists() else []
    Path("begun").unlink(missing_ok=True)
    return lines


def states() -> list[Path]:
    return list(Path(".annulus/checkpoints").glob("*/*/state.pt"))


# --- each ---------------------------------------------------------------------------------------------


def test_results_come_in_the_items_order_whichever_ends_first(cores):
    cores(5)
    assert list(map_processes(late_first, [3, 0, 2, 1])) == [30, 0, 20, 10]


def test_a_worker_has_one_thread_says_only_warnings_and_leaves_the_stage_its_own(cores):
    cores(2)
    logging.getLogger("annulus").setLevel(logging.INFO)
    torch.set_num_threads(2)
    faiss.omp_set_num_threads(2)
    results, here = list(map_processes(threads, [0, 1])), threads(0)
    torch.set_num_threads(1)
    faiss.omp_set_num_threads(1)
    logging.getLogger("annulus").setLevel(logging.NOTSET)
    assert here == (2, 2, os.getpid(), logging.INFO)
    assert {(torch_threads, faiss_threads, level) for torch_threads, faiss_threads, _, level in results} == {
        (1, 1, logging.WARNING)
    }
    assert os.getpid() not in {process for _, _, process, _ in results}


def test_what_workers_say_comes_under_their_names_and_a_warning_once(cores, caplog):
    cores(2)
    with caplog.at_level(logging.INFO, logger="annulus"):
        list(map_processes(talk, [0, 1], names=["seed 0", "seed 1"]))
    assert caplog.messages.count("WARNING: of every item") == 1
    lines = [message.split(" images/s")[0].rstrip("0123456789,.") for message in caplog.messages]
    expected = ["seed 0: item 0, ", "seed 0: line of ", "seed 1: item 1, ", "seed 1: line of "]
    assert sorted(one for one in lines if "WARNING" not in one) == expected


def test_a_warning_of_a_worker_is_one_line_on_stderr(cores, capfd, monkeypatch):
    """A forked worker inherits the stage's own handler."""
    cores(2)
    monkeypatch.setattr(logging.root, "handlers", [logging.StreamHandler(sys.stderr)])
    list(map_processes(talk, [0, 1], names=["seed 0", "seed 1"]))
    assert capfd.readouterr().err.count("WARNING: of every item") == 1


@pytest.mark.slow
def test_on_gpus_each_worker_has_its_own_and_on_one_items_come_one_after_the_other_here(monkeypatch):
    """The machine need not have the two GPUs: no worker starts CUDA."""
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    results = list(map_processes(visible_gpus, [0, 1, 2, 3], device=torch.device("cuda")))
    assert [item for _, item in results] == [0, 1, 2, 3]
    assert {gpu for gpu, _ in results} == {"0", "1"}
    for met in Path().glob("here-*"):
        met.unlink()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3, GPU-5e,7")  # torch sees two of them
    results = list(map_processes(visible_gpus, [0, 1], device=torch.device("cuda")))
    assert {gpu for gpu, _ in results} == {"3", "GPU-5e"}
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    results = list(map_processes(threads, [0, 1], names=["a", "b"], device=torch.device("cuda")))
    assert {process for _, _, process, _ in results} == {os.getpid()}


def test_a_computation_on_the_cpu_has_workers_on_a_machine_with_a_gpu_too_and_one_item_of_one_thread_has_its_own(
    cores, monkeypatch
):
    """In this process the item would have all threads, and so other bits."""
    cores(2)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    for items in ([0, 1], [0]):
        results = list(map_processes(threads, items))
        assert os.getpid() not in {process for _, _, process, _ in results}
        assert {torch_threads for torch_threads, *_ in results} == {1}
    assert list(map_processes(threads, [])) == []


def test_an_interrupt_ends_a_worker_silently_but_for_one_that_its_stage_ignores_as_nohup_s_does(cores):
    cores(1)
    before = [signal.signal(one, handler) for one, handler in ((signal.SIGINT, print), (signal.SIGHUP, signal.SIG_IGN))]
    try:
        results = list(map_processes(interrupts, [0]))
    finally:
        signal.signal(signal.SIGINT, before[0])
        signal.signal(signal.SIGHUP, before[1])
    assert results == [([signal.SIG_DFL, signal.SIG_DFL, signal.SIG_IGN], set())]


def test_processes_of_a_group_compute_one_item_after_the_other_without_workers(cores, monkeypatch, caplog):
    """With workers each would begin the same runs, and none would meet the others in its steps."""
    cores(2)
    monkeypatch.setattr(module, "world_size", lambda: 2)
    assert {process for _, _, process, _ in map_processes(threads, [0, 1])} == {os.getpid()}
    with caplog.at_level(logging.INFO, logger="annulus"):
        list(map_processes(talk, [3], names=["seed 3"]))
    assert [line.partition(",")[0] for line in caplog.messages if "item 3" in line] == ["seed 3: item 3"]


@pytest.mark.parametrize(("count", "seeds", "each_takes"), [pytest.param(5, 2, 2, marks=pytest.mark.slow), (2, 3, 1)])
def test_seeds_share_the_cores_also_after_this_process_has_computed_with_several_threads(
    cores, long_tmpdir, count, seeds, each_takes
):
    """Tensors pass between processes for any length of the temporary files' path. This process's threads do not survive
    a fork: a forked worker with more than one thread would wait for them for ever."""
    cores(count)
    torch.set_num_threads(2)
    here = total(7)
    torch.set_num_threads(1)
    results = map_seeds(partial(threads_and_total, torch.zeros(1)), range(7, 7 + seeds))
    assert list(results) == list(range(7, 7 + seeds))
    assert {one[:2] for one, _ in results.values()} == {(each_takes, each_takes)}
    assert results[7][1].item() == pytest.approx(here)


def test_a_seed_alone_on_several_cores_needs_no_worker_and_as_many_compute_at_a_time_as_there_are_cores(cores):
    cores(4)
    assert map_seeds(threads, [7])[7][2] == os.getpid()
    for count in (1, 2):
        cores(count)
        met = set(map_processes(meet, [count] * 2))
        assert len(met) == count
        for process in met:
            Path(f"here-{process}").unlink()


@pytest.mark.parametrize(
    ("count", "items", "processes"), [(2, 3, 3), (2, 5, 3), (4, 5, 5), (2, 9, 2), (2, 7, 2), (4, 9, 5), (1, 3, 1)]
)
def test_where_a_last_round_would_leave_cores_idle_more_processes_share_them(cores, count, items, processes):
    """Seven items on two cores would need four processes, each with its own memory."""
    cores(count)
    assert len(set(map_processes(meet, [processes] * items))) == processes


def test_a_worker_that_is_killed_while_others_are_begun_is_told_in_the_same_words(cores, monkeypatch):
    def broken(*_):
        raise BrokenProcessPool

    cores(2)
    monkeypatch.setattr(module.ProcessPoolExecutor, "submit", broken)
    with pytest.raises(InputError, match="a process that computed was killed"):
        list(map_processes(total, [1, 2]))
    assert not module.INTERRUPTS & signal.pthread_sigmask(signal.SIG_BLOCK, [])


def test_an_item_s_mistake_comes_through_after_the_results_before_it(cores):
    cores(1)
    results = map_processes(refuse_odd, [2, 4, 3, 6])
    assert [next(results), next(results)] == [2, 4]
    with pytest.raises(InputError, match=r"^item 3 is odd; take an even one$"):
        next(results)


def test_after_a_mistake_no_further_items_are_begun(cores):
    """Items that a worker has already taken still run."""
    cores(1)
    Path("fails").touch()
    with pytest.raises(InputError, match="piece 2 failed"):
        ResumableTasks("a stage", side_by_side).run({key: {} for key in range(2, 12)})
    assert len(begun()) < 8


def test_seeds_are_named_where_progress_is_shown_and_computed_on_their_device(monkeypatch):
    options = {}
    monkeypatch.setattr(module, "map_processes", lambda *_, **named: options.update(named) or [0.5, 1.5])
    assert map_seeds(total, [3, 7], torch.device("cuda")) == {3: 0.5, 7: 1.5}
    assert (options["names"], options["device"].type) == (["seed 3", "seed 7"], "cuda")


def test_without_shared_memory_the_way_out_is_said_before_anything_is_computed(cores, monkeypatch):
    def refuse(*_):
        raise OSError(errno.EROFS, "Read-only file system")

    cores(2)
    monkeypatch.setattr("_multiprocessing.SemLock", refuse)
    with pytest.raises(InputError, match=r"need /dev/shm, .* \(Read-only file system\); mount it .*container one$"):
        list(map_processes(total, [1, 2]))
    assert list(map_processes(total, [1], threads=2)) == [total(1)]


# --- pieces -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "reason"), [("fails", "piece 2 failed"), ("killed", "a process that computed was killed")]
)
def test_a_stopped_or_killed_stage_goes_on_and_only_what_was_not_finished_is_computed_again(cores, file, reason):
    cores(1)
    Path(file).touch()
    with pytest.raises(InputError, match=reason):
        ResumableTasks(file, piece).run({1: {}, 2: {}})
    Path(file).unlink()
    assert begun() == ["1", "2"]
    results = ResumableTasks(file, piece).run({key: {} for key in (1, 2, (64, 0))})
    assert begun() == ["2", "(64, 0)"]
    assert results == {key: piece({}, key) for key in (1, 2, (64, 0))}
    begun()
    again = ResumableTasks(file, piece).run({2: {}, 1: {}})
    assert list(again.items()) == [(2, results[2]), (1, results[1])]
    assert begun() == []


def test_each_piece_is_a_run_of_its_own_where_progress_is_shown(cores, caplog):
    """Pieces without names would be one run: its clock would go on, and the time left for all would grow."""
    cores(1)
    caplog.set_level(logging.INFO, logger="annulus")
    ResumableTasks("a stage", reporting).run({key: {} for key in (("ring", 0), ("ring", 1), "untrained")})
    assert [line.split(": ")[0] for line in caplog.messages] == ["ring, 0", "ring, 1", "untrained"]
    assert ["for all 3 runs" in line for line in caplog.messages] == [True, True, False]


def test_other_settings_another_key_stage_or_code_never_see_them(monkeypatch):
    half, other = Ball(outer=0.5), Ring(outer=0.5, inner=0.0)
    cases = [("a stage", half, 1), ("another", half, 1), ("a stage", Ball(outer=0.25), 1)]
    for stage, params, key in [*cases, ("a stage", other, 1), ("a stage", half, "1")]:
        ResumableTasks(stage, piece).run({key: {"params": params}})
        assert begun() == [str(key)]
    monkeypatch.setattr(module, "hash_code", lambda module: {"annulus.bounds": "edited"})
    ResumableTasks("a stage", piece).run({1: {"params": half}})
    assert begun() == ["1"]


def test_an_edit_while_pieces_run_leaves_no_state_behind(monkeypatch):
    """A worker that named its state by the edited code would save it where the stage does not look."""
    edits = itertools.count()
    monkeypatch.setattr(module, "hash_code", lambda module: {"annulus.bounds": str(next(edits))})
    tasks = ResumableTasks("a stage", piece)
    tasks.run({1: {}})
    tasks.done()
    clear()
    assert states() == []


def test_done_leaves_no_state_and_other_stages_alone():
    tasks = ResumableTasks("a stage", piece)
    for key in (1, 2):  # as in a search, whose next tasks follow from the best
        tasks.run({key: {}})
    ResumableTasks("another", piece).run({1: {}})
    assert len(states()) == 3
    tasks.done()
    assert len(states()) == 3, "DVC may fail to keep the results"
    clear()
    assert [path.parts[2] for path in states()] == ["another"]
    assert list(Path(".annulus/checkpoints/a stage").iterdir()) == []


def test_where_a_task_stands_is_kept_until_its_result_is(cores, monkeypatch):
    cores(1)
    tasks, save = ResumableTasks("a stage", in_two, inner=within), Checkpoint.save

    def full(self, state):
        if self.stage == "a stage":
            raise InputError("the disk is full")
        save(self, state)

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint, "save", full)
        with pytest.raises(InputError, match="the disk is full"):
            tasks.run({1: {}})
    assert [path.parts[2] for path in states()] == ["within"]
    assert tasks.run({1: {}}) == {1: {"key": 1}}
    assert [path.parts[2] for path in states()] == ["a stage"]


def test_tasks_of_a_gpu_are_computed_as_its_computations_are(monkeypatch):
    devices = []
    monkeypatch.setattr(module, "map_processes", lambda *_, device, **__: devices.append(device.type) or [{}])
    for device in ("cpu", "cuda"):
        ResumableTasks("a stage", piece, torch.device(device)).run({1: {}})
    assert devices == ["cpu", "cuda"]


@pytest.mark.parametrize("waits", ["as it can", "no such call", "an old Linux"])
def test_a_process_ends_with_another_one_and_not_before_also_where_it_cannot_be_waited_for(waits, monkeypatch):
    """Conda's Python lacks `os.pidfd_open`."""

    def unknown(process):
        raise OSError(errno.ENOSYS, "Function not implemented")

    if waits == "no such call":
        monkeypatch.delattr(os, "pidfd_open")
    elif waits == "an old Linux":
        monkeypatch.setattr(os, "pidfd_open", unknown)
    monkeypatch.setattr(end, "LOOK_SECONDS", 0.1)

    def work():
        end_with(stage.pid)
        time.sleep(60)

    stage = get_context("fork").Process(target=time.sleep, args=(60,))
    stage.start()
    worker = get_context("fork").Process(target=work)
    worker.start()
    worker.join(1)
    assert stage.is_alive()
    assert worker.is_alive()
    stage.kill()
    stage.join()
    worker.join(30)
    assert worker.exitcode == 1


def test_the_workers_of_a_killed_stage_end_with_it_and_it_can_be_run_again(cores):
    """A surviving worker would hold its piece until it ends."""
    cores(2)
    stage = get_context("fork").Process(target=lambda: ResumableTasks("a stage", slow_once).run({1: {}, 2: {}}))
    stage.start()
    wait_for("slow-*", 2)
    stage.kill()
    stage.join()
    results = ResumableTasks("a stage", slow_once).run({1: {}, 2: {}})
    assert results == {1: {"key": 1}, 2: {"key": 2}}


def test_a_stage_that_is_begun_twice_shares_its_pieces_and_neither_fails(cores, monkeypatch):
    """Each comes to a piece that the other holds, as in experiments that DVC runs in parallel."""
    cores(2)
    monkeypatch.setattr(progress, "say", lambda line: Path("second").touch())

    def run() -> None:
        tasks = ResumableTasks("a stage", side_by_side)
        results = tasks.run({key: {} for key in range(4)})
        assert results == {key: {"key": key} for key in range(4)}
        tasks.done()

    stages = [get_context("fork").Process(target=run) for _ in range(2)]
    stages[0].start()
    wait_for("begun", 1)
    stages[1].start()
    for stage in stages:
        stage.join(60)
    assert [stage.exitcode for stage in stages] == [0, 0]
    assert sorted(begun()) == ["0", "1", "2", "3"]


def test_what_another_process_computes_is_begun_once_and_again_when_it_has_ended(monkeypatch):
    """A training loads its images and builds its network before it comes to the lock."""
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(progress, "say", lambda line: Path("told").touch())
    checkpoint, begun_at = Checkpoint("a stage", {"item": 1}), []

    def hold() -> None:
        with checkpoint:
            Path("held").touch()
            wait_for("told", 1)
            time.sleep(1)

    def locked(item: int) -> int:
        begun_at.append(time.monotonic())
        with checkpoint:
            return item

    holder = get_context("fork").Process(target=hold)
    holder.start()
    wait_for("held", 1)
    assert list(map_processes(locked, [1], threads=2)) == [1]
    holder.join()
    assert len(begun_at) == 2
    assert begun_at[1] - begun_at[0] > 1


def test_that_a_process_waits_is_said_once_however_often_another_one_comes_first(monkeypatch):
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.01)
    lines, locked = [], iter([True, True, False])
    monkeypatch.setattr(progress, "say", lines.append)
    error = LockedError("another computes it")
    error.held = lambda: False

    def compute(item: int) -> int:
        if next(locked):
            raise error
        return item

    assert list(map_processes(compute, [1], threads=2)) == [1]
    assert lines == ["another computes it (this process waits)"]


def test_of_a_group_of_processes_none_waits_for_what_another_group_computes(monkeypatch):
    """The others would wait for it at their next common step, which times out after half an hour."""
    monkeypatch.setattr(module, "world_size", lambda: 2)

    def held(item: int) -> int:
        raise LockedError("another computes it")

    with pytest.raises(LockedError, match="another computes it"):
        list(map_processes(held, [1]))
