"""Fails if Ekiden has become slower: compares counted instructions with `baselines.json`.

    python -m benchmarks.gate [--json] [--cpu-time] [--group library]
    python -m benchmarks.gate --update "s1 s2" --reason "Each handoff also stores …"
    python -m benchmarks.gate --add

Callgrind, a tool of valgrind, counts the instructions of each scenario. The load and the speed of
the machine do not change this number. Without valgrind, or with `--cpu-time`, CPU time is compared
instead, as a multiple of a round trip of plain asyncio; this finds only large regressions.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from benchmarks.gate.compare import (
    CPU_TIME,
    FLOOR,
    Baselines,
    Figures,
    Reference,
    Verdict,
    WrongSource,
)

HERE: Final = Path(__file__).parent
FILE: Final = HERE / "baselines.json"
TIMED_ROUNDS: Final = 10
TIMED_PROCESSES: Final = 3
TIMEOUT_S: Final = 1800
VALGRIND: Final = (
    "install valgrind (apt-get install valgrind), or use Linux if your system has none"
)

GROUPS: Final = {"server": 3, "library": 1, "version": 1, "memory": 1}
"""The groups of scenarios, the longest first, and how often each is counted. Each group has its own
process, and `version` counts the floor. The server's background work needs more rounds, of which a
few contain more of it."""


def main() -> int:
    """Measure, and print or store the figures. Returns 1 if a scenario is worse, 2 if the figures
    cannot be stored."""
    parser = argparse.ArgumentParser(prog="benchmarks.gate", description=__doc__)
    parser.add_argument("--json", action="store_true", help="Print JSON instead of a table.")
    parser.add_argument("--cpu-time", action="store_true", help="Do not use valgrind.")
    parser.add_argument("--update", default="", help="Scenarios that get new baselines.")
    parser.add_argument("--reason", default="", help="Why these baselines change.")
    parser.add_argument(
        "--add", action="store_true", help="Store the figures of a new interpreter."
    )
    parser.add_argument("--group", choices=GROUPS, action="append", help="Default: all groups.")
    options = parser.parse_args()
    groups = options.group or [*GROUPS]
    names = options.update.split()
    is_stored = options.add or bool(names)
    baselines = Baselines.load(FILE)
    is_timed = options.cpu_time or shutil.which("valgrind") is None
    if unknown := set(names) - baselines.scenarios.keys():
        parser.error(f"unknown scenarios: {', '.join(sorted(unknown))}")
    if names and not options.reason.strip():
        parser.error("a new baseline needs a reason: REASON='…'")
    if is_stored and options.group:
        parser.error("baselines are stored for all groups: leave out --group")
    if is_stored and is_timed:
        parser.error(f"baselines are counted, not timed: {VALGRIND}")
    source = CPU_TIME if is_timed else f"CPython {platform.python_version()} {platform.machine()}"
    measured = (timed if is_timed else counted)(groups)
    if is_stored:
        return _store(baselines, source, measured, names, options.reason.strip())
    reference = baselines.reference(source, measured)
    verdicts = baselines.compare(reference, measured)
    (_print_json if options.json else _print_table)(source, measured, reference, verdicts)
    failed = [each.scenario for each in verdicts if each.is_failed]
    for name in failed:
        print(_advice(name), file=sys.stderr)
    return int(bool(failed))


def counted(groups: Collection[str]) -> Figures:
    """The instructions of a unit of each scenario, and the figures of memory."""
    # A module is compiled when it is first imported. That must not be counted.
    for group in ("library", "version"):
        _run(group, 0)
    needed = [each for each in GROUPS if each == "version" or each in groups]
    with ThreadPoolExecutor(min(2, os.cpu_count() or 1)) as pool:
        found = dict(zip(needed, pool.map(_count, needed), strict=True))
    counts = defaultdict(list)
    for values in found.values():
        for name, count in values:
            counts[name].append(count)
    return {name: statistics.fmean(each) for name, each in counts.items()}


def _count(group: str) -> list[tuple[str, float]]:
    if group == "memory":
        return [*_run(group, 1)["values"].items()]
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        command = ["valgrind", "--tool=callgrind", "--dump-before=getsid"]
        command += ["--instr-atstart=no", f"--callgrind-out-file={out}"]
        spans = _run(group, GROUPS[group], *command)["spans"]
        # The dumps 1, 3, … have what happened before the spans.
        return [
            (name, _instructions(Path(f"{out}.{2 * number}")) / units)
            for number, (name, units, _) in enumerate(spans, 1)
        ]


def _instructions(dump: Path) -> int:
    found = re.search(r"^summary: (\d+)$", dump.read_text(), re.MULTILINE)
    assert found is not None, dump
    return int(found[1])


def timed(groups: Collection[str]) -> Figures:
    """The CPU time of a unit of each scenario, as a multiple of the floor in the same process, and
    the figures of memory. The shortest times count, because load only makes times longer."""
    ratios = {FLOOR: 1.0}
    for group in groups:
        if group == "memory":
            ratios |= _run(group, 1)["values"]
            continue
        best: dict[str, float] = {}
        for _ in range(TIMED_PROCESSES):
            for name, units, taken in _run(group, TIMED_ROUNDS)["spans"]:
                best[name] = min(best.get(name, taken / units), taken / units)
        floor = best.pop(FLOOR)
        ratios |= {name: each / floor for name, each in best.items()}
    return ratios


def _run(group: str, rounds: int, *prefix: str) -> dict[str, Any]:
    """What a process with the group of scenarios prints."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": folder,
            "TMPDIR": folder,
            "PYTHONPATH": str(HERE.parents[1]),
            "PYTHONHASHSEED": "0",
            **({"COUNTED": "1"} if prefix else {}),
        }
        done = subprocess.run(
            [*prefix, sys.executable, "-P", HERE / "child.py", group, folder, str(rounds)],
            env=environment,
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
        )
    if done.returncode:
        sys.exit(f"The scenarios of {group!r} failed:\n{done.stderr[-4000:]}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _store(
    baselines: Baselines, source: str, measured: Figures, names: list[str], reason: str
) -> int:
    try:
        new = (
            baselines.updated(source, measured, names, reason)
            if names
            else baselines.with_source(source, measured)
        )
    except WrongSource as exc:
        print(exc, file=sys.stderr)
        return 2
    FILE.write_text(new.text(), "utf-8")
    print(f"wrote the figures of {source} into {FILE.name}")
    return 0


def _print_json(
    source: str, measured: Figures, reference: Reference, verdicts: list[Verdict]
) -> None:
    rows = [{**asdict(each), "percent": round(each.percent, 2)} for each in verdicts]
    whole = {
        "measured": source,
        "floor": measured[FLOOR],
        "reference": asdict(reference),
        "scenarios": rows,
    }
    print(json.dumps(whole, ensure_ascii=False))


def _print_table(
    source: str, measured: Figures, reference: Reference, verdicts: list[Verdict]
) -> None:
    allowed = f"{(reference.bound - 1) * 100:.0f} % worse fails"
    if source == CPU_TIME:
        print(f"CPU TIME, not instructions, because valgrind is not used; {allowed}.")
        print(f"This finds only large regressions: {VALGRIND}.")
    elif source == reference.source:
        print(f"Instructions, {source}; {allowed}.")
    else:
        print(f"There are no figures of this build of {source}.")
        print(f"Those of {reference.source} are compared, scaled by the floors; {allowed}.")
    print(f"{'scenario':16}{'measured':>14}{'baseline':>14}{'':>9}  {'verdict':9}unit")
    for each in verdicts:
        baseline = "" if each.baseline is None else f"{each.baseline:,.1f}"
        print(
            f"{each.scenario:16}{each.measured:>14,.1f}{baseline:>14}{each.percent:>+8.1f}%"
            f"  {each.verdict:9}{each.unit}"
        )


def _advice(name: str) -> str:
    return (
        f"{name} is worse than its baseline. Find the cause (callgrind_annotate shows C functions, "
        "`python -m cProfile` shows Python functions). If the cost is worth it, state the reason: "
        f"make bench-gate UPDATE='{name}' REASON='…'"
    )


if __name__ == "__main__":
    sys.exit(main())
