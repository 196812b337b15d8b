"""Administration: API keys, settings, workers, and replicas of sessions.

Settings describe the machine: paths, addresses, commands of MCP servers. So a server shows them
only to administrators of the main tenant, with secrets masked. Change them with the command `ekiden
config`, on the machine itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal, Protocol, TypeAlias

from ekiden.api.methods.called import Called, calls, lists
from ekiden.api.methods.endpoint import Param, Scope, endpoint
from ekiden.api.methods.values import ADDRESSED, KEY_NAME, PLAIN, TENANT, Pages
from ekiden.core.documents import Value
from ekiden.engine.registry import Unserved, WorkerRecord
from ekiden.project.settings import SettingEntry
from ekiden.sessions.replica.progress import ReplicaStatus

KeyStatus: TypeAlias = Literal["active", "expired", "revoked"]
KeyId: TypeAlias = Annotated[
    str, Param("The public part of the key, as in the list.", pattern=r"^[a-z0-9]{8}$")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey(Value):
    """A key without its secret."""

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
    """Seconds since 1970."""
    expires_at: float | None
    """When the key expires. `null`: the key does not expire."""
    last_used_at: float | None
    """Approximate."""
    revoked_at: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewApiKey(ApiKey):
    """A new key."""

    key: str = field(repr=False)
    """The secret text that callers send. It is not stored, and not shown again."""


class KeysApi(Protocol):
    """The keys of all tenants; only administrators of the main tenant manage them."""

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

        The request cannot be repeated: if the response is lost, revoke the key. As soon as one key
        exists, every caller of the server needs a key.
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
    """The current settings; secrets are masked."""

    @endpoint("GET", "/settings", scope="admin", problems=(404,), is_whole=True)
    def list(self) -> Pages[SettingEntry]:
        """List every setting with its value and source. There is only one page."""
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
    """The workers, and agents without a worker."""

    workers: Sequence[WorkerRecord]
    unserved: Sequence[Unserved]


class WorkersApi(Protocol):
    """The workers of a store."""

    @endpoint("GET", "/workers", scope="read")
    async def list(self) -> WorkerOverview:
        """List the tenant's workers, and agents with ready sessions but no worker."""
        ...


class CalledWorkers(Called):
    """`WorkersApi` for synchronous code."""

    list = calls(WorkersApi.list)


class ReplicasApi(Protocol):
    """Copies of sessions in other systems."""

    @endpoint("GET", "/mirror", scope="read", problems=(404,))
    async def status(self) -> ReplicaStatus:
        """Get the replication progress. The server does not contact the mirror."""
        ...


class CalledReplicas(Called):
    """`ReplicasApi` for synchronous code."""

    status = calls(ReplicasApi.status)
