"""Sessions: conversations, their events and states, and operations on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, Protocol, TypeAlias

from ekiden.api.methods.called import Called, calls, lists
from ekiden.api.methods.endpoint import Param, SessionId, endpoint, filter_by, identifier
from ekiden.api.methods.values import MOST_EVENTS, PLAIN, SESSION_ID, Moment, Pages
from ekiden.core.documents import Value, left_out, to_json
from ekiden.core.events import Event, EventType
from ekiden.core.runs import Conclusion
from ekiden.runtime.history.deletion import Pruned
from ekiden.runtime.history.fork import Rewind
from ekiden.runtime.history.requests import RecordedRequest
from ekiden.sessions.search import SessionHit
from ekiden.storage.base import SessionStatus

OutcomeName: TypeAlias = Literal["done", "waiting", "refused", "failed", "out_of_budget"]
NewSessionId: TypeAlias = Annotated[
    str | None, identifier("The id of the new session. Default: a new id.")
]
_CURSOR: Final = r"^[0-9]{1,9}$"
_PRUNE_BODY: Final = {
    "description": "What may be deleted; without `older_than` and `keep`, as in the setting "
    "`retention`"
}
_FORK_BODY: Final = {
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
    """The current agent of the session."""
    status: SessionStatus
    outcome: OutcomeName | None
    """The outcome of the last run of the session; `null` until this run has ended."""
    conclusion: Conclusion | None
    """How well the last run went; `null` until this run has ended, and for answers that were given
    before the store kept conclusions."""
    user_id: str | None
    priority: int
    """The priority: 1 is low, 2 normal, 3 high, and 4 urgent."""
    meta: Mapping[str, Any]
    events: int
    """The number of events of the session."""
    owner: str | None
    """The id of the process that runs the session now; `null` if no process does."""
    created_at: float
    """When the session was created, in seconds since 1970."""
    updated_at: float
    state: SessionState
    """`working`: a process works on the session, or will work on it. `waiting_agent`: the session
    waits for an agent. `waiting_person`: the session waits for a person. `failed`: the last run
    failed or ran out of budget. `idle`: the session waits for the next message."""
    title: str | None
    run_id: str | None
    """The id of the last run; `null` before the first run."""
    waiting_for: Sequence[str]
    """The agents or people (as `person:ROLE`) that the session waits for."""


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
    """An event of a session. Empty fields are left out."""

    event_id: str
    """The unique id of the event: the session id, a `/` and the number of the event. Events without
    a session have the ids `/1`, `/2` and so on."""
    event_type: EventType
    """The type of the event. In Python, the field is `Event.type`."""
    timestamp: float
    """The time in seconds since 1970. In Python, `Event.at_us` has the time in microseconds."""
    session_id: str
    """The session's id. It is empty for events without a session."""
    seq: int
    """The number of the event in its session. Numbers start at 1 and have no gaps."""
    agent_name: str | None = left_out()
    """The agent that had the conversation at the time of the event. In Python, the field is
    `Event.agent`."""
    step: str | None = left_out()
    """The key of the step that was recorded. Each key is recorded only once."""
    duration_ms: float | None = left_out()
    """The duration in milliseconds. In Python, `Event.duration_us` has the duration in
    microseconds."""
    details: Mapping[str, Any] | None = left_out()
    """Details that depend on the event type."""
    items: Sequence[Mapping[str, Any]] | None = left_out()
    """The items that the event added to the conversation."""
    error: str | None = left_out()
    """The error text, if there was an error."""
    made_by: str | None = left_out()
    """The version of the agent that made the event, for model calls, tool calls, handoffs,
    approvals and routing. In a model call, `/` and the digest of the shared parts of its request
    follow."""

    @property
    def event(self) -> Event:
        """The stored event."""
        return Event.from_json(to_json(self))


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionChain(Value):
    """The agents that handled a session, and its handoffs."""

    session_id: str
    chain: Sequence[str]
    """All agents that handled the session, starting with `user`."""
    handoffs: Sequence[Mapping[str, Any]]
    waiting_for: str | None = left_out()
    """The answer or event that the session waits for. The field is left out if the session does not
    wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkedSession(Value):
    """A session that was forked from another session."""

    session_id: str
    forked_from: str
    forked_at: int
    agent: str
    events: int
    unfinished: bool
    """Whether the run of the new session can be resumed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedSession(Value):
    """An imported session."""

    session_id: str
    agent: str
    user_id: str | None
    events: int


class SessionsApi(Protocol):
    """The sessions of a store. A session is a conversation, and is kept until it is deleted."""

    @endpoint("GET", "/sessions", scope="read")
    def list(
        self,
        *,
        state: Annotated[
            Sequence[SessionState],
            Param("Only sessions in this state. You can repeat this parameter.", max_length=5),
        ] = (),
        agent: Annotated[
            str | None, filter_by("Only sessions that this agent handles now.")
        ] = None,
        user: Annotated[
            str | None, filter_by("Only sessions of this user.", max_length=500)
        ] = None,
        outcome: Annotated[
            OutcomeName | None, Param("Only sessions whose last run ended with this outcome.")
        ] = None,
        conclusion: Annotated[
            Conclusion | None, Param("Only sessions whose last run had this conclusion.")
        ] = None,
        text: Annotated[
            str | None,
            filter_by(
                "Only sessions whose title, id, user or agent contains this text. Case does not "
                "matter."
            ),
        ] = None,
    ) -> Pages[SessionSummary]:
        """List the sessions, newest first.

        With `state` or `text`, a page can be short or even empty although later pages have entries.
        Only the last page has no `next_cursor`.
        """
        ...

    @endpoint("GET", "/sessions/search", scope="read", is_whole=True)
    def search(
        self,
        q: Annotated[
            str,
            Param(
                "Words to search for in titles and messages.",
                max_length=1000,
                pattern=PLAIN,
                examples=("refund",),
            ),
        ],
        *,
        user: Annotated[
            str | None,
            Param("Only sessions of this user.", min_length=1, max_length=500, pattern=PLAIN),
        ] = None,
        limit: Annotated[int, Param("The maximum number of entries.", ge=1, le=1000)] = 20,
    ) -> Pages[SessionHit]:
        """Search sessions by title and content, best match first.

        There is only one page. Use a higher `limit` for more results.
        """
        ...

    @endpoint(
        "POST", "/sessions/import", scope="admin", status=201, problems=(409, 413), location="get"
    )
    async def import_(
        self,
        document: Annotated[
            Mapping[str, Any] | bytes,
            Param(
                "The export of a session. JSON is parsed strictly, as in all requests. With "
                "`application/octet-stream`, the document may also contain lone surrogates, which "
                "models sometimes produce.",
                is_body=True,
            ),
        ],
        *,
        id: Annotated[
            str | None,
            Param(
                "A new id for the session. Default: the id in the document.",
                min_length=1,
                max_length=128,
                pattern=SESSION_ID,
                in_query=True,
            ),
        ] = None,
        user: Annotated[
            str | None,
            Param(
                "The user of the session. Default: the user in the document.",
                min_length=1,
                max_length=500,
                pattern=PLAIN,
                in_query=True,
            ),
        ] = None,
    ) -> ImportedSession:
        """Store an exported session. If its run was not finished, you can resume it.

        User variables are not imported: the session uses the variables of its user in this store.
        Earlier approvals are not valid: Ekiden asks for them again. A document that was not written
        by an export is refused.
        """
        ...

    @endpoint("POST", "/sessions/prune", scope="admin", problems=(413,), body_schema=_PRUNE_BODY)
    async def prune(
        self,
        *,
        older_than: Annotated[
            Moment | None, Param("Delete sessions that had no event since this time.")
        ] = None,
        keep: Annotated[
            int | None,
            Param(
                "The number of sessions to keep. Older sessions are deleted.", ge=0, le=MOST_EVENTS
            ),
        ] = None,
        user: Annotated[
            str | None,
            Param("Only sessions of this user.", min_length=1, max_length=500, pattern=PLAIN),
        ] = None,
        status: Annotated[
            Sequence[SessionStatus],
            Param("Besides idle sessions, also delete sessions in these states.", max_length=3),
        ] = (),
        dry_run: Annotated[bool, Param("Only report what would be deleted.")] = False,
    ) -> Pruned:
        """Delete old sessions. With an age limit, finished messages and closed inbox items of that
        age are also deleted.

        Without `older_than` and `keep`, the setting `retention` applies.
        """
        ...

    @endpoint("GET", "/sessions/{session_id}", scope="read", problems=(404,))
    async def get(self, session_id: SessionId) -> SessionDetails:
        """Get a session with its conversation."""
        ...

    @endpoint("DELETE", "/sessions/{session_id}", scope="admin", status=204, problems=(404, 409))
    async def delete(self, session_id: SessionId) -> None:
        """Delete a session with all its events.

        The session's open questions to people and agents are withdrawn. Agents that wait for an
        answer from this session are notified.
        """
        ...

    @endpoint("GET", "/sessions/{session_id}/events", scope="read", problems=(404,), cursor=_CURSOR)
    def events(
        self,
        session_id: SessionId,
        *,
        after: Annotated[
            int, Param("Only events after the event with this number.", ge=0, le=MOST_EVENTS)
        ] = 0,
        types: Annotated[
            Sequence[EventType],
            Param("Only events of this type. You can repeat this parameter.", max_length=20),
        ] = (),
    ) -> Pages[SessionEvent]:
        """List the events of a session, in order."""
        ...

    @endpoint("GET", "/sessions/{session_id}/events/{seq}/request", scope="read", problems=(404,))
    async def request(
        self,
        session_id: SessionId,
        seq: Annotated[
            int, Param("The number of the event of a model call.", ge=1, le=MOST_EVENTS)
        ],
    ) -> RecordedRequest:
        """Get the request of a model call, exactly as it was sent to the model: instructions, items
        of the conversation, tools, settings and the format of the answer.

        A run that hides its content in traces does not record its requests.
        """
        ...

    @endpoint("GET", "/sessions/{session_id}/items", scope="read", problems=(404,), cursor=_CURSOR)
    def items(self, session_id: SessionId) -> Pages[Mapping[str, Any]]:
        """List the items of the conversation, in order, in the format of the OpenAI Responses
        API."""
        ...

    @endpoint("GET", "/sessions/{session_id}/chain", scope="read", problems=(404,))
    async def chain(self, session_id: SessionId) -> SessionChain:
        """Get the agents that handled a session, and its handoffs with their reasons."""
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

        The document contains everything that the session stored, so protect it like the store.
        """
        ...

    @endpoint(
        "POST",
        "/sessions/{origin}/fork",
        scope="run",
        status=201,
        problems=(404, 409, 413),
        body_schema=_FORK_BODY,
        location="get",
    )
    async def fork(
        self,
        origin: SessionId,
        *,
        at: Annotated[
            int | None,
            Param(
                "Copy up to and including the event with this number. Default: the last event.",
                ge=1,
                le=MOST_EVENTS,
            ),
        ] = None,
        before: Annotated[
            int | None,
            Param(
                "Copy up to the message with this event number, without that message. Do not "
                "combine it with `at`.",
                ge=2,
                le=MOST_EVENTS,
            ),
        ] = None,
        session_id: NewSessionId = None,
    ) -> ForkedSession:
        """Create a new session with a copy of this session up to an earlier point. This session is
        not changed."""
        ...

    @endpoint("POST", "/sessions/{session_id}/rewind", scope="run", problems=(404, 409, 413))
    async def rewind(
        self,
        session_id: SessionId,
        to: Annotated[int, Param("The number of the last event to keep.", ge=1, le=MOST_EVENTS)],
    ) -> Rewind:
        """Rewind a session to an earlier event. All events stay in the history, and the rewind is
        recorded as a new event.

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
    request = calls(SessionsApi.request)
    items = lists(SessionsApi.items)
    chain = calls(SessionsApi.chain)
    export = calls(SessionsApi.export)
    fork = calls(SessionsApi.fork)
    rewind = calls(SessionsApi.rewind)


SessionState: TypeAlias = Literal["working", "waiting_agent", "waiting_person", "failed", "idle"]
"""`working`: a process works on the session, or will work on it. `waiting_agent`: the session waits
for an agent. `waiting_person`: the session waits for a person. `failed`: the last run failed or ran
out of budget. `idle`: the session waits for the next message."""
