"""Variables of sessions, users and the app, and the long-term memory of agents, in a store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from functools import partial
from typing import Any, Literal

from ekiden.api import state as api
from ekiden.api.local.context import LocalContext
from ekiden.api.methods.called import AsyncStream
from ekiden.api.methods.values import Page, Pages
from ekiden.core.errors.memory import MemoryFailed, MemoryNotFound
from ekiden.core.errors.server import NotServed, PreconditionFailed, RequestInvalid
from ekiden.core.profile import MemoryKind, MemorySettings
from ekiden.core.roles import MemoryRecord
from ekiden.memory import DeliveryReport, Memory, used_backends
from ekiden.memory.outbox import queue_of
from ekiden.project.run_options import embedder_of
from ekiden.runtime.history.session_state import (
    SharedVariable,
    shared_state,
    update_shared_state,
    update_state,
)
from ekiden.sessions import Session
from ekiden.sessions.state import SessionState, SharedScope

_NOTHING: Mapping[str, Any] = {}


class LocalState(api.StateApi):
    """`StateApi` on a store in this process."""

    def __init__(self, context: LocalContext) -> None:
        self._context = context

    async def session(self, session_id: str, *, at: int | None = None) -> SessionState:
        return await Session(session_id, store=self._context.store).state(at)

    async def update_session(
        self,
        session_id: str,
        set: Mapping[str, Any] = _NOTHING,
        *,
        delete: Sequence[str] = (),
        by: str | None = None,
        on_busy: Literal["refuse", "wait"] = "refuse",
        expected_version: int | Sequence[int] | None = None,
    ) -> api.ChangedState:
        person = self._context.person(by) or "local"
        _check_unique(delete)
        if expected_version is not None and not isinstance(expected_version, int):
            expected_version = _checked_version(
                (await self.session(session_id)).version, expected_version
            )
        version = await update_state(
            self._context.store,
            session_id,
            set,
            delete=delete,
            expected_version=expected_version,
            by=person,
            on_busy=on_busy,
            busy_timeout_s=self._context.busy_timeout_s,
        )
        return api.ChangedState(session_id=session_id, version=version)

    async def user(self, user: str) -> api.UserState:
        return api.UserState(user=user, variables=await self._variables("user", user))

    async def update_user(
        self,
        user: str,
        set: Mapping[str, Any] = _NOTHING,
        *,
        delete: Sequence[str] = (),
        by: str | None = None,
        expected: Mapping[str, int] = _NOTHING,
        expected_version: int | Sequence[int] | None = None,
    ) -> api.ChangedUserState:
        versions = await self._update(
            "user", user, set, delete, by=by, expected=expected, expected_version=expected_version
        )
        return api.ChangedUserState(user=user, versions=versions)

    async def app(self, app: str) -> api.AppState:
        return api.AppState(app=app, variables=await self._variables("app", self._own_app(app)))

    async def update_app(
        self,
        app: str,
        set: Mapping[str, Any] = _NOTHING,
        *,
        delete: Sequence[str] = (),
        by: str | None = None,
        expected: Mapping[str, int] = _NOTHING,
        expected_version: int | Sequence[int] | None = None,
    ) -> api.ChangedAppState:
        owner = self._own_app(app)
        versions = await self._update(
            "app", owner, set, delete, by=by, expected=expected, expected_version=expected_version
        )
        return api.ChangedAppState(app=app, versions=versions)

    async def _update(
        self,
        scope: SharedScope,
        owner: str,
        set: Mapping[str, Any],
        delete: Sequence[str],
        *,
        by: str | None,
        expected: Mapping[str, int],
        expected_version: int | Sequence[int] | None,
    ) -> Mapping[str, int]:
        """Change shared variables; returns their new versions."""
        person, names = self._context.person(by) or "local", _checked_names(set, delete, expected)
        if expected_version is not None:
            found = await self._variables(scope, owner)
            _checked_version(api.version_of(found), expected_version)
            # The check and the write are apart, so the write expects the versions of the check.
            expected = {**_versions(found, names), **expected}
        return await update_shared_state(
            self._context.store, scope, owner, set, delete=delete, expected=expected, by=person
        )

    async def _variables(self, scope: SharedScope, owner: str) -> dict[str, SharedVariable]:
        found = await shared_state(self._context.store, scope, owner)
        return {name: found[name] for name in sorted(found)}

    def _own_app(self, name: str) -> str:
        """The app's name in the store; `NotServed` for any other app."""
        if name != self._context.app_name:
            raise NotServed(
                f"no app is called {name[:80]!r} here; it is the one of the setting `app`"
            )
        return self._context.stored_app


def _checked_names(
    changes: Mapping[str, Any], delete: Sequence[str], expected: Mapping[str, int]
) -> Sequence[str]:
    """The names of the variables to change; `RequestInvalid` if `expected` has other names."""
    _check_unique(delete)
    others = expected.keys() - {*changes, *delete}
    if others:
        raise RequestInvalid(f"expected: {min(others)[:80]!r} is not among the changed variables")
    return (*changes, *delete)


def _check_unique(delete: Sequence[str]) -> None:
    if len(dict.fromkeys(delete)) < len(delete):
        raise RequestInvalid("delete: a variable is listed twice")


def _versions(found: Mapping[str, SharedVariable], names: Sequence[str]) -> dict[str, int]:
    return {each: found[each].version if each in found else 0 for each in names}


def _checked_version(version: int, expected: int | Sequence[int]) -> int:
    """`version` unchanged; `PreconditionFailed` if the caller has read other versions."""
    if version not in ([expected] if isinstance(expected, int) else expected):
        raise PreconditionFailed(
            "it has changed since you read it: read it again, and decide again"
        )
    return version


_PAGE = 500


class LocalMemory(api.MemoryApi):
    """`MemoryApi` on a store in this process."""

    def __init__(self, context: LocalContext) -> None:
        self._context = context

    def list(self, *, user: str | None = None, shared: bool = False) -> Pages[api.MemoryEntry]:
        async def fetch(limit: int, cursor: str | None) -> Page[api.MemoryEntry]:
            memory = self._memory(user, shared)
            found = await memory.list(after=cursor or "", limit=limit + 1)
            shown = [entry_of(each) for each in found[:limit]]
            return Page(items=shown, next_cursor=shown[-1].key if len(found) > limit else None)

        return Pages(fetch)

    async def store(
        self,
        content: str,
        *,
        key: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        user: str | None = None,
        shared: bool = False,
    ) -> api.StoredMemory:
        stored = await self._memory(user, shared).store(key, content, metadata)
        return api.StoredMemory(key=stored, stored=True)

    async def clear(
        self, *, user: str | None = None, shared: bool = False
    ) -> api.ForgottenMemories:
        return api.ForgottenMemories(forgotten=await self._memory(user, shared).clear())

    async def get(
        self, key: str, *, user: str | None = None, shared: bool = False
    ) -> api.MemoryEntry:
        found = await self._memory(user, shared).get(key)
        if found is None:
            raise MemoryNotFound(key)
        return entry_of(found)

    async def put(
        self,
        key: str,
        content: str,
        *,
        metadata: Mapping[str, Any] | None = None,
        user: str | None = None,
        shared: bool = False,
    ) -> api.StoredMemory:
        return await self.store(content, key=key, metadata=metadata, user=user, shared=shared)

    async def forget(self, key: str, *, user: str | None = None, shared: bool = False) -> None:
        if not await self._memory(user, shared).forget(key):
            raise MemoryNotFound(key)

    async def search(
        self,
        q: str,
        *,
        user: str | None = None,
        shared: bool = False,
        meaning: bool = False,
        limit: int | None = None,
        threshold: float | None = None,
    ) -> api.FoundMemories:
        memory = self._memory(user, shared, kind="vector" if meaning else "key_value")
        if meaning:
            # The first use may load a model from disk.
            defaults = self._context.settings.memory
            await asyncio.to_thread(embedder_of, defaults.embedding_model, defaults.dimension)
        answer = await memory.recall(q, limit, threshold)
        return api.FoundMemories(
            items=[found_of(each) for each in answer.found], notes=list(answer.notes)
        )

    def export(
        self, *, user: str | None = None, shared: bool = False
    ) -> AsyncStream[api.MemoryEntry]:
        return AsyncStream(self._everything(user, shared))

    async def sync(self) -> api.MemoryDeliveries:
        with self._context.one_at_a_time("sync"):
            names = await used_backends(self._context.store)
            return api.MemoryDeliveries(items=[await self._delivered(name) for name in names])

    async def _everything(
        self, user: str | None, shared: bool
    ) -> AsyncGenerator[api.MemoryEntry, None]:
        memory, after = self._memory(user, shared), ""
        while found := await memory.list(after=after, limit=_PAGE):
            for each in found:
                yield entry_of(each)
            after = found[-1].key

    async def _delivered(self, backend: str) -> api.MemoryDelivery:
        """Send the pending changes to a back end. An unknown back end is reported as a problem."""
        store = self._context.store
        memory = Memory(
            store,
            settings=MemorySettings(type="vector", backend=backend),
            embedder=self._embedder(),
        )
        try:
            report = await memory.deliver()
        except MemoryFailed as exc:
            waiting = await store.queue_depth(queue_of(backend))
            report = DeliveryReport(waiting=waiting, problem=str(exc))
        return api.MemoryDelivery(
            backend=backend,
            delivered=report.delivered,
            waiting=report.waiting,
            problem=report.problem,
        )

    def _memory(self, user: str | None, shared: bool, *, kind: MemoryKind = "key_value") -> Memory:
        """The memory to use; `RequestInvalid` unless exactly one owner is given."""
        if shared == (user is not None):
            raise RequestInvalid(
                "give either `user`, or `shared=true` for the memories of the whole app"
            )
        defaults = self._context.settings.memory
        return Memory(
            self._context.store,
            user=user,
            app=self._context.stored_app,
            settings=MemorySettings(
                type=kind,
                scope="app" if shared else "user",
                top_k=defaults.top_k,
                threshold=defaults.similarity_threshold,
            ),
            embedder=self._embedder(),
        )

    def _embedder(self) -> Any:
        defaults = self._context.settings.memory
        return partial(embedder_of, defaults.embedding_model, defaults.dimension)


def entry_of(record: MemoryRecord) -> api.MemoryEntry:
    """Convert a memory to the value of the interface."""
    return api.MemoryEntry(**_facts(record))


def found_of(record: MemoryRecord) -> api.FoundMemory:
    """Convert a search result to the value of the interface."""
    score = round(record.score or 0.0, 6)
    return api.FoundMemory(**_facts(record), score=score, found_by=record.found_by)


def _facts(record: MemoryRecord) -> dict[str, Any]:
    return {
        "key": record.key,
        "content": record.content,
        "metadata": dict(record.metadata),
        "stored_at": record.stored_at_us / 1e6,
        "agent": record.agent,
    }
