"""Replicas, for people."""

from __future__ import annotations

from collections.abc import Iterator

from ekiden.cli.tables import print_pairs
from ekiden.sessions.replica.progress import ReplicaStatus


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
