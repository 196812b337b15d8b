"""API keys and logins of the server's callers: their tenants and scopes."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import string
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias, get_args

from ekiden.core.errors import StaleDocument, UserError
from ekiden.core.errors.server import KeyNotFound
from ekiden.project.stores import DEFAULT_TENANT, check_tenant
from ekiden.storage.base import Document, DocumentWrite, Store, each_document

LOGINS: Final = "console_logins"
MAX_AGE_S: Final = 30 * 24 * 3600
_TOKEN_BYTES: Final = 32
KEYS: Final = "api_keys"
USES: Final = "api_key_uses"
"""The collection with the time of the last use of each key. It is separate from the keys, so that
storing a use does not conflict with a change of a key."""
_PREFIX_CHARS: Final = string.ascii_lowercase + string.digits
_SECRET_CHARS: Final = string.ascii_letters + string.digits
_PREFIX_LENGTH: Final = 8
_SECRET_LENGTH: Final = 40
_FORM: Final = re.compile(r"ek_([a-z0-9]{8})_([A-Za-z0-9]{32,80})", re.ASCII)
_ID: Final = re.compile(r"(?:ek_)?([a-z0-9]{8})(?:_[A-Za-z0-9]{0,80})?", re.ASCII)
_MAX_NAME: Final = 100


def login_id(token: str) -> str:
    """The id of a stored login. The id is a hash, so that the store does not contain the token."""
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()


class Logins:
    """The logins in the main store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def begin(self, key_id: str) -> str:
        """Create a login for the key, and return the token of the login. The token is not
        stored."""
        token = secrets.token_hex(_TOKEN_BYTES)
        expires_at_us = await self._store.now_us() + MAX_AGE_S * 1_000_000
        body = {"v": 1, "key_id": key_id, "expires_at_us": expires_at_us}
        write = DocumentWrite(collection=LOGINS, key=login_id(token), body=body)
        await self._store.write_documents([write])
        return token

    async def key_of(self, id: str) -> str | None:
        """The id of the login's key; `None` for an unknown, ended or expired login."""
        document = await self._store.get_document(LOGINS, id)
        if document is None or document.body["expires_at_us"] <= await self._store.now_us():
            return None
        return str(document.body["key_id"])

    async def end(self, id: str) -> None:
        """End the login."""
        await self._store.write_documents([DocumentWrite(collection=LOGINS, key=id, body=None)])

    async def prune(self) -> None:
        """Remove the expired logins."""
        now_us = await self._store.now_us()
        async for each in each_document(self._store, LOGINS):
            if each.body["expires_at_us"] <= now_us:
                await self.end(each.key)


Scope: TypeAlias = Literal["read", "run", "answer", "history", "admin"]
"""What a key may do. `read`: read all data of the tenant. `run`: start runs, make handoffs, change
sessions, state and memory. `answer`: answer inbox items. `history`: together with `run`, add system
messages, agents' answers and tool calls to a conversation. `admin`: everything, including deletion
and restore."""

SCOPES: Final[tuple[Scope, ...]] = get_args(Scope)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredKey:
    """A stored key, without its secret."""

    id: str
    """The id of the key: the public prefix of its text."""
    name: str
    tenant: str
    scopes: frozenset[Scope]
    created_at_us: int
    expires_at_us: int | None = None
    revoked_at_us: int | None = None
    digest: str = field(repr=False)
    """The hash of the secret."""

    def is_live(self, now_us: int) -> bool:
        """Whether the key is valid at this time."""
        return self.revoked_at_us is None and (
            self.expires_at_us is None or now_us < self.expires_at_us
        )

    def fits(self, secret: str) -> bool:
        """Whether the secret belongs to this key. The duration of the check does not depend on the
        secret."""
        return hmac.compare_digest(self.digest, _digest(secret))


@dataclass(frozen=True, slots=True, kw_only=True)
class NewKey:
    """A new key with its secret."""

    key: StoredKey
    text: str = field(repr=False)
    """The text of the key that callers send. The text is not stored, so this object is the only
    source of it."""


def parse_key(text: str) -> tuple[str, str] | None:
    """Split a key into its id and its secret. Returns `None` for text that is not a key."""
    found = _FORM.fullmatch(text)
    return None if found is None else (found[1], found[2])


class KeyStore:
    """The keys in the main store.

    For example::

        async with open_store("desk.db") as store:
            new = await KeyStore(store).create("console", scopes=["read", "answer"])
            print(new.text)
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self.logins = Logins(store)
        """The logins of browsers with these keys."""

    async def create(
        self,
        name: str,
        *,
        scopes: Collection[str],
        tenant: str = DEFAULT_TENANT,
        expires_s: float | None = None,
    ) -> NewKey:
        """Create a key that is valid for `expires_s` seconds, or until it is revoked.

        Raises `UserError` for an invalid name, scope or tenant.
        """
        _check_name(name)
        wanted = _checked_scopes(scopes)
        check_tenant(tenant)
        if expires_s is not None and expires_s <= 0:
            raise UserError("a key must be valid for some time; leave it out for no limit")
        now_us = await self._store.now_us()
        secret = _random(_SECRET_CHARS, _SECRET_LENGTH)
        while True:
            key = StoredKey(
                id=_random(_PREFIX_CHARS, _PREFIX_LENGTH),
                name=name,
                tenant=tenant,
                scopes=wanted,
                created_at_us=now_us,
                expires_at_us=None if expires_s is None else now_us + int(expires_s * 1e6),
                digest=_digest(secret),
            )
            try:
                await self._store.write_documents([_write(key, expected_version=0)])
            except StaleDocument:  # The id is already used.
                continue
            return NewKey(key=key, text=f"ek_{key.id}_{secret}")

    async def find(self, key_id: str) -> StoredKey | None:
        """The key with this id; `None` if no key has this id."""
        document = await self._store.get_document(KEYS, key_id)
        return None if document is None else _key(document)

    async def exist(self) -> bool:
        """Whether any tenant has a key, valid or not."""
        return bool(await self._store.list_documents(KEYS, limit=1))

    async def list(self, *, tenant: str | None = None) -> Sequence[StoredKey]:
        """The keys of all tenants or of one tenant, oldest first."""
        found = [_key(document) async for document in each_document(self._store, KEYS)]
        mine = [key for key in found if tenant is None or key.tenant == tenant]
        return sorted(mine, key=lambda key: (key.created_at_us, key.id))

    async def revoke(self, key_id: str) -> StoredKey:
        """Revoke a key permanently. A key that was revoked before does not change. Raises
        `KeyNotFound`.

        `key_id` is the id of the key, or the whole key.
        """
        found = _ID.fullmatch(key_id)
        if found is None:
            raise KeyNotFound
        while True:
            document = await self._store.get_document(KEYS, found[1])
            if document is None:
                raise KeyNotFound
            if document.body["revoked_at_us"] is not None:
                return _key(document)
            body = {**document.body, "revoked_at_us": await self._store.now_us()}
            write = DocumentWrite(
                collection=KEYS, key=document.key, body=body, expected_version=document.version
            )
            try:
                await self._store.write_documents([write])
            except StaleDocument:
                continue

    async def now_us(self) -> int:
        """The time on the store's clock, which decides when keys expire."""
        return await self._store.now_us()

    async def note_use(self, key_id: str) -> None:
        """Store the current time as the last use of the key."""
        body = {"at_us": await self._store.now_us()}
        await self._store.write_documents([DocumentWrite(collection=USES, key=key_id, body=body)])

    async def used_at_us(self, key_id: str) -> int | None:
        """The approximate time of the last use; `None` if the key was not used."""
        document = await self._store.get_document(USES, key_id)
        return None if document is None else int(document.body["at_us"])


def _check_name(name: str) -> None:
    if not isinstance(name, str) or not name.strip() or len(name) > _MAX_NAME:
        raise UserError(
            f"a key needs a name of up to {_MAX_NAME} characters, for example its owner"
        )
    if not name.isprintable():
        raise UserError("a key's name is one line of text, without control characters")


def _checked_scopes(scopes: Collection[str]) -> frozenset[Scope]:
    unknown = [scope for scope in scopes if scope not in SCOPES]
    if unknown or not scopes:
        problem = f"there is no scope {unknown[0]!r:.60}" if unknown else "a key needs a scope"
        raise UserError(f"{problem}; there are {', '.join(SCOPES)}")
    return frozenset(scope for scope in SCOPES if scope in scopes)


def _write(key: StoredKey, *, expected_version: int) -> DocumentWrite:
    body = {
        "v": 1,
        "name": key.name,
        "tenant": key.tenant,
        "scopes": sorted(key.scopes),
        "created_at_us": key.created_at_us,
        "expires_at_us": key.expires_at_us,
        "revoked_at_us": key.revoked_at_us,
        "sha256": key.digest,
    }
    return DocumentWrite(collection=KEYS, key=key.id, body=body, expected_version=expected_version)


def _key(document: Document) -> StoredKey:
    body: Mapping[str, Any] = document.body
    return StoredKey(
        id=document.key,
        name=body["name"],
        tenant=body["tenant"],
        scopes=frozenset(scope for scope in SCOPES if scope in body["scopes"]),
        created_at_us=body["created_at_us"],
        expires_at_us=body["expires_at_us"],
        revoked_at_us=body["revoked_at_us"],
        digest=body["sha256"],
    )


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _random(characters: str, length: int) -> str:
    return "".join(secrets.choice(characters) for _ in range(length))
