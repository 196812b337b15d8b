"""The base class of the store's parts, the SQL of leases, and hints of changes.

A NOTIFY within a writing transaction would make all writers wait for one lock. So it is sent alone,
soon afterwards, once for all changes of the last `PAUSE_S`. While changes continue, the pauses grow
to `LONGEST_PAUSE_S`. Waiters are woken at the first change and again at the end of the pause: the
second wakes a waiter that read just before the change and began to wait just after it.

A ready session needs one worker, not all. Each waiting process encodes the agents that it serves in
the name of its connection, as 64 bits, so that the server knows the live processes. The statement
that sends a hint finds the agents with unclaimed sessions and names as many processes as there are
sessions. A named process without room names another one. A process that named others listens for
the hint that all sessions were taken. Without it, it checks again a moment later and names others,
because the named process may have died or become full. If both processes die, the sessions are
found by the next claim of any worker.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from typing import Any, TypeGuard

from ekiden.core.errors import EkidenError, SessionBusy, SessionNotFound
from ekiden.core.values import dumps, is_dead, loads
from ekiden.storage.base import Claim
from ekiden.storage.postgres.database import CLOSE_S, FOREIGN, Database
from ekiden.storage.postgres.rows import ClaimHandle, from_column, to_column
from ekiden.storage.timers import TIMERS, ChangeSignal

PAUSE_S = 0.01
LONGEST_PAUSE_S = 0.08
_TAKEN_S = 0.25
"""The time after a hint in which its sessions should have been claimed."""
_MAX_TOPICS_LENGTH = 2000
"""The maximum length of the topics, because a NOTIFY has at most 8,000 bytes. Longer ones are sent
as `null`, which means all topics."""
_MAX_READY = 32
"""A hint considers this many ready sessions, and wakes at most as many workers."""

_NAME = "'ekiden-worker:' || substr(md5(current_database() || '/' || current_schema()), 1, 16)"
_BIT = "(get_byte(decode(md5({}), 'hex'), 0) & 63)"
_SERVES = f"""
select set_config('application_name', {_NAME} || ':' || lpad(to_hex(
    bit_or(1::bigint << {_BIT.format("agent")})), 16, '0'), false)
from unnest($1::text[]) as agent"""
# `synchronous_commit` is off, because a hint need not survive a crash: no sync of the disk.
_NOTIFY = f"""
with free as materialized (
    select {_BIT.format("agent")} as place, count(*) as many from (
        select agent from sessions where status = 'ready' and owner is null
        order by ready_at desc, num desc limit {_MAX_READY}
    ) as ready group by agent
), able as materialized (
    select pid, ('x' || right(application_name, 16))::bit(64)::bigint as serves
    from pg_stat_get_activity(null)
    where exists (select from free) and starts_with(application_name, {_NAME})
        and pid <> all($4::integer[])
), chosen as materialized (
    select distinct pid from free, lateral (
        select pid from able where serves >> place & 1 = 1 order by random() limit many
    ) as named
), told as (
    select json_build_object(
        'by', $2::text, 'topics', $3::json, 'passed', $3 is null, 'tried', $4,
        'to', (select json_agg(pid) from chosen),
        'others', (select count(*) from able) > (select count(*) from chosen)) as hint
)
select exists (select from chosen), set_config('synchronous_commit', 'off', true),
    pg_notify($1, hint::text) from told
where $3 is not null or exists (select from chosen)"""


class Changes:
    """Sends hints of this process's changes, and wakes its tasks after hints of others."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._channel = f"ekiden:{database.address.schema}"
        self._me = os.urandom(8).hex()
        """Part of each hint, so that a process ignores its own ones."""
        self._dirty = False
        """Whether there are changes for which no hint was sent."""
        self._topics: set[str] = set()
        """The topics of these changes."""
        self._sender: asyncio.Task[None] | None = None
        self._passing: asyncio.Task[bool] | None = None
        self._again: asyncio.Task[None] | None = None
        self._is_named = False
        """Whether a process was named since `_again` last began to wait."""
        self._is_taken = False
        """Whether a hint said since then that no ready session is left."""
        self._signal = ChangeSignal()
        self._about: dict[frozenset[str], ChangeSignal] = {}
        """The signals for waits with topics, by these topics."""
        self._ready = ChangeSignal(echoes=False)
        self._agents: frozenset[str] = frozenset()
        """The agents whose sessions this process waits for."""
        self._has_room: Callable[[], bool] = bool
        self._listener: Any = None
        self._starter: asyncio.Task[None] | None = None

    def changed(self, topics: Iterable[str] = ()) -> None:
        """Send a hint of a change with these topics."""
        self._dirty = True
        self._topics.update(topics)
        if self._sender is None or self._sender.done():
            self._sender = asyncio.get_running_loop().create_task(self._send())

    async def wait(self, timeout_s: float, about: Collection[str] | None = None) -> None:
        """Return at the next hint, with one of these topics if given, or after the time-out.
        Without a connection, other processes' hints are not received.

        Raises `StoreUnavailable` after the store was closed.
        """
        self._database.refuse_if_closed()
        self._listen()
        signal = self._signal
        if about is not None:
            signal = self._about.setdefault(frozenset(about), ChangeSignal())
        await signal.wait(timeout_s)

    async def wait_ready(
        self, agents: Collection[str], timeout_s: float, has_room: Callable[[], bool]
    ) -> None:
        """Return when this process should claim sessions of these agents, or after the time-out.
        Raises as `wait`."""
        self._database.refuse_if_closed()
        self._has_room = has_room
        if not self._agents.issuperset(agents):
            self._agents |= frozenset(agents)
            if _is_of_this_loop(self._starter):
                # Two tasks that connect at the same time would leak one connection.
                self._starter.cancel()
            self._starter = None
        self._listen()
        await self._ready.wait(timeout_s)

    async def close(self) -> None:
        """Send the remaining hints, and stop listening."""
        senders = [each for each in (self._sender, self._passing) if _is_of_this_loop(each)]
        self._sender = self._passing = None
        if senders:
            await asyncio.wait(senders, timeout=CLOSE_S)
        again, self._again = self._again, None
        starter, self._starter = self._starter, None
        for task in (again, starter):
            if _is_of_this_loop(task):
                task.cancel()
                await asyncio.wait([task])
        listener, self._listener = self._listener, None
        if listener is not None and _is_of_this_loop(starter):
            try:
                await listener.close(timeout=CLOSE_S)
            except FOREIGN:
                listener.terminate()
        self._wake_all()

    async def _send(self) -> None:
        pause_s = PAUSE_S
        while self._dirty:
            self._dirty = False
            topics, self._topics = self._topics, set()
            self._signal.notify()
            self._wake_about(topics)
            if self._listener is None:
                self._ready.notify()  # Other processes cannot name this one.
            if any(TIMERS in each for each in self._about):
                # This process watches all timers: no other process must wake for them.
                topics.discard(TIMERS)
            self._is_named |= await self._notify(topics)
            await asyncio.sleep(pause_s)
            self._signal.notify()
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
        if self._is_named and self._listener and (self._again is None or self._again.done()):
            self._again = asyncio.get_running_loop().create_task(self._repeat_hints())

    async def _repeat_hints(self) -> None:
        """Name other processes if the sessions of the last hints were not claimed."""
        while self._is_named:
            self._is_named = self._is_taken = False
            await asyncio.sleep(_TAKEN_S)
            if not self._is_taken:
                await self._notify(None)

    async def _notify(self, topics: Collection[str] | None, tried: Sequence[int] = ()) -> bool:
        """Send a hint with these topics; with `None` only for ready sessions, to processes that
        were not `tried`. Returns whether a process was named for a session."""
        excluded = list(tried)
        if self._listener is not None and not self._has_room():
            excluded.append(self._listener.get_server_pid())
        text = None if topics is None else dumps(sorted(topics))
        if text is not None and len(text) > _MAX_TOPICS_LENGTH:
            text = "null"
        with suppress(EkidenError, *FOREIGN):  # A lost hint: waiters read again after a time-out.
            rows = await self._database.query(_NOTIFY, self._channel, self._me, text, excluded)
            return any(row[0] for row in rows)
        return False

    def _listen(self) -> None:
        if _is_of_this_loop(self._starter) and (self._listener or not self._starter.done()):
            return
        self._starter = asyncio.get_running_loop().create_task(self._start_listening())

    async def _start_listening(self) -> None:
        old, self._listener = self._listener, None
        if old is not None:
            old.terminate()
        # If this fails, the next call after a waiter's time-out tries again.
        with suppress(EkidenError, *FOREIGN):
            connection = await self._database.connect()
            try:
                connection.add_termination_listener(self._stopped)
                if self._agents:
                    await connection.fetch(_SERVES, [to_column(each) for each in self._agents])
                await connection.add_listener(self._channel, self._heard)
            except BaseException:
                connection.terminate()
                raise
            self._listener = connection
            self._wake_all()

    def _heard(self, connection: Any, _pid: int, _channel: str, payload: str) -> None:
        try:
            hint = loads(payload)
        except ValueError:
            self._wake_all()  # A hint of another version.
            return
        if hint["by"] != self._me and not hint["passed"]:
            self._signal.notify()
            self._wake_about(hint["topics"])
            asyncio.get_running_loop().call_later(PAUSE_S, self._signal.notify)
        named = hint["to"]
        self._is_taken |= named is None
        if named is None or connection.get_server_pid() not in named:
            return
        if self._has_room():
            self._ready.notify()
        elif hint["others"] and (self._passing is None or self._passing.done()):
            passing = self._notify(None, [*hint["tried"], *named])
            self._passing = asyncio.get_running_loop().create_task(passing)

    def _stopped(self, connection: Any) -> None:
        if self._listener is connection:
            self._listener = None
            self._wake_all()

    def _wake_about(self, topics: Collection[str] | None) -> None:
        """Wake the tasks that wait for one of these topics; `None`: all tasks."""
        for about, signal in self._about.items():
            if topics is None or not about.isdisjoint(topics):
                signal.notify()

    def _wake_all(self) -> None:
        self._signal.notify()
        self._wake_about(None)
        self._ready.notify()


def _is_of_this_loop(task: asyncio.Task[Any] | None) -> TypeGuard[asyncio.Task[Any]]:
    """Whether the task exists and belongs to the running loop, not to one that ended."""
    return task is not None and task.get_loop() is asyncio.get_running_loop()


FREE = "(owner is null or lease_until <= clock_timestamp())"
"""The SQL condition that the session has no valid lease."""


def lease(lease_s: str) -> str:
    """The SQL assignments of a lease that begins now and lasts `lease_s` seconds."""
    end = f"clock_timestamp() + {lease_s} * interval '1 second'"
    return f"lease_until = {end}, lapses_at = {end}"


def later_lapse(lease_s: str) -> str:
    """The SQL expression of `lapses_at` for a lease that is extended to `lease_s` seconds.

    `lapses_at` is indexed and may be earlier than the end of the lease. It stays as it is while at
    least half of the time is left, so most renewals write to no index.
    """
    return (
        f"case when lapses_at > clock_timestamp() + {lease_s} * interval '0.5 seconds' "
        f"then lapses_at else clock_timestamp() + {lease_s} * interval '1 second' end"
    )


_LEASE = """
select owner, extract(epoch from lease_until - clock_timestamp())::float8 as free_in_s
from sessions where id = $1"""


_EXPIRE = """
update sessions set lease_until = '-infinity', lapses_at = '-infinity'
where id = $1 and owner = $2"""


_HANDLE = "select num, token from sessions where id = $1"


class Role:
    """Base class of the store's parts. They share the connection pool and the change signal."""

    def __init__(self, database: Database, changes: Changes) -> None:
        self._database = database
        self._changes = changes

    async def _explain_not_free(self, session_id: str, *, may_be_missing: bool = False) -> None:
        """Raise `SessionNotFound` or `SessionBusy`; return if the session is free by now.

        Ends the lease of an owner that is known to be dead.
        """
        found = await self._database.query(_LEASE, to_column(session_id), repeatable=True)
        if not found:
            if may_be_missing:
                return
            raise SessionNotFound(session_id)
        owner, free_in_s = found[0]
        if owner is None or free_in_s <= 0:
            return
        if not is_dead(from_column(owner)):
            raise SessionBusy(session_id, owner=from_column(owner), free_in_s=free_in_s)
        await self._database.query(_EXPIRE, to_column(session_id), owner, repeatable=True)

    async def _handle(self, claim: Claim) -> ClaimHandle:
        """The claim's handle, or a new one for a claim that this store did not create."""
        if isinstance(claim.key, ClaimHandle):
            return claim.key
        found = await self._database.query(_HANDLE, to_column(claim.session_id), repeatable=True)
        num, token = found[0] if found else (-1, 0)
        return ClaimHandle(num=num, token=token)
