"""Shows where the time of a test run goes: tests, wall and CPU seconds of each folder.

CPU seconds include child processes, also those that are still running. A database server that test
processes share belongs to none of them and is left out.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Generator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import pytest

from tests.support.forked import seconds_of_programs

_STARTED = pytest.StashKey[tuple[float, float]]()
_CHILDREN = pytest.StashKey[float]()
"""The seconds of child processes that still run, as far as is known."""
_QUICK_S = 0.03
"""Whatever takes less has started no process: to look for them would take as long."""
_PROPERTY = "seconds"
_SLOWEST = 10
_TICKS = os.sysconf("SC_CLK_TCK")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--budget`."""
    parser.addoption(
        "--budget",
        type=float,
        metavar="MINUTES",
        help="print the seconds of each folder, and whether the run took longer than this",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Collect the seconds of all reports."""
    if config.getoption("budget") is not None:
        config.pluginmanager.register(_Summary(config.getoption("budget")))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    """Remember when the test began."""
    if item.config.getoption("budget") is None:
        return (yield)
    item.stash[_STARTED] = (time.perf_counter(), _own_seconds())
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    """Add the seconds of the whole test to its last report."""
    report = yield
    if report.when == "teardown" and item.config.getoption("budget") is not None:
        began, own = item.stash[_STARTED]
        wall, cpu = time.perf_counter() - began, _own_seconds() - own
        if wall > _QUICK_S:
            before = item.config.stash.get(_CHILDREN, 0.0)
            item.config.stash[_CHILDREN] = sum(map(_seconds_of, _descendants("self")))
            # A child that ended since then is among our own by now.
            cpu += item.config.stash[_CHILDREN] - before
        report.user_properties.append((_PROPERTY, (wall, max(cpu, 0.0))))
    return report


class _Summary:
    """Adds up the seconds of the reports and prints them at the end."""

    def __init__(self, budget_minutes: float) -> None:
        self._budget_s = budget_minutes * 60
        self._began = time.monotonic()
        self._tests: dict[str, tuple[float, float]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for name, value in report.user_properties:
            if name == _PROPERTY:
                wall, cpu = cast(tuple[float, float], value)
                self._tests[report.nodeid] = (wall, cpu)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        folders: dict[str, list[tuple[float, float]]] = defaultdict(list)
        for test, spent in self._tests.items():
            folders[_folder(test)].append(spent)
        terminalreporter.section("time by folder")
        terminalreporter.line(f"{'folder':<32}{'tests':>7}{'wall s':>9}{'CPU s':>9}")
        for folder, tests in [*sorted(folders.items()), ("all", list(self._tests.values()))]:
            sums = "".join(f"{sum(column):>9.0f}" for column in zip(*tests, strict=True))
            terminalreporter.line(f"{folder:<32}{len(tests):>7}{sums}")
        slowest = sorted(self._tests.items(), key=lambda each: -each[1][1])[:_SLOWEST]
        for test, (wall, cpu) in slowest:
            terminalreporter.line(f"{cpu:6.1f} s CPU, {wall:6.1f} s wall  {test}")
        took = time.monotonic() - self._began
        verdict = "within" if took <= self._budget_s else "OVER"
        terminalreporter.line(
            f"{took / 60:.1f} minutes, {verdict} the budget of {self._budget_s / 60:.0f}"
        )


def _folder(test: str) -> str:
    """The first two folders below ``tests``; one for tests that stand directly in the first."""
    parts = Path(test.split("::")[0]).parent.parts
    return "/".join(parts[:3])


def _own_seconds() -> float:
    """Of this process, of the children it waited for, and of its programs."""
    times = os.times()
    own = times.user + times.system + times.children_user + times.children_system
    return own + seconds_of_programs()


def _descendants(process: str) -> Iterator[str]:
    """The running ones, on Linux; none elsewhere."""
    with suppress(OSError):
        for task in os.listdir(f"/proc/{process}/task"):
            for child in Path(f"/proc/{process}/task/{task}/children").read_text().split():
                yield child
                yield from _descendants(child)


def _seconds_of(process: str) -> float:
    with suppress(OSError):
        stat = Path(f"/proc/{process}/stat").read_text()
        # utime, stime, cutime and cstime; the name before them may hold spaces.
        return sum(map(int, stat.rpartition(")")[2].split()[11:15])) / _TICKS
    return 0.0
