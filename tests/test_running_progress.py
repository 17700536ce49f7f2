"""Progress of runs: bars on a terminal, elsewhere a line a minute."""

import logging
import os
import sys
from contextlib import suppress

import pytest

from annulus.running import progress
from annulus.running.progress import Display, Line, ProgressReport
from annulus.running.workers import map_processes


@pytest.fixture
def clock(monkeypatch):
    """A clock that the test moves."""
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_elsewhere_than_on_a_terminal_a_run_says_a_line_a_minute_and_one_at_its_end(clock, caplog):
    """A run that continues counts only the images since it continued."""
    display = Display()
    with caplog.at_level(logging.INFO, logger="annulus"):
        for clock[0] in range(0, 181, 20):
            display.show(ProgressReport("seed 1", 100 * clock[0], 36_000, f"epoch {clock[0]}", ended=clock[0] == 180))
        for clock[0], done in ((200, 9_000), (260, 9_600)):
            display.show(ProgressReport("", done, 81_600, "epoch 2", ended=False))
    assert caplog.messages == [
        "seed 1: epoch 60, 100 images/s, 5 min 0 s left",
        "seed 1: epoch 120, 100 images/s, 4 min 0 s left",
        "seed 1: epoch 180, 100 images/s",
        "epoch 2, 10 images/s, 2 h 0 min left",
    ]


def test_of_several_runs_the_time_that_is_left_for_all_is_told(clock, caplog):
    """The first run continues at half, and its earlier images took no time here. Two of four runs have not begun."""
    display = Display(4)
    with caplog.at_level(logging.INFO, logger="annulus"):
        for clock[0] in (0, 60):
            display.show(ProgressReport("run 1 of 4", 500 + 5 * clock[0], 1000, "epoch 2", ended=False))
            display.show(ProgressReport("run 2 of 4", 5 * clock[0], 1000, "epoch 1", ended=False))
    assert caplog.messages == [
        "run 1 of 4: epoch 2, 5 images/s, 40 s left, 10 min 40 s for all 4 runs",
        "run 2 of 4: epoch 1, 5 images/s, 2 min 20 s left, 4 min 50 s for all 4 runs",
    ]


def test_on_a_terminal_each_run_has_a_bar_until_its_end(monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    display = Display(3)
    display.show(ProgressReport("RING", 10, 100, "loss 3", ended=False))
    display.show(ProgressReport("BALL", 20, 100, "loss 2", ended=False))
    assert list(display.bars) == ["RING", "BALL"]
    assert (display.bars["RING"].n, display.bars["RING"].total, display.bars["RING"].desc) == (10, 100, "RING")
    display.show(ProgressReport("RING", 100, 100, "loss 1", ended=True))
    assert list(display.bars) == ["BALL"]
    assert (display.all.n, display.all.total) == (1, 3)
    display.show(Line("BALL", "resuming", logging.INFO))
    display.close()
    assert not display.bars
    printed = capsys.readouterr().err
    assert "images/s" in printed
    assert "BALL: resuming\n" in printed


def test_where_the_terminal_is_gone_since_a_line_goes_to_the_log(monkeypatch, caplog):
    """After `disown`, for example, a write to it would end the run, or the thread that workers wait for."""
    ours, terminal = os.openpty()
    stderr = os.fdopen(terminal, "w")
    monkeypatch.setattr(sys, "stderr", stderr)
    display = Display()
    display.show(ProgressReport("RING", 10, 100, "loss 3", ended=False))
    assert list(display.bars) == ["RING"]
    os.close(ours)
    with caplog.at_level(logging.INFO, logger="annulus"):
        display.show(Line("RING", "resuming", logging.INFO))
    display.close()
    with suppress(OSError):
        stderr.close()
    assert caplog.messages == ["RING: resuming"]


def test_a_run_that_fails_leaves_no_bar(monkeypatch):
    bars = Display()
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setattr(progress, "Display", lambda runs: bars)
    monkeypatch.setattr(progress, "_send", bars.show)  # afterwards as before

    def fail(item: int) -> None:
        progress.report(item, 100, lambda: "loss 3")
        assert bars.bars
        raise ValueError(item)

    with pytest.raises(ValueError, match="10"):
        list(map_processes(fail, [10], threads=2))
    assert not bars.bars


def test_a_run_is_asked_for_words_only_where_they_are_shown(clock, monkeypatch):
    sent, calls = [], []
    monkeypatch.setattr(progress, "_send", sent.append)
    progress.rename("seed 3")
    for second in (0.0, 1.0, 7.0, 8.0):
        clock[0] = second
        progress.report(int(second), 9, lambda: calls.append(1) or "said")
    progress.report(9, 9, lambda: "said", ended=True)
    progress.say("a line")
    assert [message.done for message in sent[:-1]] == [0, 7, 9]
    assert len(calls) == 2
    assert sent[-1] == Line("seed 3", "a line", logging.INFO)
