"""Workers, for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ekiden.cli.output import note, say
from ekiden.cli.tables import clock_time, print_table

_MOST_AGENTS = 4


def print_workers(records: Mapping[str, Any]) -> None:
    """The workers as a table, and behind it whom nobody runs."""
    workers = records["workers"]
    if not workers:
        say("no worker is there; `ekiden worker` starts one")
        return
    headers = ("worker", "state", "engine", "running", "finished", "agents", "labels", "seen")
    print_table(headers, [_row(each) for each in workers])
    for each in records["unserved"]:
        needs = ", ".join(each["needs"])
        told = f": it needs a worker with the label {needs}" if needs else ""
        note(f"no worker runs {each['agent']}, {each['sessions']} ready{told}")


def _row(worker: Mapping[str, Any]) -> tuple[str, ...]:
    names = worker["agents"]
    shown = ", ".join(names[:_MOST_AGENTS])
    if len(names) > _MOST_AGENTS:
        shown += f" and {len(names) - _MOST_AGENTS} more"
    return (
        f"{worker['host']}-{worker['pid']}",
        worker["state"],
        worker["engine"],
        f"{worker['running']} of {worker['concurrency']}",
        str(worker["finished"]),
        shown,
        ", ".join(worker["labels"]),
        clock_time(worker["seen_at"]),
    )
