"""Fails if Ekiden has become slower: compares counted instructions with `baselines.json`.

    python -m benchmarks.gate [--json] [--cpu-time] [--group library]
    python -m benchmarks.gate --update "s1 s2" --reason "Each handoff also stores …"

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

from benchmarks.gate.compare import CPU_TIME, FLOOR, Baselines, Figures, Reference, Verdict

HERE: Final = Path(__file__).parent
FILE: Final = HERE / "baselines.json"
TIMED_ROUNDS: Final = 10
TIMED_PROCESSES: Final = 3
TIMEOUT_S: Final = 1800

GROUPS: Final = {"server": 4, "library": 2, "version": 1, "memory": 1}
"""The groups of scenarios, the longest first, and how often each is counted. Each group has its own
process. The server's background work needs more rounds, of which a few contain more of it."""


def main() -> int:
    """Measure, and print or store the figures. Returns 1 if a scenario is worse."""
    parser = argparse.ArgumentParser(prog="benchmarks.gate", description=__doc__)
    parser.add_argument("--json", action="store_true", help="Print JSON instead of a table.")
    parser.add_argument("--cpu-time", action="store_true", help="Do not use valgrind.")
    parser.add_argument("--update", default="", help="Scenarios that get new baselines.")
    parser.add_argument("--reason", default="", help="Why these baselines change.")
    parser.add_argument("--group", choices=GROUPS, action="append", help="Default: all groups.")
    options = parser.parse_args()
    groups = options.group or [*GROUPS]
    names = options.update.split()
    baselines = Baselines.load(FILE)
    if unknown := set(names) - baselines.scenarios.keys():
        parser.error(f"unknown scenarios: {', '.join(sorted(unknown))}")
    is_timed = options.cpu_time or shutil.which("valgrind") is None
    source = CPU_TIME if is_timed else f"CPython {platform.python_version()} {platform.machine()}"
    measured = dict((timed if is_timed else counted)(groups))
    if "memory" in groups:
        measured |= _run("memory", 1)["values"]
    if names:
        return _update(baselines, source, measured, names, options.reason)
    reference = baselines.reference(source, measured)
    verdicts = baselines.compare(reference, measured)
    (_print_json if options.json else _print_table)(source, measured, reference, verdicts)
    failed = [each.scenario for each in verdicts if each.is_failed]
    for name in failed:
        print(_advice(name), file=sys.stderr)
    return int(bool(failed))


def counted(groups: Collection[str]) -> Figures:
    """The instructions of a unit of each scenario."""
    # A module is compiled when it is first imported. That must not be counted.
    for group in ("library", "version"):
        _run(group, 0)
    # The floor is that of `version`: the server has other work to do meanwhile.
    needed = [each for each in GROUPS if each == "version" or (each in groups and each != "memory")]
    with ThreadPoolExecutor(min(2, os.cpu_count() or 1)) as pool:
        found = dict(zip(needed, pool.map(_count, needed), strict=True))
    counts = defaultdict(list)
    for group, spans in found.items():
        for name, count in spans:
            if name != FLOOR or group == "version":
                counts[name].append(count)
    return {name: statistics.median_low(each) for name, each in counts.items()}


def _count(group: str) -> list[tuple[str, float]]:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        command = ["valgrind", "--tool=callgrind", "--dump-before=getsid"]
        command.append(f"--callgrind-out-file={out}")
        if group == "server":
            command.append("--instr-atstart=no")
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
    """The CPU time of a unit of each scenario, as a multiple of the floor in the same process.

    The shortest times count, because load only makes times longer.
    """
    ratios = {FLOOR: 1.0}
    for group in groups:
        if group == "memory":
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
            **({"COUNT_LATER": "1"} if "--instr-atstart=no" in prefix else {}),
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


def _update(
    baselines: Baselines, source: str, measured: Figures, names: list[str], reason: str
) -> int:
    if source not in baselines.figures:
        new = baselines.with_source(source, measured)
    elif reason.strip():
        new = baselines.updated(source, measured, names, reason.strip())
    else:
        print("A new baseline needs a reason: REASON='…'", file=sys.stderr)
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
        print(f"CPU time as a multiple of the floor, because valgrind is not used; {allowed}.")
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
