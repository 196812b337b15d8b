"""Serves handoffs that were requested during the last step of a run, after the run."""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import replace

from ekiden.core.errors import SessionError, StaleDocument, StoreError, UserError
from ekiden.handoff.requests import asked_in, removal_of, requests_of
from ekiden.runtime.handoff.requests import make
from ekiden.runtime.loop.claim import claimed, owned
from ekiden.runtime.loop.live_runs import registered
from ekiden.runtime.loop.load import opened_for_handoff
from ekiden.runtime.outcome import is_late, is_taken_up, store_withdrawal
from ekiden.runtime.state.state import RunState
from ekiden.runtime.tools.unfinished_calls import has_calls_left
from ekiden.storage.base import Document

_log = logging.getLogger("ekiden.runtime")


async def serve_late_requests(run: RunState) -> None:
    """Serve a handoff request after the end of the run. Another process then runs the target.

    The process of the requester may serve the request first, or may have died. If this process
    cannot serve the request, the next owner of the session serves it.
    """
    try:
        for document in await requests_of(run.store, run.session_id):
            try:
                if await _serve(run, document):
                    return
            except StaleDocument:  # The request was withdrawn or served meanwhile.
                await _record_withdrawn(run)
    except (SessionError, StoreError, UserError) as exc:
        _log.info("a handoff that session %s was asked for has to wait: %s", run.session_id, exc)


async def _record_withdrawn(run: RunState) -> None:
    """Record the requests that were withdrawn meanwhile."""
    for document in await requests_of(run.store, run.session_id):
        asked = asked_in(document)
        if asked.state != "open":
            claim, row = await claimed(run.store, run.session_id, run.config)
            async with owned(run.store, claim) as hold:
                here = await opened_for_handoff(run.options, run.store, claim, row, hold=hold)
                with suppress(StaleDocument):
                    await store_withdrawal(here, asked, [removal_of(document)], release=True)


async def _serve(run: RunState, document: Document) -> bool:
    """Serve one request; returns whether the target has the session now."""
    asked, store = asked_in(document), run.store
    if asked.state != "open" or asked.cancel is not None or await is_late(run, asked):
        return False
    config = replace(run.config, on_busy="refuse")
    claim, row = await claimed(store, run.session_id, config)
    async with owned(store, claim) as hold:
        here = await opened_for_handoff(
            run.options, store, claim, row, hold=hold, source=asked.source
        )
        if has_calls_left(row) or is_taken_up(here.cursor.handoffs.tried, asked):
            await store.release(claim)
            return False
        with registered(here):
            if not await make(here, asked, [removal_of(document)], release=True, may_wait=False):
                return False
            await here.commit(status="ready", outcome="", release=True)
    return True
