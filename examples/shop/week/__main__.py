"""Simulates a week at the shop's desk with real processes on a clock of their own, on SQLite and on
PostgreSQL at the same time, and checks what came of it.

    make shop-week
    python -m examples.shop.week --days 1 --conversations 60 --store sqlite
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import sys
import tempfile
from dataclasses import asdict, replace
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


def main() -> int:
    """The command."""
    defaults = Week()
    parser = argparse.ArgumentParser(prog="python -m examples.shop.week", description=__doc__)
    parser.add_argument("--store", choices=KINDS, help="default: both at the same time")
    parser.add_argument("--keep", type=Path, help="a new folder for the stores and the logs")
    parser.add_argument("--json", action="store_true")
    for name in ("days", "tail_days", "conversations", "kills", "outages", "deploys", "seed"):
        option = f"--{name.replace('_', '-')}"
        parser.add_argument(option, type=int, default=getattr(defaults, name))
    given = vars(parser.parse_args())
    store, keep, as_json = given.pop("store"), given.pop("keep"), given.pop("json")
    with tempfile.TemporaryDirectory(prefix="ekiden-shop-") as made:
        kinds = [store] if store else list(KINDS)
        reports = asyncio.run(_all(replace(defaults, **given), kinds, keep or Path(made)))
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
