"""Queries to agents: each is stored, awaited, and settled exactly once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ekiden.bus.deadlocks import break_deadlock
from ekiden.bus.delivery import current_delivery
from ekiden.bus.mailboxes import MailboxWriter
from ekiden.bus.messages import check_message, check_sender
from ekiden.bus.parts import BusParts, DirectWriter
from ekiden.bus.presence import OPEN, alone
from ekiden.bus.service import BusService
from ekiden.bus.store_reader import StoreReader
from ekiden.bus.waits import TIME_IS_OVER, AwaitedAnswer, Ending
from ekiden.core.conversation.messages import (
    AgentMessage,
    GroupMode,
    error_of,
    timeout_of,
    wait_node,
)
from ekiden.core.errors import QueueFull, StoreError, UserError
from ekiden.core.errors.messages import AgentUnavailableError, BusError, QueryFailed
from ekiden.core.values import new_id
from ekiden.storage.records import (
    MessageFilter,
    MessageSettle,
    MessageState,
    Settled,
    StoredMessage,
)

_log = logging.getLogger("ekiden.bus")


class BusQueries:
    """Sends queries to agents in any process, and waits for the answers."""

    __slots__ = ("_mailboxes", "_parts", "_reader", "_services")

    def __init__(
        self,
        parts: BusParts,
        services: Mapping[str, BusService],
        reader: StoreReader,
        mailboxes: MailboxWriter,
    ) -> None:
        self._parts = parts
        self._services = services
        self._reader = reader
        self._mailboxes = mailboxes

    async def query(self, message: AgentMessage) -> Any:
        """Return the payload of the answer. Raises the error that ended the query."""
        return await self.ask(message, check_message(message, self._parts.settings))

    async def ask(self, message: AgentMessage, payload: Any) -> Any:
        """Like `query`, for a checked message. `payload` is a copy of the message's payload."""
        parts = self._parts
        check_sender(message.from_agent, parts.inherited)
        wait = self._wait_for_own(message) or await self._wait_for_others(message)
        try:
            if parts.direct is None or not self._post_now(parts.direct, message, payload, wait):
                await self._post([message], [payload], [wait], None)
            elif not wait.is_known or parts.waits.has_node(wait.awaits):
                await self._check_cycles([wait])
            ending = await wait.future
        except asyncio.CancelledError:
            await self._cancel_waits([wait])
            raise
        except BaseException:
            parts.waits.remove(wait)
            raise
        if ending[0] == "answered":
            parts.waits.remove(wait)
            return ending[1]["payload"]
        return await self._result(wait, ending)

    async def ask_all(self, messages: Sequence[AgentMessage]) -> list[Any]:
        """Return the payloads of the answers. The first failure is raised after all queries have
        ended."""
        waits = await self._begin(messages, "all")
        results: list[Any] = []
        failures: list[BusError] = []
        open_ = list(waits)
        try:
            for wait in waits:
                ending = await wait.future
                open_.remove(wait)
                try:
                    results.append(await self._result(wait, ending))
                except BusError as exc:
                    failures.append(exc)
        except BaseException:
            await self._cancel_waits(open_)
            raise
        if failures:
            raise failures[0]
        return results

    async def ask_any(self, messages: Sequence[AgentMessage]) -> tuple[AgentMessage, Any]:
        """Return the first successful answer and its query, and cancel the other queries. If all
        queries fail, the last failure is raised."""
        waits = await self._begin(messages, "any")
        open_ = {wait.future: wait for wait in waits}
        failure: BusError | None = None
        try:
            while open_:
                await asyncio.wait(open_, return_when=asyncio.FIRST_COMPLETED)
                for future in [each for each in open_ if each.done()]:
                    wait = open_.pop(future)
                    try:
                        return wait.message, await self._result(wait, future.result())
                    except BusError as exc:
                        failure = exc
                # A failure may close a cycle: the remaining agents may wait for this one.
                if open_:
                    await self._check_cycles(list(open_.values()))
        finally:
            await self._cancel_waits(list(open_.values()))
        assert failure is not None
        raise failure

    # Beginning

    def _wait(
        self, message: AgentMessage, awaits: str, group: str | None, *, is_known: bool
    ) -> AwaitedAnswer:
        parts, node = self._parts, self._waiting_node(message, group)
        wait = AwaitedAnswer(message, node, awaits, is_known, parts.loop.create_future())
        parts.waits.add(wait)
        parts.deadlines.add(wait, message.timeout_seconds)
        return wait

    def _waiting_node(self, message: AgentMessage, group: str | None) -> str:
        """The node of the sender in the wait graph."""
        delivery = current_delivery()
        if delivery is not None and delivery.message.to_agent == message.from_agent:
            return delivery.node
        service = self._services.get(message.from_agent)
        if service is not None and service.alone and service.concurrency == 1:
            # An agent that handles one message at a time is blocked by any query in its name.
            return service.agent
        # No agent waits for a sender that is not served, so each of its queries is its own node.
        return wait_node(message.from_agent, f"ask:{group or message.id}")

    def _wait_for_own(
        self, message: AgentMessage, group: str | None = None
    ) -> AwaitedAnswer | None:
        """A wait for an agent that only this process serves; `None` for other agents."""
        service = self._services.get(message.to_agent or "")
        if service is None or not service.alone:
            return None
        if service.concurrency == 1:
            return self._wait(message, service.agent, group, is_known=True)
        # An agent with more concurrency may also wait in sessions, which this process does not see.
        node = wait_node(service.agent, _task(message))
        return self._wait(message, node, group, is_known=False)

    async def _wait_for_others(
        self, message: AgentMessage, group: str | None = None
    ) -> AwaitedAnswer:
        """A wait for an agent that other processes serve; `AgentUnavailableError` if none does."""
        agent = message.to_agent or ""
        servers = [
            each
            for each in await self._parts.presence.servers(agent)
            # A service that is closing takes no messages, but keeps its document until the last is
            # returned.
            if each.owner != self._parts.owner or agent in self._services
        ]
        if not servers:
            raise AgentUnavailableError(agent, asker=message.from_agent)
        self._reader.start()
        task = None if alone(servers) else _task(message)
        return self._wait(message, wait_node(agent, task), group, is_known=False)

    async def _begin(
        self, messages: Sequence[AgentMessage], mode: GroupMode
    ) -> list[AwaitedAnswer]:
        """Send several queries at once. With the mode `any`, agents that no process serves are
        skipped."""
        payloads = [check_message(message, self._parts.settings) for message in messages]
        for message in messages:
            check_sender(message.from_agent, self._parts.inherited)
        group = (new_id("grp"), mode)
        waits: list[AwaitedAnswer] = []
        asked: list[AgentMessage] = []
        contents: list[Any] = []
        missing: AgentUnavailableError | None = None
        try:
            for message, payload in zip(messages, payloads, strict=True):
                try:
                    waits.append(
                        self._wait_for_own(message, group[0])
                        or await self._wait_for_others(message, group[0])
                    )
                    asked.append(message)
                    contents.append(payload)
                except AgentUnavailableError as exc:
                    if mode == "all":
                        raise
                    missing = exc
            if missing is not None and not waits:
                raise missing
            await self._post(asked, contents, waits, group)
        except asyncio.CancelledError:
            await self._cancel_waits(waits)
            raise
        except BaseException:
            for wait in waits:
                self._parts.waits.remove(wait)
            raise
        return waits

    def _post_now(
        self, direct: DirectWriter, message: AgentMessage, payload: Any, wait: AwaitedAnswer
    ) -> bool:
        """Store and deliver a query without ``await``; returns whether that was possible."""
        ttl_s = _ttl_s(message)
        put = self._mailboxes.queue_put(message, payload, ttl_s, wait.node, wait.awaits)
        try:
            number = direct.put_now(put)
        except QueueFull:
            return False
        if number is None:
            return False
        if put.taken_by is not None:
            self._mailboxes.deliver(message, payload, put, number, ttl_s)
        return True

    async def _post(
        self,
        messages: Sequence[AgentMessage],
        payloads: Sequence[Any],
        waits: Sequence[AwaitedAnswer],
        group: tuple[str, GroupMode] | None,
    ) -> None:
        """Store and deliver the queries; then break deadlocks that they close."""
        puts = [
            self._mailboxes.queue_put(
                message, payload, _ttl_s(message), wait.node, wait.awaits, group
            )
            for message, payload, wait in zip(messages, payloads, waits, strict=True)
        ]
        timeout_s = min(message.timeout_seconds for message in messages)
        receipts = await self._mailboxes.put(puts, messages, timeout_s)
        for message, payload, wait, put, receipt in zip(
            messages, payloads, waits, puts, receipts, strict=True
        ):
            if not receipt.is_new:
                await self._join(wait)
            elif put.taken_by is not None:
                self._mailboxes.deliver(message, payload, put, receipt.id, _ttl_s(message))
        await self._check_cycles(waits)

    async def _join(self, wait: AwaitedAnswer) -> None:
        """Wait for the answer to a query that was sent before, perhaps by a process that died."""
        message, row = wait.message, await self._row(wait.message.id)
        if row is None:
            raise BusError(f"message {message.id} was just removed from the store: ask again")
        if any(
            row.body.get(name) != getattr(message, name)
            for name in ("type", "from_agent", "to_agent")
        ):
            raise UserError(f"{message.id!r} is the id of another message: ask with a new one")
        if row.state != "open":
            wait.end(row.state, row.answer)
        self._reader.start()

    async def _check_cycles(self, waits: Sequence[AwaitedAnswer]) -> None:
        """Break the deadlocks that these waits close."""
        parts = self._parts
        # There can be a cycle only if an awaited agent waits as well. For agents whose waits are
        # all in this process, that is known without a read.
        if not any(parts.waits.has_node(wait.awaits) for wait in waits):
            unknown = {wait.awaits for wait in waits if not wait.is_known}
            if not unknown or not await self._has_waits(unknown):
                return
        try:
            broken = await break_deadlock(
                parts.store,
                waits[0].node,
                policy=parts.settings.victim,
                awaits=[wait.awaits for wait in waits],
            )
            if broken is not None:
                await self._reader.read_answers()
        except StoreError as exc:
            _log.warning("it is not known whether %s is in a deadlock: %s", waits[0].node, exc)

    async def _has_waits(self, nodes: Collection[str]) -> bool:
        where = MessageFilter(waiters=nodes, states=OPEN)
        try:
            return bool(await self._parts.store.find_messages(where, limit=1))
        except StoreError:
            return True

    # Ending

    async def _result(self, wait: AwaitedAnswer, ending: Ending) -> Any:
        """Return the payload of the answer. Raises the error that ended the query."""
        is_last = self._parts.waits.remove(wait)
        state, answer = ending
        if state == "answered":
            return answer["payload"]
        message = wait.message
        if ending is TIME_IS_OVER:
            if is_last:
                state, answer = await self._time_out(message)
            else:
                state = "timed_out"
        elif state is None:
            if is_last:
                await self._cancel([message])
            raise answer
        return _outcome(message, state, answer)

    async def _time_out(self, message: AgentMessage) -> tuple[MessageState | None, Any]:
        """Settle the query as timed out. If an answer was stored first, that one counts."""
        try:
            if await self._settle(message, "timed_out") == "no":
                row = await self._row(message.id)
                if row is not None:
                    return row.state, row.answer
        except StoreError as exc:
            _log.warning("the end of query %s could not be stored: %s", message.id, exc)
        return "timed_out", None

    async def _cancel_waits(self, waits: Sequence[AwaitedAnswer]) -> None:
        """Cancel the queries of these waits, unless others wait for the same messages."""
        last = [wait.message for wait in waits if self._parts.waits.remove(wait)]
        if last:
            # A background task: a second cancellation of the caller must not leave queries open.
            done = self._parts.spawn(self._cancel(last))
            await asyncio.shield(done)

    async def _cancel(self, messages: Sequence[AgentMessage]) -> None:
        for ended in await asyncio.gather(
            *(self._settle(message, "cancelled") for message in messages), return_exceptions=True
        ):
            if isinstance(ended, StoreError):
                _log.warning("a query that was cancelled is still stored as open: %s", ended)

    async def _settle(self, message: AgentMessage, state: MessageState) -> Settled:
        settled = await self._parts.writer.settle(MessageSettle(key=message.id, state=state))
        agent = message.to_agent or ""
        service = self._services.get(agent)
        if service is not None:
            service.drop(message.id)
        self._parts.room.freed(agent)
        return settled

    async def _row(self, key: str) -> StoredMessage | None:
        rows = await self._parts.store.find_messages(MessageFilter(keys=(key,)), limit=1)
        return rows[0] if rows else None


def _task(message: AgentMessage) -> str:
    """The task of a query: its own, or that of the message that is being handled."""
    if message.task is not None:
        return message.task
    delivery = current_delivery()
    return message.id if delivery is None else delivery.task


def _ttl_s(message: AgentMessage) -> float:
    """The time in which a query may be delivered; not longer than its sender waits."""
    if message.ttl is None:
        return message.timeout_seconds
    return min(message.ttl, message.timeout_seconds)


def _outcome(message: AgentMessage, state: MessageState | None, answer: Any) -> Any:
    """The payload of a stored answer; raises the error of any other state."""
    is_short_lived = message.ttl is not None and message.ttl < message.timeout_seconds
    if state == "timed_out" or (state == "expired" and not is_short_lived):
        raise timeout_of(message)
    if answer is not None:
        error = error_of(answer, message)
        if error is None:
            return answer["payload"]
        raise error
    raise QueryFailed(
        message.to_agent or "",
        f"the query is {state}",
        error_code=f"bus.{state}",
        message_id=message.id,
    )
