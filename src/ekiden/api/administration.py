"""Administration: API keys, settings, workers, and replicas of sessions. Settings contain details
of the machine: paths, addresses, commands of MCP servers. So a server shows the settings only to
administrators of the main tenant, with secrets masked. To change the settings, run `ekiden config`
on the machine itself.
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
    """Seconds since 1970."""
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
    """The current settings; secrets are masked."""

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
