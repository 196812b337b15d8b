"""How stores, sessions and places are called in Temporal."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, Protocol, runtime_checkable

from ekiden.core.agent import Agent
from ekiden.core.errors import StaleDocument
from ekiden.storage.base import DocumentWrite, Store

COLLECTION = "temporal"
"""Documents of this engine."""
_IDENTITY = "identity"
_PLAIN = re.compile(r"[A-Za-z0-9_.:@+-]{1,200}")
_MOST = 200
_SHORT = 24


@runtime_checkable
class IdentifiedStore(Protocol):
    """A store that knows itself from copies of it."""

    async def place(self) -> str:
        """Parts with `/` between; `?` is one that is not known."""
        ...


async def store_name(store: Store) -> str:
    """The name of a store among all that use one namespace: its schema, and a part by chance that
    is stored in it, because schemas of several databases may be called the same.

    With it is stored in what place that was: a copy, which has the document too, gets a name of its
    own.
    """
    place = await store.place() if isinstance(store, IdentifiedStore) else ""
    document = await store.get_document(COLLECTION, _IDENTITY)
    while document is None or not _is_place(str(document.body.get("place", "")), place):
        info = await store.info()
        name = f"{_plain(str(info.get('schema') or info['engine']))}-{os.urandom(4).hex()}"
        write = DocumentWrite(
            collection=COLLECTION,
            key=_IDENTITY,
            body={"name": name, "place": place},
            expected_version=0 if document is None else document.version,
        )
        with suppress(StaleDocument):  # Somebody else gave it a name.
            await store.write_documents([write])
        document = await store.get_document(COLLECTION, _IDENTITY)
    return str(document.body["name"])


def _is_place(stored: str, found: str) -> bool:
    """Whether both are the same place; parts that are unknown, which depends on what a role may
    ask, are not compared."""
    if not found:
        return True
    before, now = stored.split("/"), found.split("/")
    return len(before) == len(now) and all(
        a == b or "?" in (a, b) for a, b in zip(before, now, strict=True)
    )


def workflow_id(store: str, session_id: str) -> str:
    """The id of the workflow of a session."""
    return f"ekiden/{store}/{_plain(session_id)}"


def timekeeper_id(queue: str) -> str:
    """The id of the workflow that keeps the time of a store, for those on one task queue."""
    return f"ekiden/{queue}/timekeeper"


def labels_of(agent: Agent[Any]) -> list[str]:
    """Where the agent has to run, in order; empty: anywhere."""
    return sorted(agent.runs_on)


def labelled_queue(queue: str, labels: Iterable[str]) -> str:
    """The task queue of agents that need these labels."""
    wanted = sorted(labels)
    return f"{queue}+{_plain('+'.join(wanted))}" if wanted else queue


def care_queue(queue: str) -> str:
    """The task queue of what has to be done in time, however many sessions are under way."""
    return f"{queue}.care"


def served_queues(queue: str, needed: Mapping[str, Iterable[str]]) -> dict[str, list[str]]:
    """The task queues of agents, whose `needed` labels are given, and the agents of each; that of
    the store is always there."""
    served: dict[str, list[str]] = {queue: []}
    for agent, labels in needed.items():
        served.setdefault(labelled_queue(queue, labels), []).append(agent)
    return served


def _plain(text: str) -> str:
    """The text if it can stand in an id of Temporal's; else as much of it as can, and a digest."""
    if _PLAIN.fullmatch(text):
        return text
    shown = re.sub(r"[^A-Za-z0-9_.:@+-]+", "-", text)[: _MOST - _SHORT - 1]
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{shown}~{digest[:_SHORT]}"
