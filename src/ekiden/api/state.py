"""State and memory: variables of sessions, users and the app, and long-term memory of agents.

Every call names the owner of the memory: `user`, or `shared` for the memory of the whole app.
Because the key of a memory may be any text, requests have it in the query and not in the path.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Annotated, Any, Final, Literal, Protocol, TypeAlias

from ekiden.api.methods.called import AsyncStream, Called, calls, lists, streams
from ekiden.api.methods.endpoint import Param, SessionId, endpoint
from ekiden.api.methods.values import ADDRESSED, MEMORY_KEY, MOST_EVENTS, PLAIN, Pages
from ekiden.core.documents import Value
from ekiden.core.roles import FoundBy
from ekiden.core.values import dumps
from ekiden.memory.search import MAX_CONTENT, MAX_KEY, MAX_TOP_K
from ekiden.runtime.history.session_state import SharedVariable
from ekiden.sessions.state import MAX_NAME, MAX_VARIABLES, SessionState

UserName: TypeAlias = Annotated[
    str, Param("The user's id, as in sessions.", min_length=1, max_length=500, pattern=ADDRESSED)
]
AppName: TypeAlias = Annotated[
    str,
    Param("The app's name, as in the settings.", min_length=1, max_length=200, pattern=ADDRESSED),
]
VariableName: TypeAlias = Annotated[
    str, Param("", min_length=1, max_length=MAX_NAME, pattern=PLAIN)
]
NewValues: TypeAlias = Annotated[
    Mapping[VariableName, Any],
    Param("New values by name.", max_length=MAX_VARIABLES, examples=({"tier": "gold"},)),
]
Deleted: TypeAlias = Annotated[
    Sequence[VariableName],
    Param("Names of the variables to delete.", max_length=MAX_VARIABLES, is_unique=True),
]
By: TypeAlias = Annotated[
    str | None,
    Param(
        "The person who makes the change, if it is not the caller. This needs the scope `admin`.",
        min_length=1,
        max_length=200,
        pattern=PLAIN,
    ),
]
Expected: TypeAlias = Annotated[
    Mapping[VariableName, Annotated[int, Param("", ge=0)]],
    Param(
        "The versions that you read, by name; 0 for a variable that did not exist. If a version "
        "has changed, nothing is written, and the status is 412.",
        max_length=MAX_VARIABLES,
    ),
]
ExpectedVersion: TypeAlias = Annotated[
    int | Sequence[int] | None, Param("The version that was read.", if_match=True)
]

_NOTHING: Final[Mapping[str, Any]] = {}
_SOME_CHANGE: Final = {
    "anyOf": [
        {"required": ["set"], "properties": {"set": {"minProperties": 1}}},
        {"required": ["delete"], "properties": {"delete": {"minItems": 1}}},
    ]
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedState(Value):
    """The new version of a session's variables after a change."""

    session_id: str
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UserState(Value):
    """The variables of a user."""

    user: str
    variables: Mapping[str, SharedVariable]

    @property
    def version(self) -> int:
        """A version for all variables of the user together. It changes whenever a variable is
        written or deleted."""
        return version_of(self.variables)


@dataclass(frozen=True, slots=True, kw_only=True)
class AppState(Value):
    """The variables of the app."""

    app: str
    variables: Mapping[str, SharedVariable]

    @property
    def version(self) -> int:
        """A version for all variables of the app together. It changes whenever a variable is
        written or deleted."""
        return version_of(self.variables)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedUserState(Value):
    """The new versions of the user's variables. A deleted variable has version 0."""

    user: str
    versions: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedAppState(Value):
    """The new versions of the app's variables. A deleted variable has version 0."""

    app: str
    versions: Mapping[str, int]


class StateApi(Protocol):
    """Named variables of sessions, users and the app, with versions."""

    @endpoint(
        "GET",
        "/sessions/{session_id}/state",
        scope="read",
        problems=(404,),
        etag=lambda state, given: state.version if given["at"] is None else None,
    )
    async def session(
        self,
        session_id: SessionId,
        *,
        at: Annotated[
            int | None, Param("The state after this event.", ge=1, le=MOST_EVENTS)
        ] = None,
    ) -> SessionState:
        """Get a session's state, now or after an event. `ETag` is the current version of its
        variables."""
        ...

    @endpoint(
        "PATCH",
        "/sessions/{session_id}/state",
        scope="run",
        problems=(404, 409, 412, 413),
        body_schema=_SOME_CHANGE,
        etag=lambda state, given: state.version,
    )
    async def update_session(
        self,
        session_id: SessionId,
        set: NewValues = _NOTHING,
        *,
        delete: Deleted = (),
        by: By = None,
        on_busy: Annotated[
            Literal["refuse", "wait"], Param("What to do if a process is running the session.")
        ] = "refuse",
        expected_version: ExpectedVersion = None,
    ) -> ChangedState:
        """Set and delete variables of a session in one change. An event records the change.

        With `If-Match`, nothing is written if the variables have changed since you read them.
        """
        ...

    @endpoint(
        "GET", "/state/users/{user:path}", scope="read", etag=lambda state, given: state.version
    )
    async def user(self, user: UserName) -> UserState:
        """Get the variables of a user. An unknown user has no variables."""
        ...

    @endpoint(
        "PATCH",
        "/state/users/{user:path}",
        scope="run",
        problems=(412, 413),
        body_schema=_SOME_CHANGE,
    )
    async def update_user(
        self,
        user: UserName,
        set: NewValues = _NOTHING,
        *,
        delete: Deleted = (),
        by: By = None,
        expected: Expected = _NOTHING,
        expected_version: ExpectedVersion = None,
    ) -> ChangedUserState:
        """Set and delete variables of a user in one change.

        With `If-Match`, nothing is written if a variable has changed since you read them.
        """
        ...

    @endpoint(
        "GET",
        "/state/apps/{app:path}",
        scope="read",
        problems=(404,),
        etag=lambda state, given: state.version,
    )
    async def app(self, app: AppName) -> AppState:
        """Get the variables of the app, which all sessions share."""
        ...

    @endpoint(
        "PATCH",
        "/state/apps/{app:path}",
        scope="run",
        problems=(404, 412, 413),
        body_schema=_SOME_CHANGE,
    )
    async def update_app(
        self,
        app: AppName,
        set: NewValues = _NOTHING,
        *,
        delete: Deleted = (),
        by: By = None,
        expected: Expected = _NOTHING,
        expected_version: ExpectedVersion = None,
    ) -> ChangedAppState:
        """Set and delete variables of the app in one change. `If-Match` works as for the variables
        of users."""
        ...


class CalledState(Called):
    """`StateApi` for synchronous code."""

    session = calls(StateApi.session)
    update_session = calls(StateApi.update_session)
    user = calls(StateApi.user)
    update_user = calls(StateApi.update_user)
    app = calls(StateApi.app)
    update_app = calls(StateApi.update_app)


def version_of(variables: Mapping[str, SharedVariable]) -> int:
    """A digest of the versions of all variables. The digest changes whenever a variable changes."""
    versions = {name: variables[name].version for name in sorted(variables)}
    return int.from_bytes(sha256(dumps(versions).encode()).digest()[:7])


Owner: TypeAlias = Annotated[
    str | None,
    Param(
        "The user who owns the memories. Leave it out with `shared`.",
        min_length=1,
        max_length=500,
        pattern=PLAIN,
        examples=("u-17",),
        in_query=True,
    ),
]
Shared: TypeAlias = Annotated[
    bool,
    Param(
        "Use the memories that all users of the app share, instead of one user's memories.",
        in_query=True,
    ),
]
Key: TypeAlias = Annotated[
    str,
    Param(
        "The memory's key.",
        min_length=1,
        max_length=MAX_KEY,
        pattern=MEMORY_KEY,
        examples=("colour",),
        in_query=True,
    ),
]
Content: TypeAlias = Annotated[
    str,
    Param(
        "The text to remember.",
        min_length=1,
        max_length=MAX_CONTENT,
        examples=("Her favourite colour is blue.",),
    ),
]
Metadata: TypeAlias = Annotated[Mapping[str, Any] | None, Param("Metadata.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryEntry(Value):
    """A stored memory."""

    key: str
    content: str
    metadata: Mapping[str, Any]
    stored_at: float
    """Seconds since 1970."""
    agent: str | None
    """The agent that stored the memory. `null` if no agent of the team stored it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundMemory(MemoryEntry):
    """A search result."""

    score: float
    """The score of the match, from 0 to 1. Higher is better."""
    found_by: FoundBy | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundMemories(Value):
    """Search results, best match first."""

    items: Sequence[FoundMemory]
    next_cursor: str | None = None
    """Always `null`, because there is only one page."""
    notes: Sequence[str]
    """Notes for people about memories that could not be searched."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredMemory(Value):
    """The key of a stored memory."""

    key: str
    stored: Literal[True]


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgottenMemories(Value):
    """The number of deleted memories."""

    forgotten: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryDelivery(Value):
    """The changes that were sent to one back end."""

    backend: str
    delivered: int
    waiting: int
    problem: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryDeliveries(Value):
    """The changes that were sent to the external memory services."""

    items: Sequence[MemoryDelivery]
    next_cursor: str | None = None
    """Always `null`, because there is only one page."""


class MemoryApi(Protocol):
    """The memories of a user, or of the whole app. Every call needs exactly one of `user` and
    `shared`, and otherwise raises `RequestInvalid`."""

    @endpoint("GET", "/memory", scope="read", cursor=PLAIN)
    def list(self, *, user: Owner = None, shared: Shared = False) -> Pages[MemoryEntry]:
        """List memories, sorted by key."""
        ...

    @endpoint("POST", "/memory", scope="run", status=201, problems=(413,), location="get")
    async def store(
        self,
        content: Content,
        *,
        key: Annotated[
            str | None,
            Param(
                "The key of the memory. Default: a key made from the content.",
                min_length=1,
                max_length=MAX_KEY,
                pattern=MEMORY_KEY,
            ),
        ] = None,
        metadata: Metadata = None,
        user: Owner = None,
        shared: Shared = False,
    ) -> StoredMemory:
        """Store a memory. A memory with the same key is replaced."""
        ...

    @endpoint("DELETE", "/memory", scope="admin")
    async def clear(self, *, user: Owner = None, shared: Shared = False) -> ForgottenMemories:
        """Delete all memories of a user, or of the whole app."""
        ...

    @endpoint("GET", "/memory/entry", scope="read", problems=(404,))
    async def get(self, key: Key, *, user: Owner = None, shared: Shared = False) -> MemoryEntry:
        """Get one memory."""
        ...

    @endpoint("PUT", "/memory/entry", scope="run", problems=(413,))
    async def put(
        self,
        key: Key,
        content: Content,
        *,
        metadata: Metadata = None,
        user: Owner = None,
        shared: Shared = False,
    ) -> StoredMemory:
        """Store a memory under this key. An existing memory with this key is replaced."""
        ...

    @endpoint("DELETE", "/memory/entry", scope="run", status=204, problems=(404,))
    async def forget(self, key: Key, *, user: Owner = None, shared: Shared = False) -> None:
        """Delete one memory."""
        ...

    @endpoint("GET", "/memory/search", scope="read", problems=(502,))
    async def search(
        self,
        q: Annotated[
            str,
            Param("The text to search for.", max_length=4000, pattern=PLAIN, examples=("colour",)),
        ],
        *,
        user: Owner = None,
        shared: Shared = False,
        meaning: Annotated[
            bool,
            Param(
                "Also search by meaning, with the model in the setting `memory.embedding_model`."
            ),
        ] = False,
        limit: Annotated[
            int | None,
            Param(
                "The maximum number of results. Default: the setting `memory.top_k`.",
                ge=1,
                le=MAX_TOP_K,
            ),
        ] = None,
        threshold: Annotated[
            float | None,
            Param(
                (
                    "The lowest similarity of a result. Default: the setting "
                    "`memory.similarity_threshold`."
                ),
                ge=0,
                le=1,
            ),
        ] = None,
    ) -> FoundMemories:
        """Search memories, best match first. Agents use the same search in their tool `recall`.
        There is only one page."""
        ...

    @endpoint("GET", "/memory/export", scope="read", file="memory.jsonl")
    def export(self, *, user: Owner = None, shared: Shared = False) -> AsyncStream[MemoryEntry]:
        """Export all memories as JSON lines, sorted by key."""
        ...

    @endpoint("POST", "/memory/sync", scope="run")
    async def sync(self) -> MemoryDeliveries:
        """Send pending memory changes to the external memory services."""
        ...


class CalledMemory(Called):
    """`MemoryApi` for synchronous code."""

    list = lists(MemoryApi.list)
    store = calls(MemoryApi.store)
    clear = calls(MemoryApi.clear)
    get = calls(MemoryApi.get)
    put = calls(MemoryApi.put)
    forget = calls(MemoryApi.forget)
    search = calls(MemoryApi.search)
    export = streams(MemoryApi.export)
    sync = calls(MemoryApi.sync)
