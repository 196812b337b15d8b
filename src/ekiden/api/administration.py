"""Administration: API keys, settings, workers, replicas of sessions, and the audit.

Settings describe the machine: paths, addresses, commands of MCP servers. So a server shows them
only to administrators of the main tenant, with secrets masked. Change them with the command `ekiden
config`, on the machine itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Protocol, TypeAlias, TypedDict, Unpack

from ekiden.api.methods.called import AsyncStream, Called, calls, lists, streams
from ekiden.api.methods.endpoint import Param, Scope, endpoint, filter_by, identifier
from ekiden.api.methods.values import ADDRESSED, KEY_NAME, PLAIN, TENANT, Moment, Pages
from ekiden.audit.record import AuditActor, Fault
from ekiden.core.documents import Value, named
from ekiden.engine.registry import Unserved, WorkerRecord
from ekiden.project.settings import SettingEntry
from ekiden.sessions.replica_progress import ReplicaStatus

KeyStatus: TypeAlias = Literal["active", "expired", "revoked"]
KeyId: TypeAlias = Annotated[
    str, Param("The public part of the key, as in the list.", pattern=r"^[a-z0-9]{8}$")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey(Value):
    """An API key without its secret."""

    id: str
    """The public part of the key."""
    name: str
    """The owner of the key."""
    tenant: str
    """The tenant of the key. The key gives access only to this tenant's store."""
    scopes: Sequence[Scope]
    """The scopes of the key."""
    status: KeyStatus
    created_at: float
    """When the key was created, in seconds since 1970."""
    expires_at: float | None
    """The time at which the key expires, in seconds since 1970. `null` means that the key does not
    expire."""
    last_used_at: float | None
    """The approximate time of the last use, in seconds since 1970; `null` if the key was never
    used."""
    revoked_at: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewApiKey(ApiKey):
    """A new API key with its secret."""

    key: str = field(repr=False)
    """The secret text that callers send. The server does not store it, and does not show it
    again."""


class KeysApi(Protocol):
    """The API keys of all tenants. Only administrators of the main tenant can manage them."""

    @endpoint("GET", "/keys", scope="admin", problems=(404,), cursor=r"^[a-z0-9]{8}$")
    def list(
        self,
        *,
        tenant: Annotated[
            str | None, Param("Only keys of this tenant.", max_length=63, pattern=PLAIN)
        ] = None,
    ) -> Pages[ApiKey]:
        """List the API keys, oldest first, without their secrets. Revoked keys are included."""
        ...

    @endpoint("POST", "/keys", scope="admin", status=201, problems=(409, 413), is_secret=True)
    async def create(
        self,
        name: Annotated[
            str, Param("The owner of the key.", min_length=1, max_length=100, pattern=KEY_NAME)
        ],
        *,
        scopes: Annotated[
            Sequence[Scope], Param("The scopes of the key.", min_length=1, max_length=5)
        ],
        tenant: Annotated[
            str,
            Param(
                "The tenant of the key. The key gives access only to this tenant's store.",
                min_length=1,
                max_length=32,
                pattern=TENANT,
            ),
        ] = "default",
        expires_s: Annotated[
            float | None,
            Param(
                ("Seconds until the key expires. Default: the key does not expire."), gt=0, le=1e9
            ),
        ] = None,
    ) -> NewApiKey:
        """Create an API key. Only this response contains the secret text of the key.

        The secret text cannot be requested a second time: if the response is lost, revoke the key.
        As soon as one key exists, every caller of the server needs a key.
        """
        ...

    @endpoint("DELETE", "/keys/{key_id}", scope="admin", problems=(404,))
    async def revoke(self, key_id: KeyId) -> ApiKey:
        """Revoke an API key permanently. Other servers refuse the key after about one second."""
        ...


class CalledKeys(Called):
    """`KeysApi` for synchronous code."""

    list = lists(KeysApi.list)
    create = calls(KeysApi.create)
    revoke = calls(KeysApi.revoke)


class SettingsApi(Protocol):
    """The current settings. Secrets are masked."""

    @endpoint("GET", "/settings", scope="admin", problems=(404,), is_whole=True)
    def list(self) -> Pages[SettingEntry]:
        """List all settings with their values and sources. There is only one page."""
        ...

    @endpoint("GET", "/settings/{key:path}", scope="admin", problems=(404,))
    async def get(
        self,
        key: Annotated[
            str,
            Param(
                "The name of the setting, such as `agents.routing.strategy`.",
                min_length=1,
                max_length=300,
                pattern=ADDRESSED,
            ),
        ],
    ) -> SettingEntry:
        """Get one setting."""
        ...


class CalledSettings(Called):
    """`SettingsApi` for synchronous code."""

    list = lists(SettingsApi.list)
    get = calls(SettingsApi.get)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOverview(Value):
    """The workers of a tenant, and the agents whose ready sessions no worker can run."""

    workers: Sequence[WorkerRecord]
    unserved: Sequence[Unserved]


class WorkersApi(Protocol):
    """The workers of a store."""

    @endpoint("GET", "/workers", scope="read")
    async def list(self) -> WorkerOverview:
        """List the tenant's workers, and the agents whose ready sessions no worker can run."""
        ...


class CalledWorkers(Called):
    """`WorkersApi` for synchronous code."""

    list = calls(WorkersApi.list)


class ReplicasApi(Protocol):
    """The replicas of a store: copies of its sessions in other systems."""

    @endpoint("GET", "/mirror", scope="read", problems=(404,))
    async def status(self) -> ReplicaStatus:
        """Get the progress of the replication. The server does not contact the replica."""
        ...


class CalledReplicas(Called):
    """`ReplicasApi` for synchronous code."""

    status = calls(ReplicasApi.status)


AuditedType: TypeAlias = Literal["handoff", "route", "tool_confirmation", "inbox", "guardrail"]
HandoffMove: TypeAlias = Literal[
    "initiated", "validating", "transferring", "completed", "failed", "rolled_back"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry(Value):
    """One audit record: a status change of a handoff, a routing decision, an approval, a change of
    an inbox item, or a guardrail's result."""

    id: str
    timestamp: float
    """The time of the record, in seconds since 1970."""
    session_id: str
    type: Literal[AuditedType, "message"]
    """The type of the event. Records of the type `message` (questions between agents) are listed
    only if you filter by a task or a correlation id."""
    move: str | None
    """The new status of a handoff."""
    actor: AuditActor
    source: str | None = named("from")
    """The agent that had the work before."""
    target: str | None = named("to")
    """The agent that received the work, or would have received it."""
    handoff_id: str | None
    task_id: str
    correlation_id: str
    reason: str | None
    code: str | None
    """The code of the reason why a handoff was refused or rolled back."""
    error: str | None
    facts: Mapping[str, Any]
    """Further facts, such as the tool of an approval, the answer or the matching rule."""
    hash: str | None
    """The hash of the record. `null` in records of an earlier version."""
    previous: str | None
    """The hash of the previous audit record. It is empty for the first record of the session."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenRecord(Value):
    """The first altered record of a session."""

    record_id: str
    session_id: str
    fault: Fault
    message: str
    timestamp: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditVerification(Value):
    """The result of a verification."""

    ok: bool
    """Whether the verification found no broken link in the chain of hashes."""
    sessions: int
    chained: int
    not_chained: int
    events: int
    unhashed: int
    covered: int
    """The number of events whose stored data matches the stored digest, so the data is
    unchanged."""
    uncovered: int
    """The number of events without a digest, because an earlier version wrote them."""
    decisions: int
    """The number of closed inbox items that were not altered."""
    compared: int
    broken: int
    checked: Sequence[str]
    """A description of the checked data, for people."""
    not_checked: Sequence[str]
    """A description of the data that was not checked, for people."""
    first: BrokenRecord | None
    links: Sequence[BrokenRecord]
    """The first broken link of each session, sorted by time, at most 1,000."""


class AuditFilters(TypedDict, total=False):
    """Filters for audit records. A filter that is missing or `None` matches all records."""

    agent: Annotated[
        str | None,
        filter_by("Only records in which this agent is the actor, the source or the target."),
    ]
    task: Annotated[str | None, filter_by("Only records of this task.")]
    correlation: Annotated[str | None, filter_by("Only records with this correlation id.")]
    status: Annotated[
        HandoffMove | None, Param("Only records of handoffs that changed to this status.")
    ]
    session: Annotated[str | None, filter_by("Only records of this session.")]
    handoff: Annotated[str | None, filter_by("Only records of the handoff with this id.")]
    type: Annotated[AuditedType | None, Param("Only records of this type.")]
    since: Annotated[Moment | None, Param("Only entries since this time.")]
    until: Annotated[Moment | None, Param("Only entries before this time.")]
    text: Annotated[
        str | None,
        filter_by(
            "Only records whose agents, reason, error, code, ids or facts contain this text. Case "
            "does not matter."
        ),
    ]


class AuditApi(Protocol):
    """The audit records. They can be read and verified, but not changed."""

    @endpoint("GET", "/audit/records", scope="read")
    def list(
        self,
        *,
        oldest_first: Annotated[bool, Param("List the oldest records first.")] = False,
        **filters: Unpack[AuditFilters],
    ) -> Pages[AuditEntry]:
        """List the records of the audit log, newest first: handoffs and decisions, with their
        actors and reasons.

        With `text`, a page can be short or even empty although later pages have entries. Only the
        last page has no `next_cursor`.
        """
        ...

    @endpoint(
        "GET", "/audit/records/{record_id:path}", scope="read", problems=(404,), is_whole=True
    )
    def get(
        self,
        record_id: Annotated[
            str,
            Param(
                "The id of a record, `SESSION/NUMBER`, or of a handoff.",
                min_length=1,
                max_length=300,
                pattern=ADDRESSED,
            ),
        ],
    ) -> Pages[AuditEntry]:
        """Get a record, or all records of a handoff, oldest first."""
        ...

    @endpoint("POST", "/audit/verify", scope="read", problems=(404, 413, 504))
    async def verify(
        self,
        *,
        session_id: Annotated[str | None, identifier("Only this session.")] = None,
        against: Annotated[
            str | Iterable[str] | None,
            Param(
                "The text of an earlier export. Each record in it must still exist unchanged in "
                "the store.",
                max_length=100_000_000,
            ),
        ] = None,
        timeout_s: Annotated[
            float,
            Param("The timeout in seconds. After the timeout, the status is 504.", ge=1, le=600),
        ] = 55.0,
    ) -> AuditVerification:
        """Check that no stored record was altered, and report the first broken link.

        If the check takes longer than `timeout_s`, verify the sessions one by one, or use `ekiden
        audit verify`.
        """
        ...

    @endpoint("GET", "/audit/export", scope="read", file="audit.jsonl")
    def export(self, **filters: Unpack[AuditFilters]) -> AsyncStream[str]:
        """Export audit records as JSON lines, oldest first. The last line is the manifest, which
        has the number of records and their hashes.

        An export without a manifest is incomplete.
        """
        ...


class CalledAudit(Called):
    """`AuditApi` for synchronous code."""

    list = lists(AuditApi.list)
    get = lists(AuditApi.get)
    verify = calls(AuditApi.verify)
    export = streams(AuditApi.export)
