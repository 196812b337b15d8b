"""Simulates a week at the shop's desk with real processes on a clock of their own, on SQLite and on
PostgreSQL at the same time, and checks what came of it.

    make shop-week
    make shop-week WEEK="--days 1 --conversations 60 --store sqlite --keep day"
    python -m examples.shop.week.checker day/sqlite
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import shutil
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..desk.books import Books
from .driver import Driver
from .plan import Week, write
from .site import ROOT, Site

KINDS = ("sqlite", "postgresql")


async def simulate(week: Week, kind: str, folder: Path) -> dict[str, Any]:
    """Simulate the week on a store of this kind in a new folder, and check it; the report as
    JSON."""
    plan = week.plan()
    write(plan, folder)
    Books(folder / "books.db").fill(plan["customers"], plan["orders"])
    async with Site(folder, kind) as site:
        report = await Driver(plan, site).run()
        await site.stop_crew()
        found = await _check(folder)
    return {"store": kind, **asdict(report), **found}


async def _check(folder: Path) -> dict[str, Any]:
    """What the checker says, which is a process of its own."""
    command = (sys.executable, "-m", "examples.shop.week.checker", str(folder), "--json")
    process = await asyncio.create_subprocess_exec(
        *command, cwd=ROOT, stdout=asyncio.subprocess.PIPE
    )
    told, _ = await process.communicate()
    found: dict[str, Any] = json.loads(told)
    return found


async def _all(week: Week, kinds: list[str], folder: Path) -> list[dict[str, Any]]:
    return await asyncio.gather(*(simulate(week, kind, folder / kind) for kind in kinds))


def problems(report: dict[str, Any]) -> list[str]:
    """Everything that is wrong in a report."""
    checked = report["checks"].items()
    return [*report["problems"], *(f"{name}: {each}" for name, found in checked for each in found)]


def _table(reports: list[dict[str, Any]]) -> str:
    """The figures and the checks, one column for each store."""
    rows = [["", *(each["store"] for each in reports)]]
    figures = [
        {
            **{name: each[name] for name in ("seconds", "steps", "resumed")},
            "kills": sum(each["kills"].values()),
            **each["figures"],
        }
        for each in reports
    ]
    rows += [[name, *(f"{each[name]:,}" for each in figures)] for name in figures[0]]
    for name in reports[0]["checks"]:
        counts = [len(each["checks"][name]) for each in reports]
        rows.append(
            [f"check {name}", *(f"{count} problems" if count else "ok" for count in counts)]
        )
    return "\n".join(f"{row[0]:28}" + "".join(f"{cell:>14}" for cell in row[1:]) for row in rows)


_FIGURES = {
    "days": "days with new conversations",
    "tail_days": "days after them, without new conversations",
    "conversations": "conversations",
    "kills": "processes that are killed",
    "outages": "outages of the model provider",
    "deploys": "deployments of the second version",
    "seed": "number from which the plan is made",
}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m examples.shop.week",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--store", choices=KINDS, help="one store; default: both")
    parser.add_argument(
        "--keep", type=Path, metavar="FOLDER", help="new folder that keeps the stores and the logs"
    )
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    for name, text in _FIGURES.items():
        default = getattr(Week(), name)
        parser.add_argument(
            f"--{name.replace('_', '-')}",
            type=int,
            metavar="N",
            default=default,
            help=f"{text}; default: {default}",
        )
    return parser


def _problem(week: Week, keep: Path | None) -> str | None:
    """Why this cannot be simulated."""
    if keep is not None and keep.exists():
        return f"--keep: {keep} exists; name a new folder"
    if min(week.days, week.conversations) < 1:
        return "a week has at least one day and one conversation"
    if min(week.tail_days, week.kills, week.outages, week.deploys) < 0:
        return "no number may be below 0"
    if week.outages + 2 * week.deploys >= week.slots:
        return f"{week.days} days have no room for so many outages and deployments"
    if shutil.which("cc") is None:
        return "to move the clock of the processes, a C compiler is needed (cc)"
    return None


def main() -> int:
    """The command."""
    parser = _parser()
    given = vars(parser.parse_args())
    store, keep, as_json = given.pop("store"), given.pop("keep"), given.pop("json")
    week = Week(**given)
    if problem := _problem(week, keep):
        parser.error(problem)
    with tempfile.TemporaryDirectory(prefix="ekiden-shop-") as made:
        kinds, folder = [store] if store else list(KINDS), keep or Path(made)
        # The processes have other current folders.
        reports = asyncio.run(_all(week, kinds, folder.absolute()))
    if as_json:
        print(json.dumps(reports, ensure_ascii=False))
    else:
        print(_table(reports))
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        print(f"{'processor seconds':28}{used.ru_utime + used.ru_stime:14,.0f}")
    found = [f"{each['store']}: {problem}" for each in reports for problem in problems(each)]
    for problem in found:
        print(problem, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
