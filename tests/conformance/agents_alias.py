"""A pytest plugin: `agents` is `ekiden.compat.agents`, and each test's outcome is written down."""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Iterator, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import pytest

_REAL = "ekiden.compat."


class _Alias(MetaPathFinder, Loader):
    """Gives the module of the same name below `ekiden.compat` for `agents` and all below it."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname.partition(".")[0] != "agents" or find_spec(_REAL + fullname) is None:
            return None
        return ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = importlib.import_module(_REAL + spec.name)
        self._own_spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._own_spec


sys.meta_path.insert(0, _Alias())


@pytest.fixture(autouse=True)
def _no_default_runner() -> Iterator[None]:
    from ekiden.runtime import set_default_agent_runner

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
