"""Plants one defect after the other and looks which test catches it.

    python -m tests.mutations.run [--only NAME …] [--json] [--quick]

The project is copied; each defect is planted in the copy, and the tests that are to catch it are
run there until the first fails. If none does, the wider suite is; a defect that survives that, too,
means that a test is missing. The same tests must pass without it, which is tried first.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from tests.mutations.in_runtime import IN_RUNTIME
from tests.mutations.in_stores import IN_STORES
from tests.mutations.mutation import Mutation, copy_project

ALL: tuple[Mutation, ...] = (*IN_STORES, *IN_RUNTIME)

WIDER = ("tests/contract", "tests/unit/runtime", "tests/faults")
_FAILED = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", re.MULTILINE)
_TIMEOUT_S = 900
_OPTIONS = (
    "-x", "-q", "-p", "no:cacheprovider", "--timeout=60", "--no-header",
    "--tb=no", "-rfE",
)  # fmt: skip
_CAUGHT = 1
"""The exit code of pytest when tests failed."""
_TOO_LONG = -1

_UNITS = (
    "tests/unit/", "tests/contract/test_memory_store.py", "tests/contract/test_sqlite_store.py",
    "tests/contract/test_inline_engine.py",
)  # fmt: skip
"""What ``make test-unit`` runs."""

Tier = Literal["test-unit", "test", "test-all", ""]
Fate = Literal["caught", "caught by the wider suite", "survived", "broken"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What became of one defect."""

    mutation: str
    area: str
    fate: Fate
    test: str
    """The one that caught it."""
    tier: Tier
    """The first target of ``make`` that runs it."""
    seconds: float


class Copy:
    """The project's copy."""

    def __init__(self, folder: Path, postgres: str) -> None:
        self._folder = folder
        self._sound: dict[tuple[str, ...], str | None] = {}
        """By tests that were run without any defect, what failed."""
        inherited = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("EKIDEN_", "COV_", "COVERAGE_", "PYTEST_"))
        }
        self._environment = {
            **inherited,
            "PYTHONPATH": str(folder / "src"),
            "PYTHONDONTWRITEBYTECODE": "",
            "EKIDEN_TEST_POSTGRES": postgres,
        }

    def pytest(self, arguments: Sequence[str]) -> tuple[int, str]:
        """The exit code, and what it printed."""
        marks = () if "-m" in arguments else ("-m", "not slow and not conformance")
        command = [sys.executable, "-m", "pytest"]
        try:
            done = subprocess.run(
                [*command, *_OPTIONS, *marks, *arguments],
                cwd=self._folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=_TIMEOUT_S,
            )
        except subprocess.TimeoutExpired:
            return _TOO_LONG, f"{' '.join(arguments)} took longer than {_TIMEOUT_S} s"
        return done.returncode, done.stdout

    def check_itself(self) -> None:
        """The copy's own code is what is imported."""
        code = "import ekiden; print(ekiden.__file__)"
        found = subprocess.check_output(
            [sys.executable, "-c", code], cwd=self._folder, env=self._environment, text=True
        )
        assert Path(found.strip()).is_relative_to(self._folder), found

    def examine(self, mutation: Mutation, *, quick: bool) -> Finding:
        """Plant it, and see; its tests must pass without it."""
        began = time.monotonic()
        problem = self._problem_without(mutation.tests)
        if problem is None:
            with mutation.planted(self._folder):
                fate, test = self._fate(mutation, quick)
        else:
            fate, test = "broken", f"without any defect: {problem}"
        return Finding(
            mutation=mutation.name,
            area=mutation.area,
            fate=fate,
            test=test,
            tier=_tier(mutation, test) if fate.startswith("caught") else "",
            seconds=round(time.monotonic() - began, 1),
        )

    def _problem_without(self, tests: tuple[str, ...]) -> str | None:
        """What is wrong with the tests when there is no defect."""
        if tests not in self._sound:
            code, output = self.pytest(tests)
            self._sound[tests] = None if code == 0 else _first_failed(output)
        return self._sound[tests]

    def _fate(self, mutation: Mutation, quick: bool) -> tuple[Fate, str]:
        code, output = self.pytest(mutation.tests)
        if code == _CAUGHT:
            return "caught", _first_failed(output)
        if code != 0:
            return "broken", output[-2000:]
        if quick:
            return "survived", ""
        code, output = self.pytest(WIDER)
        if code == _CAUGHT:
            return "caught by the wider suite", _first_failed(output)
        return ("survived", "") if code == 0 else ("broken", output[-2000:])


def _tier(mutation: Mutation, test: str) -> Tier:
    if "-m" in mutation.tests:
        return "test-all"
    return "test-unit" if test.startswith(_UNITS) else "test"


def _first_failed(output: str) -> str:
    found = _FAILED.search(output)
    return found[1] if found else output[-500:]


@contextmanager
def prepared_copy() -> Iterator[Copy]:
    """A copy with a PostgreSQL server for all runs."""
    from tests.support.server import private_server

    with (
        tempfile.TemporaryDirectory(prefix="ekiden-mutations-") as folder,
        private_server() as server,
    ):
        copy_project(Path(folder))
        copy = Copy(Path(folder), server.url)
        copy.check_itself()
        yield copy


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutations.run", description=__doc__)
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=[each.name for each in ALL])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--quick", action="store_true", help="never run the wider suite")
    given = parser.parse_args()
    chosen = [each for each in ALL if given.only is None or each.name in given.only]
    problems = [problem for each in chosen if (problem := each.problem()) is not None]
    findings: list[Finding] = []
    if not problems:
        with prepared_copy() as copy:
            for mutation in chosen:
                findings.append(copy.examine(mutation, quick=given.quick))
                if not given.json:
                    _show(findings[-1])
    if given.json:
        told = {"problems": problems, "findings": [asdict(each) for each in findings]}
        print(json.dumps(told, indent=1))
    for problem in problems:
        print(problem, file=sys.stderr)
    is_good = not problems and all(each.fate.startswith("caught") for each in findings)
    return 0 if is_good else 1


def _show(finding: Finding) -> None:
    told = (finding.mutation, finding.fate, finding.tier, finding.test, finding.seconds)
    print(f"| {' | '.join(map(str, told))} |", flush=True)


if __name__ == "__main__":
    sys.exit(main())
