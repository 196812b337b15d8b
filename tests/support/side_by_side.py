"""``--processes N``: tests are collected once, and run by processes that fork from there.

With thirteen thousand tests it takes as long to collect them as to run a thousand; processes that
each collect for themselves need minutes of CPU for it.
"""

from __future__ import annotations

import os
import random
import signal
import uuid
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import groupby
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from tempfile import TemporaryFile
from typing import Any

import pytest
from _pytest._io import TerminalWriter
from _pytest.capture import FDCapture

from tests.support.examples import SLOW_TIMEOUT_S

RUN = "EKIDEN_TEST_RUN"
"""The environment variable that says which processes belong together."""
_MOST_OF_A_FILE = 25
"""More tests of one file are shared out."""
_NUMBER = 4
_SLOW_UNTIL = 0.8
"""Tests of slow folders, and properties, are among the first 80 %."""
_LONGEST_FIRST = ("faults", "console", "acceptance", "docs", "integration", "contract")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--processes`."""
    parser.addoption(
        "--processes", type=int, default=0, metavar="N", help="run the tests in N processes"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Fork, and report what the processes tell."""
    config = session.config
    count = min(config.getoption("processes"), len(session.items))
    if count < 2 or config.option.collectonly or session.testsfailed:
        return None
    os.environ[RUN] = uuid.uuid4().hex
    config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
    shares = _shares(session.items)
    queue, filling = os.pipe()
    workers = [_fork(session, number, shares, queue, filling) for number in range(count)]
    os.close(queue)
    try:
        with suppress(BrokenPipeError):  # All of them died.
            for number in range(len(shares)):
                os.write(filling, number.to_bytes(_NUMBER))
        os.close(filling)
        ended = _listen(session, workers)
    finally:
        for worker in workers:
            worker.end()
    if ended < len(session.items):
        session.shouldfail = f"{len(session.items) - ended} tests were not run to their end"
        raise session.Failed(session.shouldfail)
    return True


@dataclass(slots=True)
class _Worker:
    """A process, and the tests that it began and did not end."""

    pid: int
    news: Connection
    left: list[str] = field(default_factory=list)
    status: int | None = None

    def end(self) -> int:
        """Its exit code; it is killed if it goes on."""
        if self.status is None:
            if not self.news.closed:
                self.news.close()
                os.kill(self.pid, signal.SIGTERM)
            self.status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.status


def _shares(items: Sequence[pytest.Item]) -> list[list[pytest.Item]]:
    """Tests that run in one process, in the order of their start.

    The longest tests start first, each alone: the last of them would keep one core busy for
    minutes while the others are idle. Tests of slow folders follow early. They wait for other
    processes, so tests that compute are spread between them. Each property is alone, too: it takes
    as long as hundreds of other tests, so several in a row at the end would be waited for.
    """
    longest = [[item] for item in items if _is_longest(item)]
    properties = [[item] for item in items if _is_property(item) and not _is_longest(item)]
    shares = []
    for _, tests in groupby(items, key=lambda item: item.path):
        share = [item for item in tests if not (_is_longest(item) or _is_property(item))]
        shares += [
            share[start : start + _MOST_OF_A_FILE]
            for start in range(0, len(share), _MOST_OF_A_FILE)
        ]
    slow = sorted(filter(_is_slow, shares), key=lambda share: _LONGEST_FIRST.index(_folder(share)))
    quick = [share for share in shares if not _is_slow(share)]
    places = {
        id(share): place * until / len(group)
        for group, until in ((slow, _SLOW_UNTIL), (properties, _SLOW_UNTIL), (quick, 1))
        for place, share in enumerate(group)
    }
    return [*longest, *sorted([*properties, *shares], key=lambda share: places[id(share)])]


def _is_longest(item: pytest.Item) -> bool:
    """Whether the test has more time than `tests/conftest.py` gives to slow tests."""
    limit = item.get_closest_marker("timeout")
    return limit is not None and limit.args[0] > SLOW_TIMEOUT_S


def _is_property(item: pytest.Item) -> bool:
    """Whether Hypothesis calls the test with many examples."""
    return getattr(getattr(item, "function", None), "is_hypothesis_test", False)


def _is_slow(share: Sequence[pytest.Item]) -> bool:
    return _folder(share) in _LONGEST_FIRST


def _folder(share: Sequence[pytest.Item]) -> str:
    return share[0].nodeid.split("/")[1]


def _fork(
    session: pytest.Session,
    number: int,
    shares: list[list[pytest.Item]],
    queue: int,
    filling: int,
) -> _Worker:
    reading, writing = Pipe(duplex=False)
    pid = os.fork()
    if pid:
        writing.close()
        return _Worker(pid, reading)
    status = 1
    try:
        os.close(filling)
        reading.close()
        _become_worker(session, number, writing)
        _run(session, writing, shares, queue)
        status = 0
    finally:
        os._exit(status)


def _become_worker(session: pytest.Session, number: int, news: Connection) -> None:
    """Share neither output nor folders nor chance with the others."""
    random.seed()
    plugins = session.config.pluginmanager
    _capture_apart(plugins.getplugin("capturemanager"))
    plugins.unregister(name="terminalreporter")
    plugins.register(_Teller(session.config, news), name="terminalreporter")
    factory = session.config._tmp_path_factory  # type: ignore[attr-defined]
    factory._basetemp = factory.getbasetemp() / f"process-{number}"
    factory._basetemp.mkdir()


def _capture_apart(manager: Any) -> None:
    """Put a file of our own behind what is captured; libraries may hold on to `sys.stderr`."""
    captures = manager._global_capturing
    for capture in (captures.out, captures.err):
        if isinstance(capture, FDCapture):
            with TemporaryFile() as own:
                os.dup2(own.fileno(), capture.tmpfile.fileno())
            os.dup2(capture.tmpfile.fileno(), capture.targetfd)


class _Teller:
    """Sends the reports of a process, in place of the reporter that writes to the terminal."""

    def __init__(self, config: pytest.Config, news: Connection) -> None:
        self._config = config
        self._news = news
        # What a buffer holds is lost when the process ends, or shown with a later test.
        self._tw = TerminalWriter(open(1, "w", buffering=1, encoding="utf-8", closefd=False))  # noqa: SIM115
        """Where the time limit of a test writes the stacks of all threads."""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        told = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        self._news.send(told)


def _run(
    session: pytest.Session, news: Connection, shares: list[list[pytest.Item]], queue: int
) -> None:
    tests = _taken(news, shares, queue)
    item = next(tests, None)
    while item is not None:
        following = next(tests, None)
        session.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        item = following
    _save_coverage()
    news.send(None)


def _taken(news: Connection, shares: list[list[pytest.Item]], queue: int) -> Iterator[pytest.Item]:
    """The tests of one share after the other, as long as there are any."""
    while number := os.read(queue, _NUMBER):
        share = shares[int.from_bytes(number)]
        news.send([item.nodeid for item in share])
        yield from share


def _save_coverage() -> None:
    with suppress(ImportError):
        from coverage import Coverage

        if (measuring := Coverage.current()) is not None:
            measuring.stop()
            measuring.save()


def _listen(session: pytest.Session, workers: Sequence[_Worker]) -> int:
    """Report until all have come to their end, or enough has failed; how many tests ended."""
    of = {worker.news: worker for worker in workers}
    ended = 0
    while of:
        for news in wait(list(of)):
            assert isinstance(news, Connection)
            worker = of[news]
            try:
                told = news.recv()
            except (EOFError, ConnectionError):
                told = None
                _report_death(session, worker)
            if told is None:
                del of[news]
                news.close()
                worker.end()
            elif isinstance(told, list):
                worker.left += told
            else:
                ended += _report(session, worker, told)
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        if session.shouldstop:
            raise session.Interrupted(session.shouldstop)
    return ended


def _report(session: pytest.Session, worker: _Worker, told: dict[str, Any]) -> bool:
    """Whether the test has come to its end."""
    hook = session.config.hook
    report = hook.pytest_report_from_serializable(config=session.config, data=told)
    hook.pytest_runtest_logreport(report=report)
    if report.when != "teardown":
        return False
    worker.left.remove(report.nodeid)
    hook.pytest_runtest_logfinish(nodeid=report.nodeid, location=report.location)
    return True


def _report_death(session: pytest.Session, worker: _Worker) -> None:
    """The test that was under way failed; those after it were not run."""
    worker.news.close()
    status = worker.end()
    begun = worker.left[0] if worker.left else "no test"
    report = pytest.TestReport(
        nodeid=begun,
        location=(begun.split("::")[0], None, begun),
        keywords={},
        outcome="failed",
        longrepr=f"the process ended with {status} in {begun}; not run: {worker.left[1:]}",
        when="call",
    )
    session.config.hook.pytest_runtest_logreport(report=report)
