"""Keys of callers; all of it needs one with the scope ``admin`` of the main tenant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from ekiden.client.modes import M, Resource, answers, given, lists
from ekiden.client.paths import part
from ekiden.client.streams import Listing
from ekiden.client.values import Value


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey(Value):
    """A key, without its secret."""

    id: str
    name: str = ""
    tenant: str = ""
    scopes: tuple[str, ...] = ()
    status: str = ""
    expires_at: float | None = None
    last_used_at: float | None = None

    @classmethod
    def _read(cls, raw: Mapping[str, Any]) -> dict[str, Any]:
        return {"scopes": tuple(raw.get("scopes") or ())}


@dataclass(frozen=True, slots=True, kw_only=True)
class NewApiKey(ApiKey):
    """A key that was just made."""

    key: str = field(repr=False)
    """Its text, which is told once."""


class Keys(Resource[M]):
    """Who may call the server."""

    @lists
    def list(self, *, tenant: str | None = None) -> Listing[ApiKey]:
        """The keys, also those that are revoked, the oldest first."""
        return Listing(path="/keys", params=given(tenant=tenant), parse=ApiKey.of)

    @answers
    async def create(
        self,
        name: str,
        *,
        scopes: Sequence[Literal["read", "run", "answer", "admin"]],
        tenant: str | None = None,
        expires_s: float | None = None,
    ) -> NewApiKey:
        """Make a key. It is asked for once: if the answer is lost, so is the key; revoke it."""
        body = given(name=name, scopes=[*scopes], tenant=tenant, expires_s=expires_s)
        return NewApiKey.of(await self._wire.ask("POST", "/keys", body=body, once=True))

    @answers
    async def revoke(self, key_id: str) -> ApiKey:
        """Make a key useless, for ever."""
        return ApiKey.of(await self._wire.ask("DELETE", f"/keys/{part(key_id)}"))
