"""API keys and logins: who may call the server, as which tenant, and for what."""

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
"""When keys were used last, apart from the keys: writing it never gets in the way of a change."""
_PREFIX_CHARS: Final = string.ascii_lowercase + string.digits
_SECRET_CHARS: Final = string.ascii_letters + string.digits
_PREFIX_LENGTH: Final = 8
_SECRET_LENGTH: Final = 40
_FORM: Final = re.compile(r"ek_([a-z0-9]{8})_([A-Za-z0-9]{32,80})", re.ASCII)
_ID: Final = re.compile(r"(?:ek_)?([a-z0-9]{8})(?:_[A-Za-z0-9]{0,80})?", re.ASCII)
_MAX_NAME: Final = 100


def login_id(token: str) -> str:
    """What a login is stored under; the token cannot be made of it."""
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()


class Logins:
    """The logins in the main store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def begin(self, key_id: str) -> str:
        """Make a login of the key; gives its token, which is stored nowhere."""
        token = secrets.token_hex(_TOKEN_BYTES)
        expires_at_us = await self._store.now_us() + MAX_AGE_S * 1_000_000
        body = {"v": 1, "key_id": key_id, "expires_at_us": expires_at_us}
        write = DocumentWrite(collection=LOGINS, key=login_id(token), body=body)
        await self._store.write_documents([write])
        return token

    async def key_of(self, id: str) -> str | None:
        """The id of the login's key; `None` if the login was ended, is over, or never was."""
        document = await self._store.get_document(LOGINS, id)
        if document is None or document.body["expires_at_us"] <= await self._store.now_us():
            return None
        return str(document.body["key_id"])

    async def end(self, id: str) -> None:
        """Make the login useless."""
        await self._store.write_documents([DocumentWrite(collection=LOGINS, key=id, body=None)])

    async def prune(self) -> None:
        """Remove those whose time is over."""
        now_us = await self._store.now_us()
        async for each in each_document(self._store, LOGINS):
            if each.body["expires_at_us"] <= now_us:
                await self.end(each.key)


Scope: TypeAlias = Literal["read", "run", "answer", "history", "admin"]
"""`read`: look at everything of the tenant; `run`: start runs, hand over, change sessions, state
and memory; `answer`: decide what people are asked; `history`: together with `run`, send system
messages, answers and tool calls that are stored as given; `admin`: all of it, and remove and
restore."""

SCOPES: Final[tuple[Scope, ...]] = get_args(Scope)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredKey:
    """A key as it is stored: everything but the secret."""

    id: str
    """The public prefix."""
    name: str
    tenant: str
    scopes: frozenset[Scope]
    created_at_us: int
    expires_at_us: int | None = None
    revoked_at_us: int | None = None
    digest: str = field(repr=False)
    """Of the secret."""

    def is_live(self, now_us: int) -> bool:
        """Whether it is good at that moment."""
        return self.revoked_at_us is None and (
            self.expires_at_us is None or now_us < self.expires_at_us
        )

    def fits(self, secret: str) -> bool:
        """Whether the secret is this key's; takes as long for any that is not."""
        return hmac.compare_digest(self.digest, _digest(secret))


@dataclass(frozen=True, slots=True, kw_only=True)
class NewKey:
    """A key that was just made."""

    key: StoredKey
    text: str = field(repr=False)
    """What callers send; it is stored nowhere, so this is the only time that it can be seen."""


def parse_key(text: str) -> tuple[str, str] | None:
    """Prefix and secret, or `None` for what cannot be a key of ours."""
    found = _FORM.fullmatch(text)
    return None if found is None else (found[1], found[2])


class KeyStore:
    """The keys in the main store.

    For example::

        async with open_store("desk.db") as store:
            made = await Keys(store).create("console", scopes=["read", "answer"])
            print(made.text)
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self.logins = Logins(store)
        """Of browsers, with these keys."""

    async def create(
        self,
        name: str,
        *,
        scopes: Collection[str],
        tenant: str = DEFAULT_TENANT,
        expires_s: float | None = None,
    ) -> NewKey:
        """Make a key, good for `expires_s` seconds or until it is revoked.

        `UserError` for a name, a scope or a tenant that cannot be.
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
            except StaleDocument:  # The prefix is taken.
                continue
            return NewKey(key=key, text=f"ek_{key.id}_{secret}")

    async def find(self, key_id: str) -> StoredKey | None:
        """The key with this prefix."""
        document = await self._store.get_document(KEYS, key_id)
        return None if document is None else _key(document)

    async def exist(self) -> bool:
        """Whether there is any key, of any tenant, be it good or not."""
        return bool(await self._store.list_documents(KEYS, limit=1))

    async def list(self, *, tenant: str | None = None) -> Sequence[StoredKey]:
        """All keys, or those of a tenant, the oldest first."""
        found = [_key(document) async for document in each_document(self._store, KEYS)]
        mine = [key for key in found if tenant is None or key.tenant == tenant]
        return sorted(mine, key=lambda key: (key.created_at_us, key.id))

    async def revoke(self, key_id: str) -> StoredKey:
        """Make a key useless, for ever; one that is revoked stays as it is. `KeyNotFound`.

        `key_id` is the prefix, as it is listed; a whole key is taken, too.
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
        """The clock by which keys expire: the store's."""
        return await self._store.now_us()

    async def note_use(self, key_id: str) -> None:
        """Store that the key was used just now."""
        body = {"at_us": await self._store.now_us()}
        await self._store.write_documents([DocumentWrite(collection=USES, key=key_id, body=body)])

    async def used_at_us(self, key_id: str) -> int | None:
        """About when the key was used last."""
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
