"""Keys, settings, replicas and workers, for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ekiden.api.administration import ApiKey, WorkerOverview
from ekiden.cli.terminal.output import note, say
from ekiden.cli.terminal.tables import (
    Cell,
    Extra,
    Id,
    Table,
    TimeCell,
    Whole,
    moment,
    print_pairs,
    print_table,
)
from ekiden.core.values import dumps
from ekiden.engine.registry import WorkerRecord
from ekiden.project.settings import SettingEntry
from ekiden.sessions.replica.progress import ReplicaStatus


def key_table(keys: Sequence[ApiKey]) -> Table:
    """The keys, without their secrets."""
    headers = ("id", "name", Extra("tenant"), "scopes", "status", "expires", "last used")
    return headers, [_key_row(each) for each in keys]


def _key_row(key: ApiKey) -> tuple[Cell, ...]:
    scopes = " ".join(key.scopes)
    expires, used = moment(key.expires_at), moment(key.last_used_at)
    return (Id(key.id), key.name, key.tenant, scopes, key.status, expires, used)


def setting_table(found: Sequence[SettingEntry]) -> Table:
    """Settings, one on each line."""
    rows = [(Whole(each.key), shown(each.value), str(each.origin)) for each in found]
    return ("key", "value", "origin"), rows


def shown(value: Any) -> str:
    """A value as it is printed."""
    return value if isinstance(value, str) else dumps(value)


def print_status(status: ReplicaStatus) -> None:
    """The progress of a replica."""
    print_pairs(_pairs(status))


def _pairs(status: ReplicaStatus) -> Iterator[tuple[str, str]]:
    yield "mirror", status.name
    yield "fed now", "yes" if status.fed else "no"
    yield "sent", str(status.sent)
    yield "sessions waiting", str(status.waiting)
    yield "up to date", "yes" if status.up_to_date else "no"
    if status.problem is not None:
        yield "problem", status.problem
    yield "set aside", str(status.set_aside)
    for each in status.aside:
        yield each.event_id, each.problem


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
        TimeCell(worker.seen_at),
    )
