"""Keys: who may call the server, as which tenant, and for what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal, Protocol, TypeAlias

from ekiden.api.called import Called, calls, lists
from ekiden.api.endpoint import Scope, Told, endpoint
from ekiden.api.pages import Pages
from ekiden.api.texts import KEY_NAME, PLAIN, TENANT
from ekiden.core.values.documents import Value

KeyStatus: TypeAlias = Literal["active", "expired", "revoked"]
KeyId: TypeAlias = Annotated[
    str, Told("The key's public part, as it is listed.", pattern=r"^[a-z0-9]{8}$")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey(Value):
    """A key without its secret."""

    id: str
    """Its public part."""
    name: str
    """Who has it."""
    tenant: str
    """Whose sessions it sees."""
    scopes: Sequence[Scope]
    """What it may do."""
    status: KeyStatus
    created_at: float
    """Seconds since 1970."""
    expires_at: float | None
    """`null`: it is good until it is revoked."""
    last_used_at: float | None
    """About when."""
    revoked_at: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewApiKey(ApiKey):
    """A key that was just made."""

    key: str = field(repr=False)
    """What callers send; it is stored nowhere and not shown again."""


class Keys(Protocol):
    """The keys of all tenants; only administrators of the main one look after them."""

    @endpoint("GET", "/keys", scope="admin", problems=(404,), cursor=r"^[a-z0-9]{8}$")
    def list(
        self,
        *,
        tenant: Annotated[
            str | None, Told("Only those of this tenant.", max_length=63, pattern=PLAIN)
        ] = None,
    ) -> Pages[ApiKey]:
        """List the keys, also those that are revoked, the oldest first; secrets are not in it."""
        ...

    @endpoint("POST", "/keys", scope="admin", status=201, problems=(409, 413), is_secret=True)
    async def create(
        self,
        name: Annotated[str, Told("Who has it.", min_length=1, max_length=100, pattern=KEY_NAME)],
        *,
        scopes: Annotated[Sequence[Scope], Told("What it may do.", min_length=1, max_length=5)],
        tenant: Annotated[
            str,
            Told("Whose sessions it sees.", min_length=1, max_length=32, pattern=TENANT),
        ] = "default",
        expires_s: Annotated[float | None, Told("Good for so long.", gt=0, le=1e9)] = None,
    ) -> NewApiKey:
        """Make a key. Its text is in this answer, and nowhere else.

        So it is asked for once: if the answer is lost, so is the key; revoke it. With the first key
        of a server nobody calls it without one any more.
        """
        ...

    @endpoint("DELETE", "/keys/{key_id}", scope="admin", problems=(404,))
    async def revoke(self, key_id: KeyId) -> ApiKey:
        """Make a key useless, for ever; other servers know it after a second."""
        ...


class CalledKeys(Called):
    """`Keys`, called."""

    list = lists(Keys.list)
    create = calls(Keys.create)
    revoke = calls(Keys.revoke)
