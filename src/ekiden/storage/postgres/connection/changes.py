"""Hints that something changed, in this process and through NOTIFY in all others.

A NOTIFY within a writing transaction would make all writers wait for one lock, so it is sent by
itself, soon afterwards, once for all changes of the last `PAUSE_S`. While changes come without end
the pauses grow to `LONGEST_PAUSE_S`. Waiters are woken at the first change and again at the end of
the pause: a waiter that looked just before the change, and began to wait just after it, is woken by
the second.

A ready session needs one worker, not all. Each waiting process encodes the agents that it serves in
the name of its connection, as 64 bits, so that the server knows the live processes. The statement
that sends a hint finds the agents with unclaimed sessions and names as many processes as there are
sessions. A named process without room names another one. A process that named others listens for
the hint that all sessions were taken. Without it, it looks again a moment later and names others,
because the named process may have died or become full. Hints that are lost nevertheless, because
both processes died, are made up for by the next look of any worker.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from typing import Any, TypeGuard

from ekiden.core.errors import EkidenError
from ekiden.core.values import dumps, loads
from ekiden.storage.changes import ChangeSignal
from ekiden.storage.postgres.connection.database import CLOSE_S, Database
from ekiden.storage.postgres.connection.errors import FOREIGN
from ekiden.storage.postgres.rows import to_column
from ekiden.storage.timers import TIMERS

PAUSE_S = 0.01
LONGEST_PAUSE_S = 0.08
_TAKEN_S = 0.25
"""So long after a hint the sessions that it was about should have been taken."""
_LONGEST = 2000
"""Characters of topics; more are `null`, which may be any. A NOTIFY takes 8,000 bytes."""
_MOST_READY = 32
"""So many ready sessions are looked at for a hint, and at most as many workers are woken by it."""

_NAME = "'ekiden-worker:' || substr(md5(current_database() || '/' || current_schema()), 1, 16)"
_BIT = "(get_byte(decode(md5({}), 'hex'), 0) & 63)"
_SERVES = f"""
select set_config('application_name', {_NAME} || ':' || lpad(to_hex(
    bit_or(1::bigint << {_BIT.format("agent")})), 16, '0'), false)
from unnest($1::text[]) as agent"""
# A hint need not survive a crash: nobody has to wait for the disk.
_NOTIFY = f"""
with free as materialized (
    select {_BIT.format("agent")} as place, count(*) as many from (
        select agent from sessions where status = 'ready' and owner is null
        order by ready_at desc, num desc limit {_MOST_READY}
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
    """Tells others of our changes, and us of theirs."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._channel = f"ekiden:{database.address.schema}"
        self._me = os.urandom(8).hex()
        """Sent along, so that a process is not woken by its own changes."""
        self._dirty = False
        self._topics: set[str] = set()
        """What changes were about that others have not been told."""
        self._sender: asyncio.Task[None] | None = None
        self._passing: asyncio.Task[bool] | None = None
        self._again: asyncio.Task[None] | None = None
        self._is_named = False
        """Whether a process was named since `_again` last began to wait."""
        self._is_taken = False
        """Whether a hint told since then that no session is left for anybody."""
        self._signal = ChangeSignal()
        self._about: dict[frozenset[str], ChangeSignal] = {}
        """By what is waited for."""
        self._ready = ChangeSignal(echoes=False)
        self._agents: frozenset[str] = frozenset()
        """The agents whose sessions are waited for."""
        self._has_room: Callable[[], bool] = bool
        self._listener: Any = None
        self._starter: asyncio.Task[None] | None = None

    def changed(self, topics: Iterable[str] = ()) -> None:
        """Something was stored just now, also about these topics."""
        self._dirty = True
        self._topics.update(topics)
        if self._sender is None or self._sender.done():
            self._sender = asyncio.get_running_loop().create_task(self._send())

    async def wait(self, timeout_s: float, about: Collection[str] | None = None) -> None:
        """Return at the next hint, or at the next about one of these topics, or after the time-out;
        without a connection, only after that.

        `StoreUnavailable` after the store was closed.
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
        """Return when this process is to look for sessions of these agents; as `wait` otherwise."""
        self._database.refuse_if_closed()
        self._has_room = has_room
        if not self._agents.issuperset(agents):
            self._agents |= frozenset(agents)
            if _is_ours(self._starter):
                # Of two that connect at the same time one connection would be lost.
                self._starter.cancel()
            self._starter = None
        self._listen()
        await self._ready.wait(timeout_s)

    async def close(self) -> None:
        """Tell others what they have not been told, and stop listening."""
        senders = [each for each in (self._sender, self._passing) if _is_ours(each)]
        self._sender = self._passing = None
        if senders:
            await asyncio.wait(senders, timeout=CLOSE_S)
        again, self._again = self._again, None
        starter, self._starter = self._starter, None
        for task in (again, starter):
            if _is_ours(task):
                task.cancel()
                await asyncio.wait([task])
        listener, self._listener = self._listener, None
        if listener is not None and _is_ours(starter):
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
                self._ready.notify()  # Nobody could name us.
            if any(TIMERS in each for each in self._about):
                topics.discard(TIMERS)  # Whoever sets a timer sees to it.
            self._is_named |= await self._notify(topics)
            await asyncio.sleep(pause_s)
            self._signal.notify()
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
        if self._is_named and self._listener and (self._again is None or self._again.done()):
            self._again = asyncio.get_running_loop().create_task(self._look_again())

    async def _look_again(self) -> None:
        """Name other processes if the sessions of the last hints were not taken."""
        while self._is_named:
            self._is_named = self._is_taken = False
            await asyncio.sleep(_TAKEN_S)
            if not self._is_taken:
                await self._notify(None)

    async def _notify(self, topics: Collection[str] | None, tried: Sequence[int] = ()) -> bool:
        """Send a hint about these topics; or, for `None`, only about ready sessions, to processes
        that were not `tried`. Returns whether a process was named for a session."""
        excluded = list(tried)
        if self._listener is not None and not self._has_room():
            excluded.append(self._listener.get_server_pid())
        told = None if topics is None else dumps(sorted(topics))
        if told is not None and len(told) > _LONGEST:
            told = "null"
        with suppress(EkidenError, *FOREIGN):  # Those who wait find out by their time-out.
            rows = await self._database.query(_NOTIFY, self._channel, self._me, told, excluded)
            return any(row[0] for row in rows)
        return False

    def _listen(self) -> None:
        if _is_ours(self._starter) and (self._listener or not self._starter.done()):
            return
        self._starter = asyncio.get_running_loop().create_task(self._start_listening())

    async def _start_listening(self) -> None:
        old, self._listener = self._listener, None
        if old is not None:
            old.terminate()
        # If it fails, waiters come back after their time-out, and then it is tried again.
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
            self._wake_all()  # Another version sent it.
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


def _is_ours(task: asyncio.Task[Any] | None) -> TypeGuard[asyncio.Task[Any]]:
    """Whether there is such a task in the loop that runs now, rather than in one that ended."""
    return task is not None and task.get_loop() is asyncio.get_running_loop()
