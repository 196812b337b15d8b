"""Run the OpenAI Agents SDK's own tests, unmodified, against Ekiden.

    python tests/conformance/run.py [WORD …] [-v]

All test files of the source archive are looked at; `applies.py` decides which apply. WORD limits
the run to files whose path has it; `-v` lists every case that fails. Each case has a time limit.
Exits with 1 when fewer cases pass than `LEAST`, or one that is declared to fail passes.
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

from applies import reason_against
from sdist import PROJECT, VERSION, beside, fetch, unpack_tests

HERE = Path(__file__).resolve().parent
TIME_LIMIT_S = 20
LEAST = 888
"""So many cases passed when this was last measured."""

_PYTEST_INI = """\
[pytest]
asyncio_mode = auto
asyncio_default_fixture_loop_scope = function
markers =
    allow_call_model_methods: nothing
    serial: nothing
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How one test ended."""

    file: str
    test: str
    outcome: str
    why: str

    @property
    def name(self) -> str:
        """As written in `differences.toml`."""
        return f"{self.file}::{self.test}" if self.test else self.file

    @property
    def cause(self) -> str:
        """The kind of error, in one word."""
        if "Timeout" in self.why:
            return "time limit"
        return self.why.partition(":")[0].split(".")[-1][:40] or "unknown"


def main() -> int:
    """Fetch, run, print; gives the exit code."""
    words = [each for each in sys.argv[1:] if not each.startswith("-")]
    reasons = declared()
    with tempfile.TemporaryDirectory(prefix="ekiden-conformance-") as folder:
        tests = unpack_tests(fetch(), Path(folder))
        against = {path: reason_against(path) for path in sorted(tests.rglob("test_*.py"))}
        chosen = [path for path, reason in against.items() if reason is None]
        if words:
            chosen = [path for path in chosen if any(word in str(path) for word in words)]
        outcomes = run(tests, chosen)
    print(f"{PROJECT} {VERSION}, its own tests on ekiden.compat.agents\n")
    print(table(outcomes))
    not_applicable = Counter(reason for reason in against.values() if reason)
    print(f"\nfiles that apply: {len(chosen)} of {len(against)}")
    for reason, count in not_applicable.most_common():
        print(f"  not applicable, {reason}: {count}")
    passed = sum(each.outcome == "passed" for each in outcomes)
    failed = [each for each in outcomes if each.outcome == "failed"]
    print(f"\ncases that apply: {passed + len(failed)}, passed: {passed}")
    apart = [each for each in outcomes if "sandbox" in each.file and each.outcome != "skipped"]
    good = sum(each.outcome == "passed" for each in apart)
    print(f"  of these about sandboxes: {len(apart)}, passed: {good}")
    different = [each for each in failed if each.name in reasons]
    print(f"failed on purpose (differences.toml): {len(different)}")
    for cause, count in Counter(e.cause for e in failed if e.name not in reasons).most_common():
        print(f"  failed, {cause}: {count}")
    if "-v" in sys.argv:
        for each in failed:
            print(f"\n{each.name}\n  {reasons.get(each.name) or each.why}")
    stale = [e.name for e in outcomes if e.outcome == "passed" and e.name in reasons]
    for name in stale:
        print(f"passes now, remove it from differences.toml: {name}")
    return 1 if stale or (passed < LEAST and not words) else 0


def declared() -> dict[str, str]:
    """The tests that are meant to fail, each with the reason."""
    data = tomllib.loads((HERE / "differences.toml").read_text(encoding="utf-8"))
    return {
        test: " ".join(entry["reason"].split())
        for entry in data.get("difference", ())
        for test in entry["tests"]
    }


def run(tests: Path, files: list[Path]) -> list[Outcome]:
    """Run the files in a process of their own and collect how each test ended."""
    out = tests.parent / "outcomes.json"
    (tests.parent / "pytest.ini").write_text(_PYTEST_INI)
    source = HERE.parents[1] / "src"
    # A folder of its own: beside it are scripts with names that the tests import.
    plugin = tests.parent / "plugin"
    plugin.mkdir()
    for name in ("agents_alias.py", "alias.py"):
        (plugin / name).write_text((HERE / name).read_text(encoding="utf-8"), encoding="utf-8")
    environment = {
        **os.environ,
        "EKIDEN_CONFORMANCE_OUT": str(out),
        "OPENAI_API_KEY": "sk-none",
        "PYTHONPATH": os.pathsep.join([str(plugin), str(source), str(beside())]),
    }
    command = [sys.executable, "-m", "pytest", "-q", "-p", "agents_alias", "-p", "no:cacheprovider"]
    command += ["--tb=short", f"--timeout={TIME_LIMIT_S}", "--continue-on-collection-errors"]
    command += [str(path.relative_to(tests.parent)) for path in files]
    finished = subprocess.run(
        command, cwd=tests.parent, env=environment, capture_output=True, text=True, check=False
    )
    if not out.exists():
        print(finished.stdout[-3000:], finished.stderr[-3000:])
        raise SystemExit("the tests did not run")
    results = json.loads(out.read_text(encoding="utf-8"))
    return [_outcome(node, result) for node, result in results.items()]


def _outcome(node: str, result: dict[str, str]) -> Outcome:
    path, _, test = node.partition("::")
    file = path.removeprefix("tests/").removesuffix(".py")
    return Outcome(file=file, test=test, outcome=result["outcome"], why=result["why"])


def table(outcomes: list[Outcome]) -> str:
    """The counts for people."""
    total, passed = Counter[str](), Counter[str]()
    for each in outcomes:
        if each.outcome != "skipped":
            total[each.file] += 1
            passed[each.file] += each.outcome == "passed"
    lines = [f"{'file':<64}{'passed':>8}{'failed':>8}"]
    rows = sorted(total)
    lines += [f"{name:<64}{passed[name]:>8}{total[name] - passed[name]:>8}" for name in rows]
    return "\n".join([*lines, f"{'all':<64}{passed.total():>8}{(total - passed).total():>8}"])


if __name__ == "__main__":
    raise SystemExit(main())
