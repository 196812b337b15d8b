"""Compares the plan of a week with what is stored: every table of the shop's books and of Ekiden's
store. It knows nothing of the driver, only the plan.

    python -m examples.shop.week.checker FOLDER

Ekiden's own verification shows that the events of sessions are as they were written. All other
tables repeat facts of the plan, of the events, or of each other: each check lists such facts twice,
and compares the two lists both ways. To add a check, write a function that yields problems in
`outcome.py` or `consistency.py`, and list it in `CHECKS`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from ekiden import EkidenError

from . import consistency, outcome
from .records import NoWeek, Records, is_about_unknown_effect, read

_MOST_SHOWN = 10


def store(records: Records) -> Iterator[str]:
    """The store has no damage, and no event was changed."""
    yield from records.faults


CHECKS: tuple[Callable[[Records], Iterator[str]], ...] = (
    store,
    outcome.answers,
    outcome.messages,
    outcome.sessions,
    outcome.variables,
    outcome.orders,
    outcome.payments,
    outcome.pickups,
    outcome.approvals,
    outcome.inbox,
    outcome.unknown_effects,
    consistency.queues,
    consistency.waits,
    consistency.steps,
    consistency.documents,
    consistency.memory,
    consistency.handoffs,
)


def checked(records: Records) -> dict[str, list[str]]:
    """The problems that each check finds."""
    return {check.__name__: list(_problems(check, records)) for check in CHECKS}


def _problems(check: Callable[[Records], Iterator[str]], records: Records) -> Iterator[str]:
    try:
        yield from check(records)
    except (LookupError, TypeError, ValueError) as exc:
        yield f"the records cannot be compared: {exc!r}"


def figures(records: Records) -> dict[str, int]:
    """How much there was to compare."""
    attempts = Counter(row["outcome"] for row in records.books["attempts"])
    handoffs = Counter(status for *_, status in records.handoffs.values())
    paid = [row["cents"] for row in records.books["payments"]]
    unknown = filter(is_about_unknown_effect, records.items)
    choices = Counter(item["answer"]["choice"] for item in unknown if item["answer"])
    return {
        "conversations": len(records.plan["conversations"]),
        "runs": len(records.runs),
        "payments": len(paid),
        "cents_paid": sum(paid),
        "payments_repeated": attempts["repeated"],
        "questions_to_people": len(records.items),
        "questions_to_agents": len(records.asks),
        "refused_approvals": sum(call.output == "inbox.forbidden" for call in records.calls),
        "unknown_effects": choices.total(),
        "effects_repeated": choices["repeat"],
        "effects_entered": choices["enter a result"],
        "effects_abandoned": choices["abandon"],
        "rollbacks": handoffs["rolled_back"],
        "sessions": len(records.store["sessions"]),
        "events": len(records.store["events"]),
    }


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(
        prog="python -m examples.shop.week.checker",
        description="Check a week on SQLite again; a PostgreSQL server ends with its week.",
    )
    parser.add_argument("folder", type=Path, help="folder of the store, below that of --keep")
    parser.add_argument("--json", action="store_true", help="print figures and problems as JSON")
    options = parser.parse_args()
    try:
        records = asyncio.run(read(options.folder))
    except (NoWeek, EkidenError) as exc:
        parser.error(str(exc))
    found = checked(records)
    if options.json:
        print(json.dumps({"figures": figures(records), "checks": found}, ensure_ascii=False))
    else:
        for name, number in figures(records).items():
            print(f"{name:28} {number:10,}")
        for name, problems in found.items():
            print(f"{name:28} {f'{len(problems)} problems' if problems else 'ok':>10}")
            for problem in problems[:_MOST_SHOWN]:
                print(f"    {problem}")
    return 1 if any(found.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
