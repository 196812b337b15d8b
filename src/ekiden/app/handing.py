"""Handoffs that a door asks for: who works afterwards is the desk, and the caller waits a while."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from ekiden.app.records.handoff_endings import Ending, ending_of
from ekiden.app.records.runs import ACTIVE, run_id_of, run_status
from ekiden.core.handoff_record import HandoffResult
from ekiden.handoff.lifecycle import FINAL
from ekiden.handoff.records import HandoffRecord, read_handoff

if TYPE_CHECKING:
    from ekiden.app.desk import Desk

_LOOK_EVERY_S = 1.0


async def until_settled(desk: Desk, result: HandoffResult, *, deadline: float) -> HandoffResult:
    """The handoff once its target confirmed it, or it was undone, or nobody works on it any more.

    `deadline` is a time of the event loop: then it is told as it stands. What is only asked for,
    refused or withdrawn is told at once.
    """
    if result.status != "transferring":
        return result
    clock = asyncio.get_running_loop()
    record = await read_handoff(desk.store, result.request_id)
    async with desk.tails.follow(record.session_id, after=record.moves[-1].seq) as tail:
        while record.status not in FINAL:
            left_s = deadline - clock.time()
            if left_s <= 0 or not await _is_worked_on(desk, record):
                break
            with suppress(TimeoutError):
                async with asyncio.timeout(min(left_s, _LOOK_EVERY_S)):
                    await anext(tail, None)
            record = await read_handoff(desk.store, record.id)
    return (await read_handoff(desk.store, record.id)).result()


async def until_answered(
    desk: Desk, session_id: str, result: HandoffResult, *, deadline: float
) -> tuple[HandoffResult, Ending]:
    """The handoff and where its session stands, once nobody works on it or the deadline is over."""
    row = await desk.store.get(session_id)
    number = row.cursor.get("r", 0)
    if result.error is None and number:
        left_s = max(deadline - asyncio.get_running_loop().time(), 0.0)
        await desk.runs.wait(run_id_of(session_id, number), timeout_s=left_s)
        if result.status == "transferring":
            result = (await read_handoff(desk.store, result.request_id)).result()
    return result, await ending_of(desk.store, session_id, result)


async def _is_worked_on(desk: Desk, record: HandoffRecord) -> bool:
    row = await desk.store.get(record.session_id)
    return await run_status(desk.store, row) in ACTIVE
