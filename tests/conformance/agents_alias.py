"""A pytest plugin: `agents` is `ekiden.compat.agents`, and each test's outcome is written down."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import alias
import pytest

alias.install()


@pytest.fixture(autouse=True, scope="session")
def _spans_are_seen() -> None:
    """The tests look at spans with a processor of their own."""
    from ekiden.compat.agents.tracing import set_trace_processors
    from tests.testing_processor import SPAN_PROCESSOR_TESTING

    set_trace_processors([SPAN_PROCESSOR_TESTING])


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    from ekiden.compat.agents.run import set_default_agent_runner
    from tests.testing_processor import SPAN_PROCESSOR_TESTING

    SPAN_PROCESSOR_TESTING.clear()
    set_default_agent_runner(None)
    yield
    set_default_agent_runner(None)


_outcomes: dict[str, dict[str, Any]] = {}


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    known = _outcomes.setdefault(report.nodeid, {"outcome": "passed", "why": ""})
    if report.failed or (report.skipped and known["outcome"] == "passed"):
        known["outcome"], known["why"] = report.outcome, _last_line(report)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.failed:
        _outcomes[report.nodeid] = {"outcome": "failed", "why": _last_line(report)}


def pytest_sessionfinish() -> None:
    with open(os.environ["EKIDEN_CONFORMANCE_OUT"], "w", encoding="utf-8") as file:
        json.dump(_outcomes, file)


def _last_line(report: pytest.TestReport | pytest.CollectReport) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    text = crash.message if crash is not None else str(report.longrepr).strip()
    return str(text).strip().splitlines()[-1 if crash is None else 0] if text else ""
