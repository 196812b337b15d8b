"""Claims a session, to run it with a new message or to resume it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, suppress
from types import TracebackType
from typing import Any

from ekiden.core.conversation.messages import error_json
from ekiden.core.conversation.model import Item, read_items, user_message
from ekiden.core.errors import (
    EkidenError,
    SessionBusy,
    SessionError,
    StoreError,
    StoreUnavailable,
    UserError,
)
from ekiden.core.events import Event
from ekiden.core.values import new_id, owner_name
from ekiden.runtime.config import RunConfig, RunOptions
from ekiden.runtime.loop.live_runs import registered
from ekiden.runtime.loop.load import first_step, left_step
from ekiden.runtime.loop.session_waits import waiting_for
from ekiden.runtime.outcome import describe, suspend
from ekiden.runtime.questions.sessions import ANSWERS
from ekiden.runtime.state.calls import to_the_end
from ekiden.runtime.state.cursor import Cursor
from ekiden.runtime.state.leases import Hold, keeper_of
from ekiden.runtime.state.state import RunState
from ekiden.runtime.state.step_record import REDACTED
from ekiden.sessions import Session
from ekiden.sessions.session import has_open_run
from ekiden.sessions.state import own_variables
from ekiden.storage.base import (
    Claim,
    Commit,
    MessageSettle,
    NewSession,
    SessionPatch,
    SessionRow,
    Store,
)
from ekiden.storage.memory import MemoryStore

_CHECK_S = 1.0
"""Code of a run that waits for a session looks for circles at least this often, in seconds."""


async def submit(options: RunOptions, input: str | Iterable[Any], session: Session) -> int:
    """Store a message in the session. The worker that claims the session runs it.

    Returns the number of the run.
    """
    items = read_input(input)
    options.check_addressee()
    _check_variables(options)
    await session.store.open()
    draft = session.draft(options.entry.name)
    claim, row = await claimed(session.store, draft.id, options.config, create=draft)
    async with owned(session.store, claim) as hold:
        run = await first_step(options, session.store, claim, row, items, hold=hold, release=True)
    return run.cursor.progress.run


@asynccontextmanager
async def resumed(options: RunOptions, session: Session) -> AsyncIterator[RunState]:
    """Resume the session's unfinished run. Raises `UserError` if there is none."""
    await session.store.open()
    claim, row = await claimed(session.store, session.session_id, options.config)
    async with resumed_run(options, session.store, claim, row) as run:
        yield run


@asynccontextmanager
async def resumed_run(
    options: RunOptions, store: Store, claim: Claim, row: SessionRow
) -> AsyncIterator[RunState]:
    """Resume the unfinished run of a claimed session.

    If a worker cannot resume the run, it stores a failure. Otherwise workers would claim the
    session again and again. A worker is recognised by `status_on_cancel`, which is `ready`.
    """
    async with owned(store, claim) as hold:
        try:
            run = await left_step(options, store, claim, row, hold=hold)
        except (SessionError, StoreUnavailable):
            raise
        except Exception as exc:
            if options.status_on_cancel == "ready" and _has_work(row):
                await _store_failure(store, claim, row, exc, options.config)
            raise
        with registered(run):
            async with suspended_if_left(run, options):
                yield run


def _has_work(row: SessionRow) -> bool:
    """Whether the session has work that other processes would claim."""
    return row.status == "ready" or has_open_run(row)


async def _store_failure(
    store: Store, claim: Claim, row: SessionRow, exc: Exception, config: RunConfig
) -> None:
    code = getattr(exc, "code", EkidenError.code)
    failed = Event(
        session_id=row.id,
        seq=row.seq + 1,
        type="agent_error",
        at_us=config.clock.now_us(),
        agent=row.agent,
        details={"outcome": "failed", "code": code},
        error=describe(exc) if config.trace_include_sensitive_data else REDACTED,
    )
    patch = SessionPatch(status="idle", outcome="failed", conclusion="failed")
    settles = []
    if ANSWERS in row.meta:
        answer = error_json(describe(exc), code=code)
        settles = [MessageSettle(key=row.meta[ANSWERS], state="failed", answer=answer)]
    await store.commit(claim, Commit(patch=patch, events=[failed], settles=settles, release=True))


async def claimed(
    store: Store, session_id: str, config: RunConfig, *, create: NewSession | None = None
) -> tuple[Claim, SessionRow]:
    """Claim the session. If `on_busy` is ``"wait"``, wait until it is free. Raises `SessionBusy`,
    and `DeadlockError` if the session waits for the code that waits here."""
    try:
        return await _take(store, session_id, config, create)
    except SessionBusy:
        if config.on_busy == "refuse":
            raise
    deadline = config.clock.monotonic() + config.busy_timeout_s
    async with waiting_for(store, session_id, checks=True) as wait:
        while True:
            try:
                return await _take(store, session_id, config, create)
            except SessionBusy as busy:
                left = deadline - config.clock.monotonic()
                if left <= 0:
                    raise
                await wait.check()
                # The expiry of a lease is not a change in the store, so the wait ends at that time.
                longest_s = max(busy.free_in_s, 0.05)
                if wait.is_in_a_run:  # Nor is a task that begins to await this one.
                    longest_s = min(longest_s, _CHECK_S)
                await store.wait_for_change(min(left, longest_s))


@asynccontextmanager
async def keep_limits(
    store: Store, session_id: str, limits: Mapping[str, float], *, config: RunConfig
) -> AsyncIterator[None]:
    """Apply these limits, if any, to the run that resumes the session after the ``with`` block.

    The session is claimed during the block, so no process can resume it without the limits. An
    answer that is given in the block only makes the session ready. Raises `SessionBusy`.
    """
    if not limits:
        yield
        return
    claim, row = await claimed(store, session_id, config)
    try:
        yield
    except BaseException:
        await store.release(claim)
        raise
    cursor = Cursor.from_json(row.cursor)
    cursor.budget.limits = {**cursor.budget.limits, **limits}
    await store.commit(claim, Commit(patch=SessionPatch(cursor=cursor.to_json()), release=True))


async def _take(
    store: Store, session_id: str, config: RunConfig, create: NewSession | None
) -> tuple[Claim, SessionRow]:
    """Claim the session; if the task is cancelled meanwhile, release it again."""
    claiming = store.claim(session_id, owner=owner_name(), lease_s=config.lease_s, create=create)
    if not store.shared:
        return await claiming
    # An interrupted claim may still be stored. Without the wait, the session would stay claimed
    # until the lease expires.
    claimed_session, cancelled = await to_the_end(claiming)
    if cancelled is not None:
        await store.release(claimed_session[0])
        raise cancelled
    return claimed_session


class owned:
    """Renew the lease during the ``with`` block, and release the lease after a failure.

    A class instead of a generator, because a class is cheaper and many runs are concurrent.
    """

    __slots__ = ("_claim", "_keeping", "_store")

    def __init__(self, store: Store, claim: Claim) -> None:
        self._store = store
        self._claim = claim
        self._keeping: AbstractContextManager[Hold] | None = None

    async def __aenter__(self) -> Hold | None:
        if not self._store.shared:
            return None
        self._keeping = keeper_of(self._store).hold(self._claim)
        return self._keeping.__enter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._keeping is not None:
            self._keeping.__exit__(None, None, None)
        if exc is not None:
            with suppress(StoreError):
                await to_the_end(self._store.release(self._claim))


class suspended_if_left:
    """Suspend the run if the ``with`` block is cancelled, or ends before the run is over.

    If the suspension cannot be stored, the session becomes free when its lease expires.
    """

    __slots__ = ("_options", "_run")

    def __init__(self, run: RunState, options: RunOptions) -> None:
        self._run = run
        self._options = options

    async def __aenter__(self) -> None:
        """Does nothing."""

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await _suspend_if_left(self._run, self._options, exc)


class begun:
    """Start a run with a new message. The message is stored first, and the session is released at
    the end.

    A class instead of a generator, because a class is cheaper and many runs are concurrent.
    """

    __slots__ = ("_input", "_options", "_owned", "_registered", "_run", "_session")

    _owned: owned
    _run: RunState

    def __init__(
        self, options: RunOptions, input: str | Iterable[Any], session: Session | None
    ) -> None:
        self._options = options
        self._input = input
        self._session = session
        self._registered: registered | None = None

    async def __aenter__(self) -> RunState:
        options, session = self._options, self._session
        items = read_input(self._input)
        options.check_addressee()
        _check_variables(options)
        entry = options.entry
        if session is None:
            store: Store = MemoryStore(options.config.clock)
            options.is_reachable = False
            draft = NewSession(id=new_id("ses"), agent=entry.name)
        else:
            store, draft = session.store, session.draft(entry.name)
            await store.open()
        claim, row = await claimed(store, draft.id, options.config, create=draft)
        self._owned = owned(store, claim)
        hold = await self._owned.__aenter__()
        try:
            self._run = run = await first_step(options, store, claim, row, items, hold=hold)
        except BaseException as exc:
            await self._owned.__aexit__(type(exc), exc, exc.__traceback__)
            raise
        if options.is_reachable:
            self._registered = registered(run)
            self._registered.__enter__()
        return run

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        failure = exc
        try:
            await _suspend_if_left(self._run, self._options, exc)
        except BaseException as another:
            failure = another
            raise
        finally:
            if self._registered is not None:
                self._registered.__exit__(None, None, None)
            await self._owned.__aexit__(None, failure, None)


def _check_variables(options: RunOptions) -> None:
    if options.variables is not None:
        options.variables = own_variables(options.variables)


async def _suspend_if_left(run: RunState, options: RunOptions, exc: BaseException | None) -> None:
    is_left = exc is None or isinstance(exc, (asyncio.CancelledError, GeneratorExit))
    if is_left and run.outcome is None and not run.is_free:
        with suppress(SessionError, StoreError):
            await to_the_end(suspend(run, options.status_on_cancel))


def read_input(value: str | Iterable[Any]) -> tuple[Item, ...]:
    """The input of a run as items. Raises `UserError` for an invalid item."""
    if isinstance(value, str):
        if not value.strip():
            raise UserError("a run needs a message: the input is empty")
        return (user_message(value),)
    if value is None or isinstance(value, (bytes, dict)) or not isinstance(value, Iterable):
        raise UserError(f"the input of a run must be text or a list, not {type(value).__name__}")
    return tuple([dict(each) for each in read_items(value, "the input")])
