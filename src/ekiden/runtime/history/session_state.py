"""Reads and changes variables from outside of a run, for people and programs.

For example::

    state = await Session("customer-42", store=store).state()
    await update_state(
        store, "customer-42", {"tier": "gold"}, expected_version=state.version, by="ada"
    )
    await update_shared_state(store, "user", "u7", {"language": "fr"}, by="ada")
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ekiden.core.current_agent import acting_agent
from ekiden.core.documents import Value
from ekiden.core.errors import StaleDocument, UserError
from ekiden.core.errors.stored_data import StaleState, StateRefused
from ekiden.core.events import Event
from ekiden.runtime.config import RunConfig
from ekiden.runtime.loop.claim import claimed, owned
from ekiden.runtime.state.cursor import Cursor
from ekiden.runtime.state.step_record import events_until, read_step
from ekiden.runtime.state.variables import GONE, body_of, stored_variables, value_of, write_of
from ekiden.sessions.state import (
    STATE,
    SharedScope,
    changes_between,
    check_name,
    check_own,
    check_room,
    checked_value,
    collection_of,
    recorded_changes,
    split_name,
    state_version,
    stored_name,
)
from ekiden.storage.base import Claim, Commit, DocumentWrite, SessionPatch, SessionRow, Store

_MAX_BY = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedVariable(Value):
    """A variable of a user or an app."""

    value: Any
    version: int
    by: str
    """The person or the session that wrote the variable."""
    updated_at: float


async def update_state(
    store: Store,
    session_id: str,
    changes: Mapping[str, Any],
    *,
    delete: Collection[str] = (),
    expected_version: int | None = None,
    by: str = "outside",
    on_busy: Literal["wait", "refuse"] = "wait",
    busy_timeout_s: float = 30.0,
) -> int:
    """Set and delete variables of a session in one change, and return the new version.

    Names have the same form as in ``ctx.set``. For variables of users and apps, use
    `update_shared_state`. `expected_version` is the `SessionState.version` that you read. If the
    version has changed since then, `StaleState` is raised, and nothing is written. An event records
    the change and its author `by`. An equal value is not a change. Raises `SessionNotFound`,
    `UserError` for invalid values, and `StateRefused` in the code of agents. If the session is
    running, the call waits at most `busy_timeout_s` seconds, and then raises `SessionBusy`. With
    ``on_busy="refuse"`` it raises `SessionBusy` at once. For example::

        state = await session.state()
        await update_state(store, session.session_id, {"tier": "gold"},
                           expected_version=state.version, by="ada")
    """
    _check_no_agent_acts()
    by = _checked_by(by)
    _check_version(expected_version)
    wanted = _checked(changes, delete)
    for name in wanted:
        check_own(name)
    await store.open()
    config = RunConfig(on_busy=on_busy, busy_timeout_s=busy_timeout_s)
    claim, row = await claimed(store, session_id, config)
    async with owned(store, claim):
        return await _update(store, claim, row, wanted, expected_version, by)


async def _update(
    store: Store,
    claim: Claim,
    row: SessionRow,
    wanted: Mapping[str, Any],
    expected_version: int | None,
    by: str,
) -> int:
    events = await events_until(store, row.id, row.seq)
    version = state_version(events)
    if expected_version is not None and version != expected_version:
        raise StaleState(
            f"the state of session {row.id!r}", expected=expected_version, found=version
        )
    change = changes_between(row.variables, _applied(row.variables, wanted))
    if not change:
        await store.release(claim)
        return version
    if row.variables and all(recorded_changes(event) is None for event in events):
        change["base"] = dict(row.variables)
    event = Event(
        session_id=row.id,
        seq=row.seq + 1,
        type="message",
        at_us=await store.now_us(),
        agent=row.agent,
        details={STATE: change, "by": by},
    )
    cursor, steps = await _keep_in_rollbacks(store, row, change, event.seq)
    patch = SessionPatch(cursor=cursor, variables=_changed(row.variables, change))
    await store.commit(claim, Commit(patch=patch, events=[event], steps=steps, release=True))
    return event.seq


def _applied(variables: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    values = dict(variables)
    for name, value in wanted.items():
        key = stored_name(name)
        if value is GONE:
            values.pop(key, None)
        else:
            if key not in values:
                check_room(name, len(values))
            values[key] = value
    return values


def _changed(variables: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    values = {**variables, **change.get("set", {})}
    for name in change.get("deleted", ()):
        values.pop(name, None)
    return values


async def _keep_in_rollbacks(
    store: Store, row: SessionRow, change: Mapping[str, Any], seq: int
) -> tuple[dict[str, Any] | None, dict[str, Any]]:
    """Apply the change also to the values that a rollback of an open handoff would restore: a
    rollback undoes the changes of agents, but not this one. Returns cursor and steps to store."""
    cursor, steps = Cursor.from_json(row.cursor), {}
    for pending in cursor.handoffs.open:
        if pending.variables is not None:
            before = await read_step(store, row.id, pending.variables)
            key = f"{cursor.progress.run}.{pending.number}.variables.{seq}"
            steps[key] = _changed(before, change)
            pending.variables = key
    return (cursor.to_json() if steps else None), steps


async def shared_state(store: Store, scope: SharedScope, owner: str) -> dict[str, SharedVariable]:
    """Return the variables of a user or an app, by name. Raises `StateRefused` in the code of
    agents.

    For example::

        language = (await shared_state(store, "user", "u7"))["language"]
        print(language.value, language.version, language.by)
    """
    _check_no_agent_acts()
    await store.open()
    documents = await stored_variables(store, _collection(scope, owner))
    return {
        name: SharedVariable(
            value=value_of(each),
            version=each.version,
            by=str(each.body.get("by") or each.body.get("session") or ""),
            updated_at=each.updated_at_us / 1e6,
        )
        for name, each in documents.items()
    }


async def update_shared_state(
    store: Store,
    scope: SharedScope,
    owner: str,
    changes: Mapping[str, Any],
    *,
    delete: Collection[str] = (),
    expected: Mapping[str, int] | None = None,
    by: str = "outside",
) -> dict[str, int]:
    """Set and delete variables of a user or an app in one change, and return their new versions.

    Names have no prefix. `expected` has the versions that you read, by name. The version of a
    variable that did not exist is 0. If a version has changed since then, `StaleState` is raised,
    and nothing is written. Runs in progress see the change when they resume. Later writes of these
    runs overwrite the change. For example::

        await update_shared_state(store, "user", "u7", {"language": "fr"}, by="ada")
    """
    _check_no_agent_acts()
    by = _checked_by(by)
    collection = _collection(scope, owner)
    _check_collections(changes, delete)
    if expected is not None and not isinstance(expected, Mapping):
        raise UserError("`expected` are versions by the names of variables")
    for version in (expected or {}).values():
        _check_version(version)
    for name in (*changes, *delete, *(expected or ())):
        _check_bare(scope, name)
    wanted = _checked(
        {f"{scope}:{name}": value for name, value in changes.items()},
        [f"{scope}:{name}" for name in delete],
    )
    await store.open()
    while True:
        writes, versions = await _shared_writes(
            store, collection, scope, wanted, expected or {}, by
        )
        try:
            await store.write_documents(writes)
        except StaleDocument:
            continue  # Another process wrote between the read and the write: read again.
        return versions


async def _shared_writes(
    store: Store,
    collection: str,
    scope: SharedScope,
    wanted: Mapping[str, Any],
    expected: Mapping[str, int],
    by: str,
) -> tuple[list[DocumentWrite], dict[str, int]]:
    writes: list[DocumentWrite] = []
    versions: dict[str, int] = {}
    count = len(await stored_variables(store, collection))
    for full, value in wanted.items():
        name = full.partition(":")[2]
        document = await store.get_document(collection, name)
        exists = value_of(document) is not GONE
        found = document.version if document is not None and exists else 0
        if expected.get(name, found) != found:
            raise StaleState(f"the variable {full!r}", expected=expected[name], found=found)
        if value is GONE and not exists:
            versions[name] = 0
            continue
        if not exists:
            check_room(full, count)
            count += 1
        stored = 0 if document is None else document.version
        writes.append(write_of(collection, name, body_of(value, by=by), version=stored))
        versions[name] = 0 if value is GONE else stored + 1
    return writes, versions


def _collection(scope: SharedScope, owner: str) -> str:
    if scope not in ("user", "app"):
        raise UserError(f"there is no state of {scope!r}: the scope must be 'user' or 'app'")
    if not isinstance(owner, str) or not owner:
        raise UserError(f"name the {scope} that has the state")
    return collection_of(scope, owner)


def _checked(changes: Mapping[str, Any], delete: Collection[str]) -> dict[str, Any]:
    """The wanted value of each variable, or `GONE`, by name."""
    _check_collections(changes, delete)
    wanted: dict[str, Any] = {}
    for name, value in changes.items():
        check_name(name)
        wanted[name] = checked_value(name, value)
    for name in delete:
        check_name(name)
        if name in wanted:
            also = "deleted twice" if wanted[name] is GONE else "set and deleted at once"
            raise UserError(f"the variable {name!r} is to be {also}")
        wanted[name] = GONE
    if not wanted:
        raise UserError("name the variables to set or to delete")
    return wanted


def _check_collections(changes: Any, delete: Any) -> None:
    if not isinstance(changes, Mapping):
        raise UserError(f"changes must be a mapping, not {type(changes).__name__}")
    if isinstance(delete, str) or not isinstance(delete, Collection):
        raise UserError(f"delete must be a list of names, not {type(delete).__name__}")


def _check_bare(scope: SharedScope, name: Any) -> None:
    """Raise `UserError` for a name with a prefix such as ``user:``."""
    if not isinstance(name, str):
        raise UserError(f"a variable's name must be text, not {type(name).__name__}")
    if split_name(name)[0] != "session":
        bare = split_name(name)[1]
        raise UserError(
            f"{name!r} has a prefix, but this changes variables of the {scope}: write {bare!r}"
        )


def _check_version(version: Any) -> None:
    if version is not None and (type(version) is not int or version < 0):
        raise UserError(f"a version must be a number from 0, not {version!r}")


def _checked_by(by: str) -> str:
    if not isinstance(by, str) or not 0 < len(by) <= _MAX_BY:
        raise UserError(f"`by` must name who makes the change, in 1 to {_MAX_BY} characters")
    return by


def _check_no_agent_acts() -> None:
    agent = acting_agent()
    if agent is not None:
        raise StateRefused(agent)
