"""What workflows share: names, payloads, and search attributes of sessions.

Payloads contain nothing of a conversation. Clusters store them as long as workflows: add fields
only with a default, never remove one or change its meaning.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import (
    AddSearchAttributesRequest,
    ListSearchAttributesRequest,
)
from temporalio.client import Client
from temporalio.common import SearchAttributeKey, SearchAttributePair, TypedSearchAttributes
from temporalio.service import RPCError, RPCStatusCode

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


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionJob:
    """What the workflow of a session is started with."""

    session: str
    queue: str
    """The task queue of agents that run anywhere."""
    agent: str
    labels: list[str] = field(default_factory=list)
    """Where the agent runs."""
    heartbeat_s: float = 20.0
    """Who is not heard of for so long while it advances the session is taken for dead."""
    linger_s: float = 10.0
    """How long the workflow stays when there is nothing to do."""
    rounds: int = 1000
    """After so many it continues as new, if Temporal does not suggest it before."""
    indexed: bool = True
    """Whether the search attributes are known to the namespace."""
    store: str = ""
    """The name of the store, for search."""
    priority: int = 2
    """From 1, low, to 4, urgent."""
    look_s: float = 3600.0
    """After so long a session that waits is looked at, which may be gone or finished by others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wake:
    """The signal that a session was seen `ready`."""

    agent: str
    labels: list[str] = field(default_factory=list)
    mark: list[int] | None = None
    """When the session was made, and its epoch as it was seen: a run that claimed it later knows
    more. `None`: to be looked at in any case."""
    priority: int = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Errand:
    """The input of activities."""

    session: str
    mark: list[int] = field(default_factory=list)
    """As in `Wake`; for `leave`: only one that is still like that is left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdvanceResult:
    """How a session stands after `advance`."""

    status: str
    """That of its row, or `gone` if there is no such session any more."""
    agent: str = ""
    labels: list[str] = field(default_factory=list)
    outcome: str = ""
    mark: list[int] = field(default_factory=list)
    """As in `Wake`, read after everything else."""
    busy_s: float | None = None
    """Another owner's lease lasts so long."""
    priority: int = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeJob:
    """What the timekeeper of a store is started with."""

    queue: str
    """The task queue of its activity."""
    rounds: int = 1000
    due_s: float | None = None
    """Something is due after so long; `None`: a signal tells."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """When something is due next, from now on; `None`: nothing is."""

    in_s: float | None


_log = logging.getLogger("ekiden.temporal")

AGENT = SearchAttributeKey.for_keyword("EkidenAgent")
STATUS = SearchAttributeKey.for_keyword("EkidenStatus")
OUTCOME = SearchAttributeKey.for_keyword("EkidenOutcome")
STORE = SearchAttributeKey.for_keyword("EkidenStore")
KEYS = (AGENT, STATUS, OUTCOME, STORE)


def keyword(text: str) -> str:
    """The text as a keyword: not too long for any cluster, and always UTF-8."""
    return text[:_MOST].encode("utf-8", "replace").decode("utf-8")


def first_attributes(job: SessionJob) -> TypedSearchAttributes:
    """Those that a workflow starts with; none if the namespace does not know them."""
    if not job.indexed:
        return TypedSearchAttributes.empty
    return TypedSearchAttributes(
        [
            SearchAttributePair(AGENT, keyword(job.agent)),
            SearchAttributePair(STATUS, "ready"),
            SearchAttributePair(STORE, keyword(job.store)),
        ]
    )


async def register(client: Client) -> bool:
    """Register the attributes in the namespace if needed; returns whether they are registered.

    Without the permission, the log says how to register them, and work continues without them.
    """
    names = [key.name for key in KEYS]
    try:
        known = await client.operator_service.list_search_attributes(
            ListSearchAttributesRequest(namespace=client.namespace)
        )
        missing = [name for name in names if name not in known.custom_attributes]
        if missing:
            await client.operator_service.add_search_attributes(
                AddSearchAttributesRequest(
                    namespace=client.namespace,
                    search_attributes=dict.fromkeys(
                        missing, IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD
                    ),
                )
            )
    except RPCError as exc:
        if exc.status == RPCStatusCode.ALREADY_EXISTS:
            return True  # Another worker was faster.
        options = " ".join(f"--name {name} --type Keyword" for name in names)
        _log.warning(
            "sessions cannot be searched for in Temporal, because the search attributes are not "
            "there and cannot be made from here (%s); make them with: "
            "temporal operator search-attribute create --namespace %s %s",
            exc.message,
            client.namespace,
            options,
        )
        return False
    return True
