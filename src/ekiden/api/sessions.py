"""Sessions: conversations, their events, and operations on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, Protocol, TypeAlias

from ekiden.api.methods.called import Called, calls, lists
from ekiden.api.methods.endpoint import Told, endpoint
from ekiden.api.methods.values import MOST_EVENTS, PLAIN, SESSION_ID, Moment, Pages
from ekiden.api.session_states import SessionState
from ekiden.api.state import SessionId
from ekiden.core.documents import Value, left_out, to_json
from ekiden.core.events import Event, EventType
from ekiden.runtime.history.fork import Rewind
from ekiden.runtime.history.retention import Pruned
from ekiden.sessions.search import SessionHit
from ekiden.storage.base import SessionStatus

OutcomeName: TypeAlias = Literal["done", "waiting", "refused", "failed", "out_of_budget"]
NewSessionId: TypeAlias = Annotated[
    str | None, Told("The new session's id.", min_length=1, max_length=128, pattern=SESSION_ID)
]
_PLACE: Final = r"^[0-9]{1,9}$"
_WHAT_MAY_GO: Final = {
    "description": "What may be deleted; without `older_than` and `keep`, as in the setting "
    "`retention`"
}
_ONE_PLACE: Final = {
    "anyOf": [
        {"properties": {"at": {"type": "null"}}},
        {"properties": {"before": {"type": "null"}}},
    ]
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSummary(Value):
    """A session without its messages."""

    session_id: str
    agent: str
    """The active agent of the session."""
    status: SessionStatus
    outcome: OutcomeName | None
    """How its last run ended."""
    user_id: str | None
    priority: int
    """1 low, 2 normal, 3 high, 4 urgent."""
    meta: Mapping[str, Any]
    events: int
    """The number of events."""
    owner: str | None
    """The process that runs it now."""
    created_at: float
    """Seconds since 1970."""
    updated_at: float
    state: SessionState
    """`working`: a process works on the session, or will; `waiting_agent`, `waiting_person`: the
    session waits for the answer of an agent or a person; `failed`: its last run failed or ran out
    of budget; `idle`: nothing to do until the next message."""
    title: str | None
    run_id: str | None
    """Its last run; `null` before the first."""
    waiting_for: Sequence[str]
    """The agents or people (as `person:ROLE`) that it asked and waits for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionDetails(SessionSummary):
    """A session with its conversation."""

    variables: Mapping[str, Any]
    items: Sequence[Mapping[str, Any]]
    """The messages, in the format of the OpenAI Responses API."""
    handoffs: Sequence[Mapping[str, Any]]
    metadata: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionEvent(Value):
    """An event; empty fields are left out."""

    event_id: str
    """The unique id: session id, `/` and number. Events without a session have the ids `/1`, `/2`
    …."""
    event_type: EventType
    """The type of the event; `Event.type` in Python."""
    timestamp: float
    """The time in seconds since 1970; `Event.at_us` in Python, in microseconds."""
    session_id: str
    """The session's id. It is empty for events without a session."""
    seq: int
    """The number of the event in its session: 1, 2, 3 …, without gaps."""
    agent_name: str | None = left_out()
    """The current agent of the session; `Event.agent` in Python."""
    step: str | None = left_out()
    """The key of the step that was recorded. Each key is recorded only once."""
    duration_ms: float | None = left_out()
    """The duration in milliseconds; `Event.duration_us` in Python, in microseconds."""
    details: Mapping[str, Any] | None = left_out()
    """Details that depend on the event type."""
    items: Sequence[Mapping[str, Any]] | None = left_out()
    """The parts that the event added to the conversation."""
    error: str | None = left_out()
    """The error text, if there was an error."""

    @property
    def event(self) -> Event:
        """As it is stored."""
        return Event.from_json(to_json(self))


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionChain(Value):
    """The agents that had a session, and each handoff."""

    session_id: str
    chain: Sequence[str]
    """All agents that had it, starting with `user`."""
    handoffs: Sequence[Mapping[str, Any]]
    waiting_for: str | None = left_out()
    """Left out if it does not wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkedSession(Value):
    """A session that was forked from another."""

    session_id: str
    forked_from: str
    forked_at: int
    agent: str
    events: int
    unfinished: bool
    """Whether its run can be resumed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedSession(Value):
    """An imported session."""

    session_id: str
    agent: str
    user_id: str | None
    events: int


class SessionsApi(Protocol):
    """Conversations; each is kept until it is deleted."""

    @endpoint("GET", "/sessions", scope="read")
    def list(
        self,
        *,
        state: Annotated[
            Sequence[SessionState],
            Told("Only sessions in this state; may be given more than once.", max_length=5),
        ] = (),
        agent: Annotated[
            str | None, Told("Only sessions that this agent has.", max_length=200, pattern=PLAIN)
        ] = None,
        user: Annotated[
            str | None, Told("Only sessions of this user.", max_length=500, pattern=PLAIN)
        ] = None,
        outcome: Annotated[
            OutcomeName | None, Told("Only sessions whose last run ended with this outcome.")
        ] = None,
        text: Annotated[
            str | None,
            Told(
                "Only sessions with this text in their title, id, user or agent; case does not "
                "matter.",
                max_length=200,
                pattern=PLAIN,
            ),
        ] = None,
    ) -> Pages[SessionSummary]:
        """List the sessions, newest first.

        With `state` or `text`, a page that scanned very many sessions may be short or empty: there
        is more as long as there is a `next_cursor`.
        """
        ...

    @endpoint("GET", "/sessions/search", scope="read", is_whole=True)
    def search(
        self,
        q: Annotated[
            str,
            Told(
                "Words of a title or a message.",
                max_length=1000,
                pattern=PLAIN,
                examples=("refund",),
            ),
        ],
        *,
        user: Annotated[
            str | None,
            Told("Only in sessions of this user.", min_length=1, max_length=500, pattern=PLAIN),
        ] = None,
        limit: Annotated[int, Told("The most results.", ge=1, le=1000)] = 20,
    ) -> Pages[SessionHit]:
        """Search sessions by title and content, best match first.

        There is one page: use `limit` for more.
        """
        ...

    @endpoint(
        "POST", "/sessions/import", scope="admin", status=201, problems=(409, 413), location="get"
    )
    async def import_(
        self,
        document: Annotated[
            Mapping[str, Any] | bytes,
            Told(
                "The export of a session. JSON is parsed strictly, as everywhere; with "
                "`application/octet-stream` the document is taken as it is, even with lone "
                "surrogates, which models sometimes produce.",
                is_body=True,
            ),
        ],
        *,
        id: Annotated[
            str | None,
            Told(
                "A different id for the session.",
                min_length=1,
                max_length=128,
                pattern=SESSION_ID,
                in_query=True,
            ),
        ] = None,
        user: Annotated[
            str | None,
            Told(
                "The session's user; by default the one in the document.",
                min_length=1,
                max_length=500,
                pattern=PLAIN,
                in_query=True,
            ),
        ] = None,
    ) -> ImportedSession:
        """Store an exported session; an unfinished run can be resumed.

        The session sees the variables that its user has in this store. Earlier approvals do not
        count; people are asked again. The document is not trusted: if no export wrote it, it is
        refused as a whole.
        """
        ...

    @endpoint("POST", "/sessions/prune", scope="admin", problems=(413,), body_schema=_WHAT_MAY_GO)
    async def prune(
        self,
        *,
        older_than: Annotated[
            Moment | None, Told("Sessions without an event since this time.")
        ] = None,
        keep: Annotated[
            int | None, Told("Keep this many of the newest sessions.", ge=0, le=MOST_EVENTS)
        ] = None,
        user: Annotated[
            str | None,
            Told("Only sessions of this user.", min_length=1, max_length=500, pattern=PLAIN),
        ] = None,
        status: Annotated[
            Sequence[SessionStatus],
            Told(
                "Also delete sessions in this state; by default only idle sessions are deleted.",
                max_length=3,
            ),
        ] = (),
        dry_run: Annotated[bool, Told("Only report what would be deleted.")] = False,
    ) -> Pruned:
        """Delete old sessions; with an age, also settled messages and closed inbox items.

        Without `older_than` and `keep` the setting `retention` applies.
        """
        ...

    @endpoint("GET", "/sessions/{session_id}", scope="read", problems=(404,))
    async def get(self, session_id: SessionId) -> SessionDetails:
        """Get a session with its conversation."""
        ...

    @endpoint("DELETE", "/sessions/{session_id}", scope="admin", status=204, problems=(404, 409))
    async def delete(self, session_id: SessionId) -> None:
        """Delete a session with all its events.

        Its open questions to people and agents are withdrawn, and agents that wait for its answer
        are told.
        """
        ...

    @endpoint("GET", "/sessions/{session_id}/events", scope="read", problems=(404,), cursor=_PLACE)
    def events(
        self,
        session_id: SessionId,
        *,
        after: Annotated[int, Told("Only events with a higher number.", ge=0, le=MOST_EVENTS)] = 0,
        types: Annotated[
            Sequence[EventType],
            Told("Only events of these types; may be given more than once.", max_length=20),
        ] = (),
    ) -> Pages[SessionEvent]:
        """List the events of a session, in order."""
        ...

    @endpoint("GET", "/sessions/{session_id}/items", scope="read", problems=(404,), cursor=_PLACE)
    def items(self, session_id: SessionId) -> Pages[Mapping[str, Any]]:
        """List the items of the conversation, in order, in the format of the OpenAI Responses
        API."""
        ...

    @endpoint("GET", "/sessions/{session_id}/chain", scope="read", problems=(404,))
    async def chain(self, session_id: SessionId) -> SessionChain:
        """Get a session's handoffs and their reasons."""
        ...

    @endpoint(
        "GET",
        "/sessions/{session_id}/export",
        scope="read",
        problems=(404,),
        file="{session_id}.json",
        is_large=True,
    )
    async def export(self, session_id: SessionId) -> Mapping[str, Any]:
        """Export a session with all its events, as a document that can be imported.

        Protect it like the store itself.
        """
        ...

    @endpoint(
        "POST",
        "/sessions/{origin}/fork",
        scope="run",
        status=201,
        problems=(404, 409, 413),
        body_schema=_ONE_PLACE,
        location="get",
    )
    async def fork(
        self,
        origin: SessionId,
        *,
        at: Annotated[
            int | None,
            Told("Start after this event; by default after the last.", ge=1, le=MOST_EVENTS),
        ] = None,
        before: Annotated[
            int | None,
            Told(
                "Start before the message of this event; not with `at`. There is nothing before "
                "the first.",
                ge=2,
                le=MOST_EVENTS,
            ),
        ] = None,
        session_id: NewSessionId = None,
    ) -> ForkedSession:
        """Start a new session from an earlier point of this session, which stays unchanged."""
        ...

    @endpoint("POST", "/sessions/{session_id}/rewind", scope="run", problems=(404, 409, 413))
    async def rewind(
        self,
        session_id: SessionId,
        to: Annotated[int, Told("The last event to keep.", ge=1, le=MOST_EVENTS)],
    ) -> Rewind:
        """Rewind a session to an earlier event; its history is kept, with a note of the rewind.

        Open questions to people and agents are withdrawn. Side effects of tools are not rolled
        back.
        """
        ...


class CalledSessions(Called):
    """`SessionsApi` for synchronous code."""

    list = lists(SessionsApi.list)
    search = lists(SessionsApi.search)
    import_ = calls(SessionsApi.import_)
    prune = calls(SessionsApi.prune)
    get = calls(SessionsApi.get)
    delete = calls(SessionsApi.delete)
    events = lists(SessionsApi.events)
    items = lists(SessionsApi.items)
    chain = calls(SessionsApi.chain)
    export = calls(SessionsApi.export)
    fork = calls(SessionsApi.fork)
    rewind = calls(SessionsApi.rewind)
