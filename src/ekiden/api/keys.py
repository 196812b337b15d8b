"""API keys: callers of the server, their tenant, and their scopes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal, Protocol, TypeAlias

from ekiden.api.called import Called, calls, lists
from ekiden.api.endpoint import Scope, Told, endpoint
from ekiden.api.values import KEY_NAME, PLAIN, TENANT, Pages
from ekiden.core.documents import Value

KeyStatus: TypeAlias = Literal["active", "expired", "revoked"]
KeyId: TypeAlias = Annotated[
    str, Told("The public part of the key, as in the list.", pattern=r"^[a-z0-9]{8}$")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey(Value):
    """A key without its secret."""

    id: str
    """Its public part."""
    name: str
    """Its owner."""
    tenant: str
    """The tenant whose sessions it sees."""
    scopes: Sequence[Scope]
    """What it may do."""
    status: KeyStatus
    created_at: float
    """Seconds since 1970."""
    expires_at: float | None
    """`null`: valid until revoked."""
    last_used_at: float | None
    """Approximate."""
    revoked_at: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewApiKey(ApiKey):
    """A new key."""

    key: str = field(repr=False)
    """The text that callers send; it is not stored and not shown again."""


class Keys(Protocol):
    """The keys of all tenants; only administrators of the main tenant manage them."""

    @endpoint("GET", "/keys", scope="admin", problems=(404,), cursor=r"^[a-z0-9]{8}$")
    def list(
        self,
        *,
        tenant: Annotated[
            str | None, Told("Only keys of this tenant.", max_length=63, pattern=PLAIN)
        ] = None,
    ) -> Pages[ApiKey]:
        """List the keys, including revoked ones, oldest first; without secrets."""
        ...

    @endpoint("POST", "/keys", scope="admin", status=201, problems=(409, 413), is_secret=True)
    async def create(
        self,
        name: Annotated[str, Told("Its owner.", min_length=1, max_length=100, pattern=KEY_NAME)],
        *,
        scopes: Annotated[Sequence[Scope], Told("What it may do.", min_length=1, max_length=5)],
        tenant: Annotated[
            str,
            Told("The tenant whose sessions it sees.", min_length=1, max_length=32, pattern=TENANT),
        ] = "default",
        expires_s: Annotated[float | None, Told("How long it is valid.", gt=0, le=1e9)] = None,
    ) -> NewApiKey:
        """Create a key. Only this response contains its text.

        The request cannot be repeated: if the response is lost, revoke the key. Once a server has a
        key, every caller needs one.
        """
        ...

    @endpoint("DELETE", "/keys/{key_id}", scope="admin", problems=(404,))
    async def revoke(self, key_id: KeyId) -> ApiKey:
        """Revoke a key for good; other servers refuse it within a second."""
        ...


class CalledKeys(Called):
    """`Keys` for synchronous code."""

    list = lists(Keys.list)
    create = calls(Keys.create)
    revoke = calls(Keys.revoke)
