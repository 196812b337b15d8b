"""Workers, for people."""

from __future__ import annotations

from ekiden.api.administration import WorkerOverview
from ekiden.cli.output import note, say
from ekiden.cli.tables import Cell, Extra, Moment, Whole, print_table
from ekiden.engine.registry import WorkerRecord

_MOST_AGENTS = 4


def print_workers(found: WorkerOverview, *, limit: int | None = None, wide: bool = False) -> None:
    """The workers as a table, then the agents without a worker."""
    if not found.workers:
        say("no worker is running; `ekiden worker` starts one")
        return
    names = ("running", "finished", "agents", Extra("labels"), "seen")
    headers = ("worker", "state", Extra("engine"), *names)
    print_table(headers, [_worker_row(each) for each in found.workers[:limit]], wide=wide)
    for each in found.unserved:
        needs = ", ".join(each.needs)
        told = f": it needs a worker with the label {needs}" if needs else ""
        note(f"no worker runs {each.agent}, {each.sessions} ready{told}")


def _worker_row(worker: WorkerRecord) -> tuple[Cell, ...]:
    names = worker.agents
    shown = ", ".join(names[:_MOST_AGENTS])
    if len(names) > _MOST_AGENTS:
        shown += f" and {len(names) - _MOST_AGENTS} more"
    return (
        Whole(f"{worker.host}-{worker.pid}"),
        worker.state,
        worker.engine,
        f"{worker.running} of {worker.concurrency}",
        str(worker.finished),
        shown,
        ", ".join(worker.labels),
        Moment(worker.seen_at),
    )
