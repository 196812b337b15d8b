"""Executes each agreement once. After a crash, another process continues the execution.

A document for each agreement names the executing process and contains its lease. The record of the
collaboration counts the starts of the execution. Only the process that started the execution last
can complete the execution, so a stale process cannot write. After a crash the executor is called
again, so the executor must use the collaboration's id as its idempotency key.

A long execution, for example a handoff whose target waits for a person, is released and checked
again later. A check does not count as a new start.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final, Protocol

from ekiden.collaboration.ledger import CollaborationLedger, Step
from ekiden.collaboration.record import SYSTEM, Collaboration
from ekiden.collaboration.rules import follow, started
from ekiden.collaboration.wire import canonical
from ekiden.core.errors import EkidenError, StaleDocument, StoreUnavailable
from ekiden.core.errors.collaboration import CollaborationNotFound
from ekiden.core.handoffs import HandoffResult
from ekiden.core.privacy.masking import cover
from ekiden.storage.base import Document, DocumentWrite
from ekiden.storage.records import EXECUTIONS
from ekiden.tools.under_way import is_being_cancelled

_PAGE = 100
_GAP_S = 0.02
_MAX_TEXT = 2_000
_LOOK_AGAIN = "look_us"
"""Key in the document of an unfinished execution: when `Collaborations.run` checks it again."""
_SOONEST_US, _LATEST_US = 500_000, 30_000_000
_NOT_OVER: Final[dict[str, Any]] = {}
"""The outcome of an execution that is not finished."""


class Executor(Protocol):
    """Does the work that two agents agreed on. For example, `HandoffExecutor` makes a handoff."""

    async def execute(self, collaboration: Collaboration) -> Any:
        """Execute the agreement, and return a `HandoffResult` or any JSON.

        If this method raises an exception other than `StoreUnavailable`, or returns a failed
        result, the collaboration fails. Ekiden calls this method again with the same collaboration
        in three cases: the process died before the result was stored, the returned `HandoffResult`
        is not final, or the method raised `StoreUnavailable`. So use ``collaboration.id`` as an
        idempotency key. The call is cancelled when the collaboration is cancelled or expires.
        """
        ...


class Executions:
    """Executes agreements of a store."""

    def __init__(self, ledger: CollaborationLedger, executor: Executor, owner: str) -> None:
        self._ledger = ledger
        self._executor = executor
        self._owner = owner

    async def due(self, *, look_again: bool) -> tuple[list[str], int | None]:
        """Return the ids of agreements that no process executes now, and the time at which the next
        lease of another agreement ends.

        With `look_again`, all unfinished executions are included; otherwise only those that are
        due.
        """
        ledger, after = self._ledger, ""
        found: list[str] = []
        next_us: int | None = None
        while True:
            page = await ledger.store.list_documents(EXECUTIONS, after=after, limit=_PAGE)
            now_us = await ledger.store.now_us() if page else 0
            for document in page:
                until_us = _until_us(document)
                if not look_again:
                    until_us = max(until_us, _until_us(document, _LOOK_AGAIN))
                if until_us <= now_us:
                    found.append(document.key)
                else:
                    next_us = until_us if next_us is None else min(next_us, until_us)
            if len(page) < _PAGE:
                return found, next_us
            after = page[-1].key

    async def execute(self, collaboration_id: str) -> Collaboration | None:
        """Execute an agreement. Returns `None` if another process executes it, if there is nothing
        to do, or if the execution is not finished yet."""
        claimed = await self._claim_execution(collaboration_id)
        if claimed is None:
            return None
        record, version = claimed
        if record.attempts > self._ledger.settings.max_attempts:
            reason = f"it was started {record.attempts - 1} times and never finished"
            return await self._complete(record, _failed(reason))
        try:
            outcome = await self._watched(record, version)
        except BaseException:
            # Release the lease, so that another process need not wait for its expiry.
            await self._release(record.id)
            raise
        if outcome is _NOT_OVER:
            await self._release(record.id, look_us=await self._look_us(record))
            return None
        return None if outcome is None else await self._complete(record, outcome)

    async def _claim_execution(self, collaboration_id: str) -> tuple[Collaboration, int] | None:
        """Claim the execution and count the start; returns the record and the version of the
        claim's document, or `None` if another process has it."""
        ledger = self._ledger
        claim = await ledger.store.get_document(EXECUTIONS, collaboration_id)
        if claim is None or _until_us(claim) > await ledger.store.now_us():
            return None
        try:
            seen = await ledger.load(collaboration_id)
        except CollaborationNotFound:
            await ledger.store.write_documents(
                [DocumentWrite(collection=EXECUTIONS, key=collaboration_id, body=None)]
            )
            return None
        if _LOOK_AGAIN in claim.body and seen.phase == "execution":
            return await self._claim_again(seen, claim)
        is_taken = False
        tried = -1

        def take(record: Collaboration, now_us: int) -> Step | None:
            nonlocal is_taken, tried
            # If the write was refused although the record is unchanged, the owner has just renewed
            # its lease.
            is_taken = (
                record.version != tried
                and record.attempts == seen.attempts
                and record.phase in ("agreement", "execution")
            )
            tried = record.version
            if not is_taken:
                return None
            return Step(
                record=started(record, now_us=now_us),
                move="execute",
                by=SYSTEM,
                documents=[self._claim(record.id, now_us, claim.version)],
            )

        record = await ledger.change(collaboration_id, take)
        return (record, claim.version + 1) if is_taken else None

    async def _claim_again(
        self, record: Collaboration, claim: Document
    ) -> tuple[Collaboration, int] | None:
        """Claim an execution that was released unfinished; `None` if another process has it."""
        store = self._ledger.store
        taken = self._claim(record.id, await store.now_us(), claim.version)
        try:
            await store.write_documents([taken])
        except StaleDocument:
            return None
        return record, claim.version + 1

    async def _watched(self, record: Collaboration, version: int) -> dict[str, Any] | None:
        """Execute while the lease is renewed; returns the outcome, or `None` if the lease is lost,
        which cancels the execution."""
        async with asyncio.TaskGroup() as group:
            work = group.create_task(self._work(record))
            keeper = group.create_task(self._keep(record.id, version))
            await asyncio.wait({work, keeper}, return_when=asyncio.FIRST_COMPLETED)
            is_done = work.done()
            work.cancel()
            keeper.cancel()
        if not is_done:
            return None
        outcome = work.result()
        # Returned as a value by `_work`, because a task group would wrap a raised one.
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    async def _work(self, record: Collaboration) -> dict[str, Any] | BaseException:
        try:
            result = await self._executor.execute(record)
        except StoreUnavailable as exc:
            return exc
        except asyncio.CancelledError:
            if is_being_cancelled():
                raise
            return _failed("it cancelled itself")
        except Exception as exc:
            code = exc.code if isinstance(exc, EkidenError) else type(exc).__name__
            return _failed(_text_of(exc), {"code": code})
        # The outcome is sent in a message, and must fit into it together with the other fields.
        return _outcome(result, max_bytes=self._ledger.settings.max_message_bytes // 2)

    async def _keep(self, collaboration_id: str, version: int) -> None:
        """Renew the lease until it is lost or the collaboration is closed."""
        with suppress(StaleDocument, StoreUnavailable):
            await self._renew(collaboration_id, version)

    async def _renew(self, collaboration_id: str, version: int) -> None:
        store, renew_s = self._ledger.store, self._ledger.settings.lease_s / 3
        clock = asyncio.get_running_loop().time
        renewed = clock()
        while True:
            left_s = renewed + renew_s - clock()
            if left_s > 0:
                # A change may have closed the collaboration, which removes the document; the pause
                # limits the reads when there are many changes.
                await store.wait_for_change(left_s)
                await asyncio.sleep(min(_GAP_S, renew_s / 10))
            claim = await store.get_document(EXECUTIONS, collaboration_id)
            if claim is None or claim.version != version:
                return
            if clock() - renewed >= renew_s:
                renewed = clock()
                write = self._claim(collaboration_id, await store.now_us(), version)
                await store.write_documents([write])
                version += 1

    async def _complete(
        self, record: Collaboration, outcome: dict[str, Any]
    ) -> Collaboration | None:
        """Close the collaboration if this process still owns the execution; otherwise record that
        the result came late."""
        ledger, mine = self._ledger, record.attempts
        now_us = await ledger.store.now_us()
        message = await ledger.system_message(record, "complete", {"outcome": outcome}, now_us)
        is_ours = False

        def complete(found: Collaboration, now_us: int) -> Step | None:
            nonlocal is_ours
            is_ours = found.phase == "execution" and found.attempts == mine
            if not is_ours:
                return None
            after = follow(found, message, now_us=now_us)
            return Step(record=after, move="complete", by=SYSTEM, message=message)

        found = await ledger.change(record.id, complete)
        if is_ours:
            return found
        await ledger.note_late(found, outcome["status"])
        return None

    async def _look_us(self, record: Collaboration) -> int:
        """The time of the next check of an unfinished execution; longer ones are checked less
        often."""
        now_us = await self._ledger.store.now_us()
        taken_us = now_us - record.phases[-1][1]
        return now_us + min(max(taken_us // 10, _SOONEST_US), _LATEST_US)

    async def _release(self, collaboration_id: str, *, look_us: int | None = None) -> None:
        """Release the lease; if this fails, the lease expires."""
        store = self._ledger.store
        body: dict[str, Any] = {"owner": "", "until_us": 0}
        if look_us is not None:
            body[_LOOK_AGAIN] = look_us
        with suppress(EkidenError):
            claim = await store.get_document(EXECUTIONS, collaboration_id)
            if claim is not None and claim.body.get("owner") == self._owner:
                free = DocumentWrite(
                    collection=EXECUTIONS,
                    key=collaboration_id,
                    body=body,
                    expected_version=claim.version,
                )
                await store.write_documents([free])

    def _claim(self, collaboration_id: str, now_us: int, version: int) -> DocumentWrite:
        until_us = now_us + int(self._ledger.settings.lease_s * 1e6)
        return DocumentWrite(
            collection=EXECUTIONS,
            key=collaboration_id,
            body={"owner": self._owner, "until_us": until_us},
            expected_version=version,
        )


def _until_us(document: Document, name: str = "until_us") -> int:
    body = document.body
    until_us = body.get(name) if isinstance(body, Mapping) else 0
    return until_us if isinstance(until_us, int) else 0


def _failed(reason: str, result: Any = None) -> dict[str, Any]:
    return {"status": "failed", "reason": reason, "result": result}


def _outcome(result: Any, *, max_bytes: int) -> dict[str, Any]:
    if isinstance(result, HandoffResult):
        data = result.to_json()
        if result.error is not None:
            return _failed(result.error.message[:_MAX_TEXT], data)
        if result.status in ("failed", "rolled_back"):
            return _failed(f"the handoff is {result.status}", data)
        if result.status != "completed":
            return _NOT_OVER
        return {"status": "completed", "reason": "", "result": data}
    return {"status": "completed", "reason": "", "result": _stored(result, max_bytes)}


def _stored(result: Any, max_bytes: int) -> Any:
    """The result as JSON; if it is not JSON, or too long, the beginning of its text."""
    try:
        size = len(canonical(result))
    except (TypeError, ValueError, RecursionError):
        return {"text": _shown(result)}
    return result if size <= max_bytes else {"text": _shown(result), "bytes": size}


def _shown(result: Any) -> str:
    try:
        return f"{result!r:.{_MAX_TEXT}}"
    except Exception:
        return f"(a {type(result).__name__} that cannot be shown)"


def _text_of(exc: Exception) -> str:
    try:
        text = str(exc)
    except Exception:
        text = "(it cannot be shown)"
    shown = text if isinstance(exc, EkidenError) else f"{type(exc).__name__}: {text}"
    return cover(shown)[:_MAX_TEXT]
