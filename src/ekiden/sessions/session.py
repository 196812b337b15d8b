"""Defines `Session`, which is a handle to one stored conversation. Also defines the progress of a
run, and the rules for deleting old sessions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from os import PathLike
from typing import Annotated, Any, Literal, TypeAlias

from ekiden.core.checks.fields import Checked
from ekiden.core.checks.kinds import Allowed
from ekiden.core.conversation.model import Item, read_items, user_message
from ekiden.core.dataclass import dataclass
from ekiden.core.errors import SessionNotFound, UserError
from ekiden.core.errors.stored_data import SessionImportInvalid
from ekiden.core.events import Event
from ekiden.core.values import check_id, check_line, new_id, priority_number
from ekiden.sessions.conversation import SessionInfo, conversation, said, session_info
from ekiden.sessions.state import SessionState, state_at, state_of
from ekiden.storage.base import Commit, NewSession, SessionPatch, SessionRow, Store

Phase: TypeAlias = Literal["think", "act", "answered", "end"]
"""The next step of a run. `think`: the agent answers. `act`: the agent's tool calls run.
`answered`: only triggers are checked. `end`: no run is open."""
_PHASES = ("think", "act", "answered", "end")
STARTED_BEFORE = ("before",)
"""The `tools` of a branch, or of a rewound run, whose calls were started before it. Under its own
keys no call was started, but the calls in its conversation may have had effects."""


@dataclass(slots=True)
class RunProgress:
    """The position of a run."""

    run: int = 0
    """The number of the run; 1 for the first run of the session."""
    turn: int = 0
    """The number of finished turns in this run."""
    phase: Phase = "end"
    started: bool = False
    """Whether the active agent's start was recorded."""
    first: int = 0
    """The number of the run's first event."""
    calls: int = 0
    """In the phase `act`, the number of the event with the tool calls."""
    mistakes: int = 0
    """The number of consecutive turns in which the model made an unusable request."""
    errors: int = 0
    """The number of errors in this run."""
    tools: Sequence[str | None] | None = None
    """In the phase `act`, the signatures of the tools that the calls were started with, in the
    order of the calls; `None` for a call that was not started. Older data has no list."""

    def to_json(self, data: dict[str, Any]) -> None:
        """Store the progress in a cursor's `data`."""
        data["r"] = self.run
        data["t"] = self.turn
        data["p"] = self.phase
        data["f"] = self.first
        if self.started:
            data["s"] = 1
        if self.calls:
            data["c"] = self.calls
        if self.mistakes:
            data["m"] = self.mistakes
        if self.errors:
            data["e"] = self.errors
        if self.phase == "act" and self.tools is not None:
            data["tv"] = list(self.tools)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> RunProgress:
        """Read the progress from a cursor's `data`."""
        get = data.get
        return cls(
            data["r"], data["t"], data["p"], bool(get("s")), data["f"], get("c", 0), get("m", 0),
            get("e", 0), get("tv"),
        )  # fmt: skip

    def step_key(self, suffix: str) -> str:
        """The key of an effect of the current turn. After a restart the key is the same."""
        return f"{self.run}.{self.turn + 1}.{suffix}"

    def next_run(self, first: int) -> RunProgress:
        """The progress of the next run, which begins with event `first`."""
        return RunProgress(run=self.run + 1, phase="think", first=first)

    def next_agent(self, *, started: bool) -> None:
        """Begin the next turn with another agent."""
        self.turn += 1
        self.phase = "think"
        self.started = started
        self.mistakes = 0

    @staticmethod
    def shape() -> dict[str, Any]:
        """The types of the fields in an imported document, by key."""
        from ekiden.core.conversation.shapes import Count

        counts = dict.fromkeys(("r", "t", "f", "c", "m", "e"), Count)
        return {**counts, "tv": list[str | None]}

    def check_import(self, place: str, *, events: int) -> None:
        """Raise `SessionImportInvalid` if the progress does not fit a session with this many
        events."""
        if self.phase not in _PHASES:
            raise SessionImportInvalid(f"{place}.p", "this phase does not exist")
        if not (self.calls <= events and self.first <= events + 1):
            raise SessionImportInvalid(place, "it refers to events that do not exist")


def run_number(row: SessionRow) -> int:
    """The number of the session's last run; 0 if the session has no run."""
    number: int = row.cursor.get("r", 0)
    return number


def first_event(row: SessionRow) -> int:
    """The number of the first event of the session's last run; 1 if the session has no run."""
    number: int = row.cursor.get("f", 1)
    return number


def has_open_run(row: SessionRow) -> bool:
    """Whether the session's last run has not ended."""
    return bool(row.cursor.get("p", "end") != "end")


_LEASE_S = 30.0


async def append_items(store: Store, draft: NewSession, items: tuple[Item, ...]) -> None:
    """Add items to the session. A missing session is created. Raises `SessionBusy` or
    `UserError`."""

    async def added(row: SessionRow) -> Event:
        return await _event(store, row, "added", items, None)

    await _write(store, draft, added)


async def take_last_item(store: Store, draft: NewSession) -> Item | None:
    """Remove the last item of the conversation, and return it. Raises `SessionBusy` or
    `UserError`."""
    await store.open()
    taken: list[Item] = []

    async def popped(row: SessionRow) -> Event | None:
        last = _last(await store.events(row.id, with_items=True))
        if last is None:
            return None
        taken.append(last.items[-1])
        details = {"undoes": [last.seq, last.seq]}
        return await _event(store, row, "popped", last.items[:-1], details, agent=last.agent)

    await _write(store, draft, popped)
    return taken[0] if taken else None


def _last(events: Sequence[Event]) -> Event | None:
    visible = list(said(events))
    return visible[-1] if visible else None


async def _write(store: Store, draft: NewSession, event_of: Callable[[SessionRow], Any]) -> None:
    await store.open()
    claim, row = await store.claim(draft.id, owner=new_id("say"), lease_s=_LEASE_S, create=draft)
    try:
        if has_open_run(row):
            raise UserError(
                f"a run of session {row.id!r} is unfinished: resume it, or send it a message, "
                "before its conversation is changed"
            )
        event = await event_of(row)
        if event is not None:
            await store.commit(claim, Commit(patch=SessionPatch(), events=[event], release=True))
            return
    except BaseException:
        await store.release(claim)
        raise
    await store.release(claim)


async def _event(
    store: Store,
    row: SessionRow,
    kind: str,
    items: tuple[Item, ...],
    details: dict[str, Any] | None,
    agent: str | None = None,
) -> Event:
    """An event outside runs, whose step key begins with 0."""
    seq = row.seq + 1
    return Event(
        session_id=row.id,
        seq=seq,
        type="message",
        at_us=await store.now_us(),
        agent=agent or row.agent or None,
        step=f"0.{seq}.{kind}",
        details=details,
        items=items,
    )


class Session:
    """A conversation in a store, to pass as ``session=`` to a run.

    Without an id the session is new. The first run creates the session in the store. The store also
    has the active agent of the session, which gets the next message::

        store = SqliteStore("desk.db")
        session = Session("customer-42", store=store)
        await Runner.run(triage, "Where is my parcel?", session=session)
    """

    def __init__(
        self,
        session_id: str | None = None,
        *,
        store: Store,
        user_id: str | None = None,
        title: str | None = None,
        correlation_id: str | None = None,
        priority: int | str = "normal",
    ) -> None:
        """`priority` is the priority of a new session: ``low``, ``normal``, ``high`` or ``urgent``,
        or 1 to 4. Workers take sessions with a higher priority first."""
        if session_id is None:
            session_id = new_id("ses")
        elif not isinstance(session_id, str):
            raise UserError(
                f"a session id must be text, not {type(session_id).__name__}: "
                f"write Session({str(session_id)!r:.80}, …), or None for a new id"
            )
        if isinstance(store, str | PathLike):
            raise UserError(f"store must be a Store: open_store({str(store)!r:.80}) gives one")
        self.session_id = check_id(session_id, what="session id")
        self.store = store
        self.user_id = user_id
        if user_id is not None:
            check_line(user_id, what="a user id")
        self.priority = priority_number(priority)
        self.meta: dict[str, Any] = {}
        if title is not None:
            self.meta["title"] = title
        if correlation_id is not None:
            self.meta["correlation_id"] = check_line(correlation_id, what="a correlation id")

    def draft(self, agent: str) -> NewSession:
        """The values with which a run creates the session if it does not exist. `agent` becomes the
        active agent of the session."""
        return NewSession(
            id=self.session_id,
            agent=agent,
            user_id=self.user_id,
            meta=self.meta,
            priority=self.priority,
        )

    async def row(self) -> SessionRow:
        """Return the stored values of the session. Raises `SessionNotFound` if no run has created
        the session yet."""
        await self.store.open()
        return await self.store.get(self.session_id)

    async def events(self, *, after: int = 0) -> Sequence[Event]:
        """The stored events of the session, in order."""
        await self.store.open()
        return await self.store.events(self.session_id, after=after)

    async def get_items(self, limit: int | None = None) -> list[Item]:
        """Return the items of the current conversation. With `limit`, return only the last `limit`
        items."""
        await self.store.open()
        items = conversation(await self.store.events(self.session_id, with_items=True))
        return items if limit is None else items[max(len(items) - limit, 0) :]

    async def state(self, at: int | None = None) -> SessionState:
        """Return a copy of the session's current state, or of its state after event number `at`.

        Use `ekiden.update_state` to change the state. Raises `SessionNotFound`, and `UserError` if
        the event does not exist.
        """
        row = await self.row()
        events = await self.store.events(self.session_id, limit=row.seq)
        if at is not None and (type(at) is not int or not 1 <= at <= row.seq):
            raise UserError(
                f"session {self.session_id!r} has no event {at!r}: its last is {row.seq}"
            )
        if at is None or at == row.seq:
            return state_of(row, events)
        return state_at(events, at, now=row.variables)

    async def info(self) -> SessionInfo:
        """Return a summary: the agents that had the session, and its usage. Raises
        `SessionNotFound`."""
        row = await self.row()
        return session_info(row, await self.store.events(self.session_id, limit=row.seq))

    async def add_items(self, items: Iterable[Any]) -> None:
        """Add items to the session without running it. The items are a text of the user, or items
        in the format of the OpenAI Responses API.

        A missing session is created without an agent. The first run of the session sets the agent.
        Raises `SessionBusy` if the session is running, and `UserError` if it has an unfinished run.
        """
        given = (items,) if isinstance(items, str) else items
        said = read_items(
            [user_message(each) if isinstance(each, str) else each for each in given], "the session"
        )
        if said:
            await append_items(self.store, self.draft(""), tuple(said))

    async def pop_item(self) -> Item | None:
        """Remove the last item of the conversation, and return it. Returns `None` if the
        conversation is empty.

        The event that added the item stays in the store. Raises the same errors as `add_items`.
        """
        return await take_last_item(self.store, self.draft(""))

    async def clear_session(self) -> None:
        """Delete the session like `delete`, but without an error if the session does not exist."""
        with suppress(SessionNotFound):
            await self.delete()

    async def delete(self) -> None:
        """Delete the stored session. Raises `SessionNotFound` and `SessionBusy`.

        Open questions of the session are not withdrawn, and agents that wait for an answer from the
        session keep waiting. To end these waits as well, use `ekiden.delete_session`.
        """
        from ekiden.sessions.search import delete_with_texts

        await delete_with_texts(self.store, await self.row())


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention(Checked):
    """Rules for deleting old data. Without any rule, everything is kept.

    For example::

        Worker(store, team, retention=Retention(days=30, count=1000))
    """

    days: Annotated[float | None, Allowed(low=0.01, high=36500)] = None
    """Sessions without a new event for this many days are deleted, and so are finished messages and
    closed questions of this age. With null, nothing is deleted because of its age."""
    count: Annotated[int | None, Allowed(low=1)] = None
    """The number of most recent sessions to keep; older sessions are deleted. With null, the number
    of sessions is not limited."""

    @property
    def has_rules(self) -> bool:
        """Whether at least one rule is set."""
        return self.days is not None or self.count is not None
