"""Progress of runs: a bar for each on a terminal, elsewhere a line a minute for each.

A run calls `report` and `say`. A worker (`running.workers`) sends them to the process of the stage, which displays
them. Without tqdm, a terminal gets lines too.
"""

import logging
import sys
import time
from collections.abc import Callable
from typing import NamedTuple

from annulus.device.distributed import rank

try:
    from tqdm import tqdm
except ModuleNotFoundError:  # not a dependency of the library
    tqdm = None

LINE_SECONDS = 60
BAR_SECONDS = 1.0  # between updates of a bar: its loss waits for a GPU

log = logging.getLogger("annulus")


class ProgressReport(NamedTuple):
    """Progress of a run: images seen, of `total`; `text` adds the current numbers."""

    name: str
    done: int
    total: int
    text: str
    ended: bool


class Line(NamedTuple):
    """A line of a run, or a warning."""

    name: str
    line: str
    level: int


class Display:
    """Display of all runs, and of the time left for all, in the stage's process."""

    def __init__(self, runs: int = 1) -> None:
        self.runs = runs
        self.begun: tuple[float, float] | None = None  # time of the first report; shares that earlier processes did
        self.shares: dict[str, float] = {}  # completed share of each run
        self.all: tqdm | None = None
        self.bars: dict[str, tqdm] = {}
        self.first: dict[str, tuple[float, int]] = {}  # time of a run's first report, and its images then
        self.next_line: dict[str, float] = {}
        self.warned: set[str] = set()

    def show(self, message: ProgressReport | Line) -> None:
        if isinstance(message, Line):
            self._say(message)
            return
        self._count(message)
        if _has_bars():
            self._bar(message)
        else:
            self._line(message)

    def close(self) -> None:
        for bar in (*self.bars.values(), *filter(None, [self.all])):
            bar.close()
        self.bars.clear()
        self.all = None

    def _count(self, message: ProgressReport) -> None:
        """Updates a run's share. The share of its first report, done by an earlier process, took no time here."""
        share = message.done / message.total
        when, before = self.begun or (time.monotonic(), 0.0)
        self.begun = when, before + (0.0 if message.name in self.shares else share)
        self.shares[message.name] = share

    def _left(self) -> float | None:
        """Estimated seconds until all runs end, if all have the same length; None without an estimate."""
        when, before = self.begun
        done = sum(self.shares.values())
        return (time.monotonic() - when) * (self.runs - done) / (done - before) if done > before else None

    def _say(self, message: Line) -> None:
        line = message.line
        if message.level < logging.WARNING:
            line = _named(message.name, line)
        elif line in self.warned:  # runs that differ only in the seed give equal warnings
            return
        self.warned.add(message.line)
        if self.bars and _has_bars():  # the terminal may be closed, and then a write would end the run
            tqdm.write(line, file=sys.stderr)  # above the bars
        else:
            log.log(message.level, "%s", line)

    def _bar(self, message: ProgressReport) -> None:
        if self.runs > 1:
            ended = sum(share == 1 for share in self.shares.values())
            left = self._left()
            self.all = self.all or tqdm(
                total=self.runs, desc="all", bar_format="{desc}: {n} of {total} runs{postfix}", leave=False
            )
            self.all.set_postfix_str("" if left is None else f"{_duration(left)} left", refresh=False)
            self.all.update(ended - self.all.n)
        bar = self.bars.get(message.name)
        if bar is None:
            bar = tqdm(total=message.total, initial=message.done, desc=message.name, unit=" images", leave=False)
            self.bars[message.name] = bar
        bar.set_postfix_str(message.text, refresh=False)
        bar.update(message.done - bar.n)
        if message.ended:
            self.bars.pop(message.name).close()

    def _line(self, message: ProgressReport) -> None:
        now = time.monotonic()
        began, at = self.first.setdefault(message.name, (now, message.done))
        due = self.next_line.setdefault(message.name, began + LINE_SECONDS)
        if now < due and not message.ended:
            return
        self.next_line[message.name] = now + LINE_SECONDS
        line = _named(message.name, message.text)
        speed = (message.done - at) / max(now - began, 1e-9)
        if speed > 0:
            line += f", {speed:,.0f} images/s"
            if not message.ended:
                line += f", {_duration((message.total - message.done) / speed)} left"
        if self.runs > 1 and (left := self._left()):
            line += f", {_duration(left)} for all {self.runs} runs"
        log.info("%s", line)


_name = ""
_send: Callable[[ProgressReport | Line], None] = Display().show
_due = 0.0


def begin(name: str, send: Callable[[ProgressReport | Line], None]) -> None:
    """Sets the name of this process's run; its reports go to `send`."""
    global _name, _send, _due
    _name, _send, _due = name, send, 0.0


def rename(name: str) -> None:
    """Sets the run that this process's progress lines name."""
    begin(name, _send)


def report(done: int, total: int, text: Callable[[], str], ended: bool = False) -> None:
    """Reports the progress of this process's run: `done` of `total` images.

    `text` is called only if the report is due.
    """
    global _due
    now = time.monotonic()
    if rank() > 0 or (now < _due and not ended):
        return
    _due = now + (BAR_SECONDS if _has_bars() else LINE_SECONDS / 10)
    _send(ProgressReport(_name, done, total, text(), ended))


def say(line: str, level: int = logging.INFO) -> None:
    """Reports a line about the run of this process; equal warnings of several runs appear once."""
    if rank() == 0:
        _send(Line(_name, line, level))


class Forwarding(logging.Handler):
    """Sends a worker's log records to the stage's process."""

    def emit(self, record: logging.LogRecord) -> None:
        say(record.getMessage(), record.levelno)


def _has_bars() -> bool:
    return tqdm is not None and sys.stderr.isatty()


def _named(name: str, line: str) -> str:
    return f"{name}: {line}" if name else line


def _duration(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {seconds} s" if minutes else f"{seconds} s"
