"""Names of workflows and task queues, payloads, and search attributes.

Payloads contain no part of a conversation. Clusters store payloads as long as workflows. So add
fields only with a default, and never remove a field or change its meaning.
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

_log = logging.getLogger("ekiden.temporal")

COLLECTION = "temporal"
"""The collection of this engine's documents in a store."""
_IDENTITY = "identity"
_PLAIN = re.compile(r"[A-Za-z0-9_.:@+-]{1,200}")
_MAX_LENGTH = 200
_DIGEST_LENGTH = 24


@runtime_checkable
class IdentifiedStore(Protocol):
    """A store that can be distinguished from its copies."""

    async def place(self) -> str:
        """The location of the store. Its parts are separated by `/`. An unknown part is `?`."""
        ...


async def store_name(store: Store) -> str:
    """The unique name of a store in a namespace. It consists of the schema and a random part.

    The store contains this name together with the location. A copy of the store has another
    location, so it gets a new name.
    """
    place = await store.place() if isinstance(store, IdentifiedStore) else ""
    document = await store.get_document(COLLECTION, _IDENTITY)
    while document is None or not _is_same_place(str(document.body.get("place", "")), place):
        info = await store.info()
        name = f"{_plain(str(info.get('schema') or info['engine']))}-{os.urandom(4).hex()}"
        write = DocumentWrite(
            collection=COLLECTION,
            key=_IDENTITY,
            body={"name": name, "place": place},
            expected_version=0 if document is None else document.version,
        )
        with suppress(StaleDocument):  # Another process was faster.
            await store.write_documents([write])
        document = await store.get_document(COLLECTION, _IDENTITY)
    return str(document.body["name"])


def _is_same_place(stored: str, found: str) -> bool:
    """Whether the known parts are equal. Which parts are known depends on the database role."""
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
    """The id of the timekeeper workflow of a task queue."""
    return f"ekiden/{queue}/timekeeper"


def labels_of(agent: Agent[Any]) -> list[str]:
    """The sorted worker labels that the agent needs. If the list is empty, any worker can run the
    agent."""
    return sorted(agent.runs_on)


def labelled_queue(queue: str, labels: Iterable[str]) -> str:
    """The task queue of agents that need these labels."""
    wanted = sorted(labels)
    return f"{queue}+{_plain('+'.join(wanted))}" if wanted else queue


def care_queue(queue: str) -> str:
    """The task queue of short, urgent activities. The queue is separate so that running sessions
    cannot delay these activities."""
    return f"{queue}.care"


def served_queues(queue: str, needed: Mapping[str, Iterable[str]]) -> dict[str, list[str]]:
    """The agents by task queue. `needed` has the labels of each agent. The queue of the store is
    always included."""
    served: dict[str, list[str]] = {queue: []}
    for agent, labels in needed.items():
        served.setdefault(labelled_queue(queue, labels), []).append(agent)
    return served


def _plain(text: str) -> str:
    """The text as a part of a Temporal id. An invalid text is replaced with a readable part and a
    digest."""
    if _PLAIN.fullmatch(text):
        return text
    readable = re.sub(r"[^A-Za-z0-9_.:@+-]+", "-", text)[: _MAX_LENGTH - _DIGEST_LENGTH - 1]
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{readable}~{digest[:_DIGEST_LENGTH]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionJob:
    """The input of the workflow of a session."""

    session: str
    queue: str
    """The task queue of agents without labels."""
    agent: str
    labels: list[str] = field(default_factory=list)
    """The worker labels that the agent needs."""
    heartbeat_s: float = 20.0
    """After this many seconds without a heartbeat, a worker is considered dead."""
    linger_s: float = 10.0
    """Seconds for which the workflow stays open without work."""
    rounds: int = 1000
    """The workflow continues as new after this many activities, or earlier if Temporal suggests
    it."""
    indexed: bool = True
    """Whether the search attributes are registered in the namespace."""
    store: str = ""
    """The name of the store, for search."""
    priority: int = 2
    """The priority of the session, from 1 (low) to 4 (urgent)."""
    look_s: float = 3600.0
    """A waiting session is checked after this many seconds, because it may have been deleted, or
    finished by another engine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wake:
    """The signal that a session is `ready`."""

    agent: str
    labels: list[str] = field(default_factory=list)
    mark: list[int] | None = None
    """The creation time and the epoch of the session. A higher mark is a later state. `None` means
    that the session is checked in any case."""
    priority: int = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivityInput:
    """The input of the activities of a session."""

    session: str
    mark: list[int] = field(default_factory=list)
    """The mark of the session, as in `Wake`. `leave` changes only a session that still has this
    mark."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdvanceResult:
    """The state of a session after `advance`."""

    status: str
    """The status of the session, or `gone` if it was deleted."""
    agent: str = ""
    labels: list[str] = field(default_factory=list)
    outcome: str = ""
    mark: list[int] = field(default_factory=list)
    """The mark of the session, as in `Wake`."""
    busy_s: float | None = None
    """The remaining seconds of another owner's lease."""
    priority: int = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeJob:
    """The input of the timekeeper workflow."""

    queue: str
    """The task queue of its activity."""
    rounds: int = 1000
    due_s: float | None = None
    """The seconds until the next timer is due. If `None`, a later signal gives the time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """The time until the next timer."""

    in_s: float | None
    """The time in seconds; `None` if there is no timer."""


AGENT = SearchAttributeKey.for_keyword("EkidenAgent")
STATUS = SearchAttributeKey.for_keyword("EkidenStatus")
OUTCOME = SearchAttributeKey.for_keyword("EkidenOutcome")
STORE = SearchAttributeKey.for_keyword("EkidenStore")
KEYS = (AGENT, STATUS, OUTCOME, STORE)


def keyword(text: str) -> str:
    """Convert the text to a value of a keyword attribute, which must be short enough for every
    cluster and valid UTF-8."""
    return text[:_MAX_LENGTH].encode("utf-8", "replace").decode("utf-8")


def first_attributes(job: SessionJob) -> TypedSearchAttributes:
    """The search attributes of a new workflow. Empty if the attributes are not registered in the
    namespace."""
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
    """Register the attributes in the namespace if necessary. Returns whether they are registered.

    If the permission is missing, the log explains how to register the attributes, and the worker
    continues without them.
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
            return True  # Another worker registered them meanwhile.
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
