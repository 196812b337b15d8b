"""Run the OpenAI Agents SDK's own tests, unmodified, against Ekiden, and compare with what we say.

Exits with 1 when a test fails that `differences.toml` does not name, when one that it names
passes, and when it names one that does not exist.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from sdist import PROJECT, VERSION, fetch, unpack_tests

HERE = Path(__file__).resolve().parent
FILES = (
    "test_extension_filters",
    "test_handoff_prompt",
    "test_agent_hooks",
    "test_global_hooks",
    "test_agent_llm_hooks",
    "test_agent_clone_shallow_copy",
    "test_call_model_input_filter",
    "test_call_model_input_filter_unit",
    "test_run",
    "test_items_helpers",
    "test_handoff_tool",
    "test_tool_guardrails",
    "test_guardrails",
    "test_stream_input_guardrail_timing",
    "realtime/test_realtime_handoffs",
)

_PYTEST_INI = """\
[pytest]
asyncio_mode = auto
asyncio_default_fixture_loop_scope = function
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How one test ended."""

    file: str
    test: str
    passed: bool
    why: str

    @property
    def name(self) -> str:
        """As it stands in `differences.toml`."""
        return f"{self.file}::{self.test}" if self.test else self.file


def main() -> int:
    """Fetch, run, print; gives the exit code."""
    reasons = declared()
    with tempfile.TemporaryDirectory(prefix="ekiden-conformance-") as folder:
        tests = unpack_tests(fetch(), Path(folder))
        outcomes = run(tests)
    print(f"{PROJECT} {VERSION}, its own tests on ekiden.compat.agents\n")
    print(table(outcomes))
    failed = [outcome for outcome in outcomes if not outcome.passed]
    for outcome in failed:
        reason = reasons.get(outcome.name)
        mark = "difference" if reason else "FAILED"
        print(f"\n{mark}: {outcome.name}\n  {reason or outcome.why}")
    problems = [*complaints(outcomes, reasons), *undocumented(outcomes)]
    for problem in problems:
        print(f"\n! {problem}", file=sys.stderr)
    return 1 if problems else 0


def declared() -> dict[str, str]:
    """The tests that are meant to fail, each with the reason."""
    data = tomllib.loads((HERE / "differences.toml").read_text(encoding="utf-8"))
    return {
        test: " ".join(entry["reason"].split())
        for entry in data.get("difference", ())
        for test in entry["tests"]
    }


def run(tests: Path) -> list[Outcome]:
    """Run the files in a process of their own and collect how each test ended."""
    out = tests.parent / "outcomes.json"
    (tests.parent / "pytest.ini").write_text(_PYTEST_INI)
    source = HERE.parents[1] / "src"
    environment = {
        **os.environ,
        "EKIDEN_CONFORMANCE_OUT": str(out),
        "PYTHONPATH": os.pathsep.join([str(HERE), str(source)]),
    }
    command = [sys.executable, "-m", "pytest", "-q", "-p", "agents_alias", "-p", "no:cacheprovider"]
    command += ["--tb=short", *(f"tests/{name}.py" for name in FILES)]
    finished = subprocess.run(
        command, cwd=tests.parent, env=environment, capture_output=True, text=True, check=False
    )
    if "-v" in sys.argv or not out.exists():
        print(finished.stdout, finished.stderr)
    if not out.exists():
        raise SystemExit("the tests did not run")
    results = json.loads(out.read_text(encoding="utf-8"))
    return [_outcome(node, result) for node, result in results.items()]


def _outcome(node: str, result: dict[str, str]) -> Outcome:
    path, _, test = node.partition("::")
    file = path.removeprefix("tests/").removesuffix(".py")
    return Outcome(file=file, test=test, passed=result["outcome"] == "passed", why=result["why"])


def counts(outcomes: list[Outcome]) -> list[tuple[str, int, int]]:
    """For each file, and for all: its name, how many tests passed, and how many there are."""
    total, passed = Counter[str](), Counter[str]()
    for outcome in outcomes:
        total[outcome.file] += 1
        passed[outcome.file] += outcome.passed
    rows = [(name, passed[name], total[name]) for name in FILES]
    return [*rows, ("all", passed.total(), total.total())]


def table(outcomes: list[Outcome]) -> str:
    """The counts for people."""
    lines = [f"{'file':<36}{'passed':>8}{'failed':>8}{'total':>8}"]
    for name, good, count in counts(outcomes):
        lines.append(f"{name:<36}{good:>8}{count - good:>8}{count:>8}")
    return "\n".join(lines)


def undocumented(outcomes: list[Outcome]) -> list[str]:
    """Counts that `docs/compat.md` does not have as they are."""
    page = (HERE.parents[1] / "docs" / "compat.md").read_text(encoding="utf-8")
    rows = [
        f"| `{name}` | {good} | {count} |" if name in FILES else f"| {name} | {good} | {count} |"
        for name, good, count in counts(outcomes)
    ]
    return [f"docs/compat.md lacks the row {row}" for row in rows if row not in page]


def complaints(outcomes: list[Outcome], reasons: dict[str, str]) -> list[str]:
    """Where the run and `differences.toml` disagree."""
    by_name = {outcome.name: outcome for outcome in outcomes}
    ran = {outcome.file for outcome in outcomes}
    found = [
        f"{name} failed and is not declared: {outcome.why}"
        for name, outcome in by_name.items()
        if not outcome.passed and name not in reasons
    ]
    for name in reasons:
        if name not in by_name:
            found.append(f"{name} is declared in differences.toml but does not exist")
        elif by_name[name].passed:
            found.append(f"{name} is declared in differences.toml but passes: remove it there")
    return found + [f"{name} did not run at all" for name in FILES if name not in ran]


if __name__ == "__main__":
    raise SystemExit(main())
