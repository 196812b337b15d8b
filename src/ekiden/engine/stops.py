"""Serves stop requests: for runs of this process, and for runs whose process died."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace

from ekiden.core.agent import Team
from ekiden.core.errors import (
    SessionBusy,
    SessionNotFound,
    StaleDocument,
    StoreError,
    UnknownAgent,
    UserError,
)
from ekiden.engine.store_worker import StoreWorker
from ekiden.runtime import RunConfig, RunOptions
from ekiden.runtime.loop.claim import resumed
from ekiden.runtime.questions.cancel_question import (
    STOPS,
    StopRequest,
    abandon,
    removal,
    stop_requests,
)
from ekiden.sessions import Session
from ekiden.storage.base import Store

_log = logging.getLogger("ekiden.worker")

_GAP_S = 0.1
"""The minimum number of seconds between two reads of the requests."""
_LONGEST_S = 10.0
"""The maximum number of seconds between two reads."""
_AGAIN_S = 1.0
"""Seconds until the next read after a request was found."""
_STOP_TIMEOUT_S = 1.0
"""Seconds to wait for a run to stop. After that, the request stays and is tried again later."""

StopHere = Callable[[str], Awaitable[bool]]
"""A function that stops the run of a session in this process; returns whether there was one."""


class Stops:
    """Serves stop requests. Any number of processes may do so; each request is served once."""

    def __init__(self, store_worker: StoreWorker, *, also: StopHere | None = None) -> None:
        """`also` stops runs of this process outside of the store worker."""
        self._store_worker = store_worker
        self._also = also

    async def run(self) -> None:
        """Serve requests for ever, soon after they are stored."""
        longest_s = _LONGEST_S
        while True:
            try:
                await self._store_worker.hint(longest_s, about={STOPS})
                longest_s = _AGAIN_S if await self.once() else _LONGEST_S
            except StoreError as exc:
                _log.warning("requests to stop could not be looked at, trying again: %s", exc)
                await asyncio.sleep(_AGAIN_S)
            except Exception:
                _log.exception("requests to stop could not be looked at, trying again")
                await asyncio.sleep(_AGAIN_S)
            await asyncio.sleep(_GAP_S)

    async def once(self) -> bool:
        """Serve all stored requests; returns whether there were any."""
        after = ""
        while requests := await stop_requests(self._store_worker.store, after=after):
            # A failing request must not cancel the others; the first error is raised afterwards.
            served = await asyncio.gather(*map(self._serve, requests), return_exceptions=True)
            for each in served:
                if isinstance(each, BaseException):
                    raise each
            after = requests[-1].session_id
        return after != ""

    async def _serve(self, request: StopRequest) -> None:
        store, session_id = self._store_worker.store, request.session_id
        try:
            row = await store.get(session_id)
            if row.agent not in self._store_worker.team:
                return  # A process with this agent serves the request.
            if request.is_about(row) and not await self._stop(request):
                return
        except SessionNotFound:
            pass
        except (SessionBusy, UnknownAgent):
            return  # The process that runs the session, or knows its agent, serves the request.
        # A newer request for the same session has another version, and is kept.
        with suppress(StaleDocument):
            await store.write_documents([removal(request)])

    async def _stop(self, request: StopRequest) -> bool:
        """Stop the run; returns whether it is certainly stopped."""
        session_id, store_worker = request.session_id, self._store_worker
        was_here = await store_worker.stop_session(session_id, timeout_s=_STOP_TIMEOUT_S)
        if not was_here and self._also is not None:
            await self._also(session_id)
        if request.answers is not None:
            await abandon(store_worker.store, session_id, request.answers, only_ready=True)
        elif request.is_about(await store_worker.store.get(session_id)):
            # No process ran the session, or it was released before its first step.
            await stop_suspended(
                store_worker.store, store_worker.team, store_worker.config, session_id
            )
        return not request.is_about(await store_worker.store.get(session_id))


async def stop_suspended(store: Store, team: Team, config: RunConfig, session_id: str) -> None:
    """Stop a run that no process runs: it waits for an answer or for a worker.

    Raises `SessionBusy` if it is running, and `UnknownAgent` if a process with another team must
    stop it; the session is then unchanged.
    """
    options = RunOptions(
        root=team, config=replace(config, on_busy="refuse"), status_on_cancel="idle", drives=False
    )
    try:
        async with resumed(options, Session(session_id, store=store)):
            pass  # Leaving the body suspends the run.
    except UnknownAgent:
        raise
    except UserError:
        pass  # The run has already ended.
