"""Runs simulated worlds: ``ekiden simulate shop.py:scene --seed 7``.

With ``--seed``, one simulation is shown from beginning to end. With ``--seeds 1-1000``, many
simulations are run, optionally in several processes. Each violation is listed with the command that
shows its simulation, and the exit code is 1. ``python -m ekiden.testing.simulate`` does the same.
Without a scene, this module simulates Ekiden's own test team.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import shlex
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ekiden.testing.simulation import SimulationReport, simulate
from ekiden.testing.simulation.scene import load_scene

_COMMAND = "python -m ekiden.testing.simulate"
_EVERY_S = 10.0
_SHARE = 25
"""The number of seeds that a process gets at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """The name of the scene. Every process loads the scene by this name."""

    scene: str | None = None
    """The name, as ``file.py:name`` or ``module:name``. `None` means Ekiden's own test team."""
    texts: tuple[str, ...] = ()
    """If the name is the name of a team, the messages for it. Each message starts its own
    conversation."""

    def simulate(self, seed: int) -> SimulationReport:
        """Run one simulation."""
        if self.scene is None:
            return simulate(seed=seed)
        return simulate(load_scene(self.scene, self.texts, seed=seed), seed=seed)


def replay_command(seed: int, subject: Subject | None = None) -> str:
    """The command that shows the log of the simulation with this seed."""
    if subject is None or subject.scene is None:
        return f"{_COMMAND} --seed {seed}"
    texts = [part for text in subject.texts for part in ("--say", text)]
    return shlex.join(["ekiden", "simulate", subject.scene, *texts, "--seed", str(seed)])


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command, and return its exit code."""
    arguments = _parser().parse_args(argv)
    subject = Subject(scene=arguments.scene, texts=tuple(arguments.say))
    if arguments.seed is not None:
        return _one(subject, arguments.seed, as_json=arguments.json)
    return _many(
        subject,
        arguments.seeds,
        processes=arguments.processes,
        as_json=arguments.json,
        done=arguments.done,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m ekiden.testing.simulate",
        description="Run the whole runtime in simulations with injected faults.",
    )
    parser.add_argument(
        "scene", nargs="?", help="a Scene, a function that returns a Scene, an Agent or a Team, as "
        "file.py:name or module:name (default: Ekiden's own test team)",
    )  # fmt: skip
    parser.add_argument(
        "--say", action="append", default=[], metavar="TEXT", help="a message to the team"
    )
    seeds = parser.add_mutually_exclusive_group(required=True)
    seeds.add_argument("--seed", type=int, help="run one simulation and print its log")
    seeds.add_argument("--seeds", type=_seeds, metavar="A-B", help="run these simulations")
    parser.add_argument("--processes", type=_count, default=1, help="the number of processes")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--done", type=Path, metavar="FILE", help="record finished seeds in FILE, and skip them"
    )
    return parser


def _seeds(text: str) -> range:
    first, _, last = text.partition("-")
    try:
        seeds = range(int(first), int(last or first) + 1)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a range such as 1-1000") from None
    if not seeds:
        raise argparse.ArgumentTypeError(f"{text!r} has no seeds: the first is above the last")
    return seeds


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return int(text)


def _one(subject: Subject, seed: int, *, as_json: bool) -> int:
    report = subject.simulate(seed)
    if as_json:
        print(json.dumps({**report.to_json(), "trace": list(report.trace)}))
    else:
        for line in report.trace:
            print(line)
        print(_verdict(report))
    return 0 if report.ok else 1


def _verdict(report: SimulationReport) -> str:
    counts = ", ".join(f"{name} {number}" for name, number in sorted(report.counts.items()))
    result = "every promise was kept" if report.ok else "\n".join(map(str, report.violations))
    return f"\nseed {report.seed}, {report.seconds:.1f} s: {result}\n({counts})"


def _many(
    subject: Subject, seeds: range, *, processes: int, as_json: bool, done: Path | None
) -> int:
    known = _known(done)
    summary = _Summary(total=len(seeds))
    todo = [seed for seed in seeds if seed not in known]
    summary.left_out = len(seeds) - len(todo)
    for result in _results(subject, todo, processes):
        summary.add(result)
        if not result["ok"]:
            print(_complaint(subject, result), file=sys.stderr)
        if done is not None:
            with done.open("a", encoding="utf-8") as notes:
                notes.write(json.dumps([result["seed"], result["ok"]]) + "\n")
    print(json.dumps(summary.to_json()) if as_json else summary.text())
    return 1 if summary.failed else 0


def _known(done: Path | None) -> set[int]:
    if done is None or not done.exists():
        return set()
    lines = done.read_text(encoding="utf-8").splitlines()
    return {seed for seed, is_ok in map(json.loads, lines) if is_ok}


def _complaint(subject: Subject, result: dict[str, Any]) -> str:
    seed = result["seed"]
    return f"seed {seed}: {result['violations'][0]}\n  {replay_command(seed, subject)}"


def _results(subject: Subject, seeds: Sequence[int], processes: int) -> Iterator[dict[str, Any]]:
    run = partial(_result, subject)
    if processes == 1:
        yield from map(run, seeds)
        return
    context = multiprocessing.get_context("spawn")
    with context.Pool(processes) as pool:
        yield from pool.imap_unordered(run, seeds, chunksize=_SHARE)


def _result(subject: Subject, seed: int) -> dict[str, Any]:
    return subject.simulate(seed).to_json()


class _Summary:
    """The results of many simulations."""

    def __init__(self, *, total: int) -> None:
        self._total = total
        self._started = self._reported = time.monotonic()
        self.left_out = 0
        self.run = 0
        self.failed: list[int] = []
        self._seconds = 0.0
        self._counts: Counter[str] = Counter()
        self._rules: Counter[str] = Counter()

    def add(self, result: dict[str, Any]) -> None:
        """Add a result, and print the progress from time to time."""
        self.run += 1
        self._seconds += result["seconds"]
        self._counts.update(result["counts"])
        if not result["ok"]:
            self.failed.append(result["seed"])
            self._rules.update(_rules(result["violations"]))
        now = time.monotonic()
        if now - self._reported >= _EVERY_S:
            self._reported = now
            print(f"{self.run} of {self._total}, {len(self.failed)} failed", file=sys.stderr)

    def to_json(self) -> dict[str, Any]:
        """The summary as JSON."""
        return {
            "seeds": self._total,
            "run": self.run,
            "left_out": self.left_out,
            "failed": sorted(self.failed),
            "rules": dict(sorted(self._rules.items())),
            "simulated_s": round(self._seconds, 1),
            "real_s": round(time.monotonic() - self._started, 1),
            "counts": dict(sorted(self._counts.items())),
        }

    def text(self) -> str:
        """The summary for people."""
        data = self.to_json()
        verdict = f"{len(self.failed)} failed: {data['failed'][:20]}" if self.failed else "all kept"
        return (
            f"{self.run} worlds in {data['real_s']} s ({data['simulated_s']} simulated): {verdict}"
        )


def _rules(violations: Iterable[str]) -> set[str]:
    return {each.partition("[")[2].partition("]")[0] for each in violations}


if __name__ == "__main__":
    sys.exit(main())
