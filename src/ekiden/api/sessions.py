"""Sessions: conversations, what happened in them, and what can be done with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, Protocol, TypeAlias

from ekiden.api.called import Called, calls, lists
from ekiden.api.endpoint import Told, endpoint
from ekiden.api.pages import Pages
from ekiden.api.session_states import SessionState
from ekiden.api.state import SessionId
from ekiden.api.texts import MOST_EVENTS, PLAIN, SESSION_ID, Moment
from ekiden.core.events import Event, EventType
from ekiden.core.values.documents import Value, left_out, to_json
from ekiden.runtime.history.retention import Pruned
from ekiden.runtime.history.rewind import Rewind
from ekiden.sessions.search import SessionHit
from ekiden.storage.base import SessionStatus

OutcomeName: TypeAlias = Literal["done", "waiting", "refused", "failed", "out_of_budget"]
NewSessionId: TypeAlias = Annotated[
    str | None, Told("The new session's id.", min_length=1, max_length=128, pattern=SESSION_ID)
]
_PLACE: Final = r"^[0-9]{1,9}$"
_WHAT_MAY_GO: Final = {
    "description": "What may go; without `older_than` and `keep`, as the setting `retention` says"
}
_ONE_PLACE: Final = {
    "anyOf": [
        {"properties": {"at": {"type": "null"}}},
        {"properties": {"before": {"type": "null"}}},
    ]
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSummary(Value):
    """A session without what was said in it."""

    session_id: str
    agent: str
    """Who has it."""
    status: SessionStatus
    outcome: OutcomeName | None
    """How its last run ended."""
    user_id: str | None
    priority: int
    """1 low, 2 normal, 3 high, 4 urgent."""
    meta: Mapping[str, Any]
    events: int
    """How many there are."""
    owner: str | None
    """The process that runs it now."""
    created_at: float
    """Seconds since 1970."""
    updated_at: float
    state: SessionState
    """`working`: somebody works on it, or will; `waiting_agent`, `waiting_person`: it asked them;
    `failed`: its last run failed or ran out of its budget; `idle`: nothing to do until somebody
    writes."""
    title: str | None
    run_id: str | None
    """Its last run; `null` before the first."""
    waiting_for: Sequence[str]
    """Whom it asked and waits for: agents, or people as `person:ROLE`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionDetails(SessionSummary):
    """A session with its conversation."""

    variables: Mapping[str, Any]
    items: Sequence[Mapping[str, Any]]
    """What was said, as the OpenAI Responses API has it."""
    handoffs: Sequence[Mapping[str, Any]]
    metadata: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionEvent(Value):
    """Something that happened; what is empty is left out."""

    event_id: str
    event_type: EventType
    timestamp: float
    """Seconds since 1970."""
    session_id: str
    seq: int
    """1, 2, 3 … in its session, without gaps."""
    agent_name: str | None = left_out()
    step: str | None = left_out()
    duration_ms: float | None = left_out()
    details: Mapping[str, Any] | None = left_out()
    items: Sequence[Mapping[str, Any]] | None = left_out()
    """What it said."""
    error: str | None = left_out()

    @property
    def event(self) -> Event:
        """As it is stored."""
        return Event.from_json(to_json(self))


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionChain(Value):
    """Who had a session, and each handoff."""

    session_id: str
    chain: Sequence[str]
    """Everyone who had it, beginning with `user`."""
    handoffs: Sequence[Mapping[str, Any]]
    waiting_for: str | None = left_out()
    """Left out if it does not wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkedSession(Value):
    """A session that was branched off another."""

    session_id: str
    forked_from: str
    forked_at: int
    agent: str
    events: int
    unfinished: bool
    """Whether its run can be resumed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedSession(Value):
    """A session that was taken over."""

    session_id: str
    agent: str
    user_id: str | None
    events: int


class Sessions(Protocol):
    """Conversations, of which each is kept until somebody removes it."""

    @endpoint("GET", "/sessions", scope="read")
    def list(
        self,
        *,
        state: Annotated[
            Sequence[SessionState],
            Told("Only those in this state; may be given more than once.", max_length=5),
        ] = (),
        agent: Annotated[
            str | None, Told("Only those that this agent has.", max_length=200, pattern=PLAIN)
        ] = None,
        user: Annotated[
            str | None, Told("Only those of this user.", max_length=500, pattern=PLAIN)
        ] = None,
        outcome: Annotated[OutcomeName | None, Told("Only those whose last run ended so.")] = None,
        text: Annotated[
            str | None,
            Told(
                "Only those with this in their title, id, user or agent, whatever the case.",
                max_length=200,
                pattern=PLAIN,
            ),
        ] = None,
    ) -> Pages[SessionSummary]:
        """List the sessions, newest first.

        With `state` or `text`, a page that had to look at very many sessions may be short or empty:
        there is more as long as there is a `next_cursor`.
        """
        ...

    @endpoint("GET", "/sessions/search", scope="read", is_whole=True)
    def search(
        self,
        q: Annotated[
            str,
            Told(
                "Words of a title, or of what was said.",
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
        limit: Annotated[int, Told("How many at most.", ge=1, le=1000)] = 20,
    ) -> Pages[SessionHit]:
        """Find sessions by their titles and by what was said in them, the best first.

        There is one page: ask for more at once with `limit`.
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
                "What the export of a session gave. JSON is read strictly, as everywhere; with "
                "`application/octet-stream` the document is taken as it is, so that also what "
                "holds half characters, as models produce them now and then, is taken over.",
                is_body=True,
            ),
        ],
        *,
        id: Annotated[
            str | None,
            Told(
                "Another id than the session has.",
                min_length=1,
                max_length=128,
                pattern=SESSION_ID,
                in_query=True,
            ),
        ] = None,
        user: Annotated[
            str | None,
            Told(
                "Whose it becomes; the one that the document names by default.",
                min_length=1,
                max_length=500,
                pattern=PLAIN,
                in_query=True,
            ),
        ] = None,
    ) -> ImportedSession:
        """Store a session that was exported; a run that was under way can be resumed.

        It reads the variables of its user. What people allowed is asked again. Nothing of the
        document is trusted: one that no export wrote is refused as a whole.
        """
        ...

    @endpoint("POST", "/sessions/prune", scope="admin", problems=(413,), body_schema=_WHAT_MAY_GO)
    async def prune(
        self,
        *,
        older_than: Annotated[
            Moment | None, Told("Sessions that nothing happened in since then.")
        ] = None,
        keep: Annotated[
            int | None, Told("All but so many, the newest.", ge=0, le=MOST_EVENTS)
        ] = None,
        user: Annotated[
            str | None,
            Told("Only sessions of this user.", min_length=1, max_length=500, pattern=PLAIN),
        ] = None,
        status: Annotated[
            Sequence[SessionStatus],
            Told("Also those in this state; only idle ones by default.", max_length=3),
        ] = (),
        dry_run: Annotated[bool, Told("Only tell what would go.")] = False,
    ) -> Pruned:
        """Remove old sessions; by age, settled messages and closed questions to people go, too.

        Without `older_than` and `keep` it is as the setting `retention` says.
        """
        ...

    @endpoint("GET", "/sessions/{session_id}", scope="read", problems=(404,))
    async def get(self, session_id: SessionId) -> SessionDetails:
        """A session with its conversation."""
        ...

    @endpoint("DELETE", "/sessions/{session_id}", scope="admin", status=204, problems=(404, 409))
    async def delete(self, session_id: SessionId) -> None:
        """Remove a session with everything that was said in it.

        What it asks people and agents is withdrawn, and who waits for its answer is told.
        """
        ...

    @endpoint("GET", "/sessions/{session_id}/events", scope="read", problems=(404,), cursor=_PLACE)
    def events(
        self,
        session_id: SessionId,
        *,
        after: Annotated[int, Told("Only events with a higher number.", ge=0, le=MOST_EVENTS)] = 0,
        types: Annotated[
            Sequence[EventType], Told("Only these; may be given more than once.", max_length=20)
        ] = (),
    ) -> Pages[SessionEvent]:
        """What happened in a session, in order."""
        ...

    @endpoint("GET", "/sessions/{session_id}/items", scope="read", problems=(404,), cursor=_PLACE)
    def items(self, session_id: SessionId) -> Pages[Mapping[str, Any]]:
        """The conversation as it stands, in order, as the OpenAI Responses API has its items."""
        ...

    @endpoint("GET", "/sessions/{session_id}/chain", scope="read", problems=(404,))
    async def chain(self, session_id: SessionId) -> SessionChain:
        """Who handed a session to whom, and why."""
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
        """A session with all its events, as a document that can be imported.

        Keep it as safe as the store itself.
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
            Told("After this event; by default after the last.", ge=1, le=MOST_EVENTS),
        ] = None,
        before: Annotated[
            int | None,
            Told(
                "Before the message of this event; not with `at`. Before the first there is "
                "nothing.",
                ge=2,
                le=MOST_EVENTS,
            ),
        ] = None,
        session_id: NewSessionId = None,
    ) -> ForkedSession:
        """Begin a new session that goes on from an earlier point of this one, which stays."""
        ...

    @endpoint("POST", "/sessions/{session_id}/rewind", scope="run", problems=(404, 409, 413))
    async def rewind(
        self,
        session_id: SessionId,
        to: Annotated[
            int, Told("The event after which the session is to stand.", ge=1, le=MOST_EVENTS)
        ],
    ) -> Rewind:
        """Take a session back to an earlier event; its history stays, and tells so.

        What it asked people and agents is withdrawn. What tools did outside is not undone.
        """
        ...


class CalledSessions(Called):
    """`Sessions`, called."""

    list = lists(Sessions.list)
    search = lists(Sessions.search)
    import_ = calls(Sessions.import_)
    prune = calls(Sessions.prune)
    get = calls(Sessions.get)
    delete = calls(Sessions.delete)
    events = lists(Sessions.events)
    items = lists(Sessions.items)
    chain = calls(Sessions.chain)
    export = calls(Sessions.export)
    fork = calls(Sessions.fork)
    rewind = calls(Sessions.rewind)
