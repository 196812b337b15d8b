"""Authorization: the caller has an API key, which is looked up and cached briefly, or is on this
machine.

A key is sent in a header, `Authorization: Bearer KEY` or `X-API-Key: KEY`. A page cannot set the
headers of a WebSocket. So it offers the subprotocols ``ekiden.v1`` and ``ekiden.bearer.KEY``, and
the server accepts the first. A key in a URL is refused, because proxies and servers log URLs.

Without a key, only a caller on the loopback address is admitted, and only while no key exists. The
server must listen only on the loopback address. The request must use a local host name, and must
not come through a proxy. Such a caller may be a program that a tool started, so it can answer
questions to people only with the token of `ServerConfig.person_token`.

The console has its own login in a cookie (`access.py`), which counts only if a request has no key.
An address that sends many wrong keys must wait, but a valid key is still admitted.
"""

from __future__ import annotations

import hmac
import re
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from starlette.datastructures import Headers
from starlette.requests import HTTPConnection

from ekiden.core.checks.addresses import is_loopback, network_of, parse_host
from ekiden.core.errors.server import KeyExpired, ServerExposed, TooManyRequests, Unauthenticated
from ekiden.project.keys import KeyStore, StoredKey, login_id, parse_key
from ekiden.project.service import Service
from ekiden.server.access import (
    LOCAL,
    LOCAL_PROGRAM,
    Caller,
    check_own_page,
    csrf_token,
    kept_logins,
)
from ekiden.server.configuration import ServerConfig
from ekiden.server.lifespan import BackgroundTasks

FRESH_S: Final = 1.0
"""The number of seconds for which a lookup is cached. So a key that another process revokes is
valid for at most this time."""
NOTED_EVERY_S: Final = 60.0
_MOST: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """The known facts about a key prefix."""

    key: StoredKey | None
    is_live: bool
    until: float


class KeyRing:
    """Looks up keys in the main store, which `keys` returns. Each object belongs to one event
    loop."""

    def __init__(
        self,
        keys: Callable[[], Awaitable[KeyStore]],
        background: BackgroundTasks,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._keys = keys
        self._background = background
        self._monotonic = monotonic
        self._known: dict[str, Known] = {}
        self._logins: dict[str, tuple[str | None, float]] = {}
        """The key of each login, and the end of its caching."""
        self._noted: dict[str, float] = {}
        self._any = False
        self._none_until = 0.0

    async def look_up(self, key_id: str) -> Known:
        """The known facts about a key, at most `FRESH_S` seconds old."""
        now = self._monotonic()
        known = self._known.get(key_id)
        if known is not None and now < known.until:
            return known
        keys = await self._keys()
        key = await keys.find(key_id)
        is_live = key is not None and key.is_live(await keys.now_us())
        known = Known(key=key, is_live=is_live, until=now + FRESH_S)
        if len(self._known) >= _MOST:
            self._known.clear()
        self._known[key_id] = known
        return known

    async def key_of_login(self, id: str) -> str | None:
        """The id of the key with which a browser logged in. The result is at most `FRESH_S` seconds
        old."""
        now = self._monotonic()
        key_id, until = self._logins.get(id, (None, 0.0))
        if now >= until:
            key_id = await (await self._keys()).logins.key_of(id)
            if len(self._logins) >= _MOST:
                self._logins.clear()
            self._logins[id] = key_id, now + FRESH_S
        return key_id

    async def begin_login(self, key_id: str) -> str:
        """Start a browser's login with the key, and return the token for its cookie."""
        return await (await self._keys()).logins.begin(key_id)

    async def end_login(self, id: str) -> None:
        """End a browser's login. Other servers notice this within a second."""
        await (await self._keys()).logins.end(id)
        self._logins.pop(id, None)

    async def any_exist(self) -> bool:
        """Whether any key exists. Once the result is true, it stays true."""
        now = self._monotonic()
        if not self._any and now >= self._none_until:
            self._any = await (await self._keys()).exist()
            self._none_until = now + FRESH_S
        return self._any

    def forget(self) -> None:
        """Drop the cache, because this process changed keys."""
        self._known.clear()
        self._logins.clear()
        self._none_until = 0.0

    def note_use(self, key_id: str) -> None:
        """Record the use of the key, at most once a minute, in the background."""
        now = self._monotonic()
        last = self._noted.get(key_id)
        if last is not None and now - last < NOTED_EVERY_S:
            return
        if len(self._noted) >= _MOST:
            self._noted.clear()
        self._noted[key_id] = now
        self._background.begin(
            lambda: self._write_use(key_id), what="the use of a key was not noted"
        )

    async def _write_use(self, key_id: str) -> None:
        await (await self._keys()).note_use(key_id)


SUBPROTOCOL: Final = "ekiden.v1"
_BEARER_PROTOCOL: Final = "ekiden.bearer."
_IN_ADDRESS: Final = re.compile(rb"ek_[a-z0-9]{8}_")
_FORWARDED: Final = frozenset(
    {"forwarded", "via", "x-real-ip", "x-client-ip", "cf-connecting-ip", "true-client-ip"}
)
"""Headers of proxies: behind one, the address does not identify the caller."""
_UNKNOWN: Final = "this API key is unknown"


class Rates:
    """Allows `burst` calls at once and `rate` calls a second on average.

    A rate of 0 means no limit. Pass only known names, so that the object stays small.
    """

    def __init__(
        self,
        rate: float,
        burst: int,
        *,
        message: str | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`message` is the error text for a caller over the limit."""
        self._message = message or f"this key may make {rate:g} requests a second"
        self._rate = rate
        self._burst = max(1, burst)
        self._monotonic = monotonic
        self._buckets: dict[str, tuple[float, float]] = {}
        """By caller: the tokens left, and when they were counted."""

    def take(self, caller: str) -> None:
        """Count one call. Raises `TooManyRequests` if the call exceeds the limit."""
        if self._rate <= 0:
            return
        now = self._monotonic()
        tokens, at = self._buckets.get(caller, (float(self._burst), now))
        tokens = min(float(self._burst), tokens + (now - at) * self._rate)
        if tokens < 1.0:
            self._buckets[caller] = (tokens, now)
            wait_s = max(1.0, (1.0 - tokens) / self._rate)
            raise TooManyRequests(self._message, retry_after_s=wait_s)
        if caller not in self._buckets and len(self._buckets) >= _MOST:
            self._forget(now)
        self._buckets[caller] = (tokens - 1.0, now)

    def _forget(self, now: float) -> None:
        """Forget full buckets, or else all."""
        left = {
            caller: (tokens, at)
            for caller, (tokens, at) in self._buckets.items()
            if tokens + (now - at) * self._rate < self._burst
        }
        self._buckets = left if len(left) < _MOST else {}


class KeyAuthorization:
    """Admits callers with a key, and local callers while no key exists."""

    def __init__(self, ring: KeyRing, config: ServerConfig) -> None:
        self._ring = ring
        self._config = config
        self._rates = Rates(config.rate, config.burst)
        wrong_keys = config.wrong_keys if config.rate else 0
        self._wrong = Rates(
            wrong_keys / 60, wrong_keys, message="too many wrong keys came from this address"
        )
        self._is_local = config.allow_local and is_loopback(config.host)

    async def caller(self, connection: HTTPConnection) -> Caller:
        """Return the sender of the request. Raises `Unauthenticated`, `KeyExpired` or
        `TooManyRequests`; for a login cookie also `CsrfFailed` and `BadOrigin`."""
        try:
            return await self._caller(connection)
        except Unauthenticated as exc:
            self._count(connection, exc)
            raise

    async def log_in(self, connection: HTTPConnection, text: str) -> tuple[Caller, str]:
        """Return the owner of this key, and the token of a new login, which replaces the browser's
        old login. Raises `Unauthenticated`, `KeyExpired` or `TooManyRequests`."""
        try:
            caller = await self._holder(text)
        except Unauthenticated as exc:
            self._count(connection, exc, is_given=True)
            raise
        assert caller.key_id is not None
        for left in kept_logins(connection.headers):
            await self._ring.end_login(login_id(left))
        token = await self._ring.begin_login(caller.key_id)
        return replace(caller, login=login_id(token)), token

    def is_person(self, token: str | None) -> bool:
        """Whether a local caller with this token is a person."""
        wanted = self._config.person_token
        if wanted is None:
            return True
        return hmac.compare_digest((token or "").encode("utf-8", "replace"), wanted.encode())

    async def log_out(self, caller: Caller) -> None:
        """End the login of the request. The key stays valid."""
        if caller.login is not None:
            await self._ring.end_login(caller.login)

    def _count(
        self, connection: HTTPConnection, exc: Unauthenticated, *, is_given: bool = False
    ) -> None:
        """Count a wrong key; `TooManyRequests` if the address sent too many. A key that was valid
        once is not a guess, and a missing key is not wrong."""
        if not isinstance(exc, KeyExpired) and (is_given or _gives_key(connection)):
            client = connection.client
            self._wrong.take("" if client is None else network_of(client.host))

    async def _caller(self, connection: HTTPConnection) -> Caller:
        if _IN_ADDRESS.search(connection.scope.get("query_string", b"")):
            raise Unauthenticated(
                "an API key in an address is written into logs: revoke it and create another"
            )
        text = credential_of(connection)
        if text is None and (kept := kept_logins(connection.headers)):
            return await self._with_cookie(connection, kept)
        if text is None or parse_key(text) is None:
            return await self._without_key(connection, text)
        return await self._holder(text)

    async def _holder(self, text: str) -> Caller:
        """The owner of this key: `Unauthenticated`, `KeyExpired`, `TooManyRequests`."""
        parsed = parse_key(text)
        if parsed is None:
            raise Unauthenticated(_UNKNOWN)
        key_id, secret = parsed
        known = await self._ring.look_up(key_id)
        if known.key is None or not known.key.fits(secret):
            raise Unauthenticated(_UNKNOWN)
        return self._let_in(known.key, is_live=known.is_live)

    async def _logged_in(self, token: str) -> Caller:
        """The owner of the login with this token: `Unauthenticated`, `KeyExpired`,
        `TooManyRequests`."""
        login = login_id(token)
        key_id = await self._ring.key_of_login(login)
        known = None if key_id is None else await self._ring.look_up(key_id)
        if known is None or known.key is None:
            raise Unauthenticated("this login has ended: log in again")
        return replace(self._let_in(known.key, is_live=known.is_live), login=login)

    def _let_in(self, key: StoredKey, *, is_live: bool) -> Caller:
        if not is_live:
            raise KeyExpired
        self._rates.take(key.id)
        self._ring.note_use(key.id)
        return Caller(name=key.name, tenant=key.tenant, scopes=key.scopes, key_id=key.id)

    async def recheck(self, caller: Caller) -> None:
        """Raise `KeyExpired` if the caller's key is no longer valid, the login has ended, or a key
        is now required."""
        if caller.login is not None and await self._ring.key_of_login(caller.login) is None:
            raise KeyExpired
        if caller.key_id is None:
            if await self._ring.any_exist():
                raise KeyExpired
        elif not (await self._ring.look_up(caller.key_id)).is_live:
            raise KeyExpired

    async def _with_cookie(self, connection: HTTPConnection, kept: Sequence[str]) -> Caller:
        try:
            if not await self._ring.any_exist():
                return await self._with_cookie_of_person(connection, kept)
            caller, token = await self._holder_of_one(kept)
        except Unauthenticated:
            connection.state.is_cookie_bad = True
            raise
        check_own_page(connection, token)
        connection.state.csrf_token = csrf_token(token)
        return caller

    async def _with_cookie_of_person(
        self, connection: HTTPConnection, kept: Sequence[str]
    ) -> Caller:
        for token in kept:
            if self._config.person_token is not None and self.is_person(token):
                check_own_page(connection, token)
                connection.state.csrf_token = csrf_token(token)
                return await self._without_key(connection, token)
        # The cookie is older than the store, and no key is needed: ignore it.
        return await self._without_key(connection, None)

    async def _holder_of_one(self, kept: Sequence[str]) -> tuple[Caller, str]:
        """The owner of the only valid login among these, and its token."""
        found: list[tuple[Caller, str]] = []
        wrong = Unauthenticated(_UNKNOWN)
        for token in kept:
            try:
                found.append((await self._logged_in(token), token))
            except Unauthenticated as exc:
                wrong = exc
        if not found:
            raise wrong
        if len(found) > 1:
            raise Unauthenticated("the request has several cookies with logins that differ")
        return found[0]

    async def _without_key(self, connection: HTTPConnection, text: str | None) -> Caller:
        if text is not None and text.startswith("ek_"):
            raise Unauthenticated(_UNKNOWN)
        # Clients of other services always send some key: where none is needed, one that is not
        # Ekiden's is ignored.
        if self._is_local and is_from_here(connection) and not await self._ring.any_exist():
            return LOCAL if self.is_person(text) else LOCAL_PROGRAM
        raise Unauthenticated() if text is None else Unauthenticated(_UNKNOWN)


def _gives_key(connection: HTTPConnection) -> bool:
    try:
        return credential_of(connection) is not None or bool(kept_logins(connection.headers))
    except Unauthenticated:
        return True


def credential_of(connection: HTTPConnection) -> str | None:
    """The key in the request. Raises `Unauthenticated` if the request has several keys."""
    headers = connection.headers
    given = [_bearer(value) for value in headers.getlist("authorization")]
    given += [value.strip() for value in headers.getlist("x-api-key")]
    if connection.scope["type"] == "websocket":
        given += [
            name.removeprefix(_BEARER_PROTOCOL)
            for name in offered_protocols(headers)
            if name.startswith(_BEARER_PROTOCOL)
        ]
    if len(set(given)) > 1:
        raise Unauthenticated("the request gives several keys that differ")
    return given[0] if given else None


def offered_protocols(headers: Headers) -> list[str]:
    """The subprotocols that a WebSocket offers."""
    return [
        name.strip()
        for value in headers.getlist("sec-websocket-protocol")
        for name in value.split(",")
    ]


def subprotocol_of(connection: HTTPConnection) -> str | None:
    """The subprotocol with which to accept a WebSocket. It is never the subprotocol with the
    key."""
    return SUBPROTOCOL if SUBPROTOCOL in offered_protocols(connection.headers) else None


def is_from_here(connection: HTTPConnection) -> bool:
    """Whether the caller is certainly on this machine, according to its address and host name, and
    not behind a proxy."""
    client = connection.client
    if client is None or not is_loopback(client.host):
        return False
    host = parse_host(connection.headers.get("host", ""))
    if host is None or not host.is_loopback:
        return False
    return not _is_proxied(connection)


def _is_proxied(connection: HTTPConnection) -> bool:
    """Whether it may come through a proxy: some add no header, but use HTTP/1.0, which current
    clients do not."""
    names = (name.lower() for name in connection.headers)
    return connection.scope.get("http_version") == "1.0" or any(
        name in _FORWARDED or name.startswith("x-forwarded-") for name in names
    )


def key_ring(service: Service, background: BackgroundTasks) -> KeyRing:
    """The `KeyRing` of the service's main store."""

    async def keys() -> KeyStore:
        return KeyStore((await service.tenant_service()).store)

    return KeyRing(keys, background)


async def check_exposure(config: ServerConfig, keys: KeyStore) -> None:
    """Raise `ServerExposed` if other machines could call the server and no key is required.

    Call this function before the server listens.
    """
    if is_loopback(config.host):
        return
    now_us = await keys.now_us()
    if not any(key.is_live(now_us) for key in await keys.list()):
        raise ServerExposed(config.host)


def _bearer(value: str) -> str:
    scheme, _, token = value.strip().partition(" ")
    if scheme.lower() != "bearer":
        raise Unauthenticated("this authorization scheme is not supported")
    return token.strip()
