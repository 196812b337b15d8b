"""Stopping runs that others want stopped: those that are run here, and those whose process died."""

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
"""Between two looks, however often something changes."""
_LONGEST_S = 10.0
"""Without any hint."""
_AGAIN_S = 1.0
_PATIENCE_S = 1.0
"""How long one waits for code that is to stop, before other requests are looked at; then the
request stays, and is looked at again."""

StopHere = Callable[[str], Awaitable[bool]]
"""Stops the run of a session if it is worked on in this process; whether it was."""


class Stops:
    """Serves requests to stop; any number of processes may, and each request is seen to once."""

    def __init__(self, store_worker: StoreWorker, *, also: StopHere | None = None) -> None:
        """`also`: who else in this process works on sessions of the store."""
        self._store_worker = store_worker
        self._also = also

    async def run(self) -> None:
        """Look for requests for ever, soon after something changed."""
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
        """See to all requests that there are; whether there were any."""
        after = ""
        while requests := await stop_requests(self._store_worker.store, after=after):
            # One request that fails must not cancel the others half way; the first error is raised
            # afterwards.
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
                return  # Others know what it is.
            if request.is_about(row) and not await self._stop(request):
                return
        except SessionNotFound:
            pass
        except (SessionBusy, UnknownAgent):
            return  # Whoever has it, or knows its agent, sees to the request.
        # A newer request for the same session has another version, and is kept.
        with suppress(StaleDocument):
            await store.write_documents([removal(request)])

    async def _stop(self, request: StopRequest) -> bool:
        """Stop the run; `False` if it is not known to be stopped."""
        session_id, store_worker = request.session_id, self._store_worker
        was_here = await store_worker.stop_session(session_id, patience_s=_PATIENCE_S)
        if not was_here and self._also is not None:
            await self._also(session_id)
        if request.answers is not None:
            await abandon(store_worker.store, session_id, request.answers, only_ready=True)
        elif request.is_about(await store_worker.store.get(session_id)):
            # Nobody worked on it, or whoever did had not begun yet and only let go of it.
            await stop_suspended(
                store_worker.store, store_worker.team, store_worker.config, session_id
            )
        return not request.is_about(await store_worker.store.get(session_id))


async def stop_suspended(store: Store, team: Team, config: RunConfig, session_id: str) -> None:
    """Stop a run without a worker: it waits, for an answer or for a worker.

    `SessionBusy` if it is running, `UnknownAgent` if other processes must stop it: it is unchanged.
    """
    options = RunOptions(
        root=team, config=replace(config, on_busy="refuse"), status_on_cancel="idle", drives=False
    )
    try:
        async with resumed(options, Session(session_id, store=store)):
            pass  # To leave it is to stop it.
    except UnknownAgent:
        raise
    except UserError:
        pass  # It was over before.
