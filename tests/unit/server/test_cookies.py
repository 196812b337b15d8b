"""The gate and the console's cookie."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from starlette.datastructures import Headers
from starlette.requests import HTTPConnection

from ekiden.core.errors.server import (
    BadOrigin,
    CsrfFailed,
    KeyExpired,
    TooManyRequests,
    Unauthenticated,
)
from ekiden.project.keys import LOGINS, KeyStore, Logins, NewKey
from ekiden.server import ServerConfig
from ekiden.server.access import LOCAL, csrf_token, kept_logins
from ekiden.server.authorization import KeyAuthorization, KeyRing
from ekiden.server.lifespan import BackgroundTasks
from ekiden.storage.base import DocumentWrite
from ekiden.storage.memory import MemoryStore
from tests.support.cases import each_case

UNKNOWN = "ek_abcdefgh_" + "a" * 40
OWN = "http://localhost:8321"


@pytest.fixture
async def store() -> AsyncIterator[MemoryStore]:
    async with MemoryStore() as opened:
        yield opened


@pytest.fixture
async def ring(store: MemoryStore) -> AsyncIterator[KeyRing]:
    async def keys() -> KeyStore:
        return KeyStore(store)

    chores = BackgroundTasks()
    yield KeyRing(keys, chores)
    await chores.close()


@pytest.fixture
async def made(store: MemoryStore) -> NewKey:
    return await KeyStore(store).create("console", scopes=["read", "answer"])


@pytest.fixture
async def login(store: MemoryStore, made: NewKey) -> str:
    return await KeyStore(store).logins.begin(made.key.id)


@pytest.fixture
def gate(ring: KeyRing) -> KeyAuthorization:
    return KeyAuthorization(ring, ServerConfig())


def connection(
    *cookies: str, method: str = "GET", kind: str = "http", **headers: str
) -> HTTPConnection:
    pairs = [("host", "localhost:8321"), *(("cookie", each) for each in cookies), *headers.items()]
    scope = {
        "type": kind,
        "headers": [(name.replace("_", "-").encode(), text.encode()) for name, text in pairs],
        "client": ("127.0.0.1", 50000),
        "query_string": b"",
        "path": "/",
    }
    return HTTPConnection(scope | ({"method": method} if kind == "http" else {}))


def cookie(login: str) -> str:
    return f"ekiden_login_8321={login}"


async def test_a_cookie_identifies_the_caller(
    gate: KeyAuthorization, made: NewKey, login: str
) -> None:
    asks = connection(f"theme=dark; {cookie(login)}; lang=zh")
    assert (await gate.caller(asks)).key_id == made.key.id
    assert asks.state.csrf_token == csrf_token(login)


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS"])
async def test_reading_with_a_cookie_needs_no_csrf_token(
    gate: KeyAuthorization, made: NewKey, login: str, method: str
) -> None:
    assert (await gate.caller(connection(cookie(login), method=method))).name == "console"


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "get", "BREW"])
async def test_writing_with_a_cookie_needs_the_csrf_token(
    gate: KeyAuthorization, made: NewKey, login: str, method: str
) -> None:
    with pytest.raises(CsrfFailed) as caught:
        await gate.caller(connection(cookie(login), method=method))
    assert caught.value.code == "auth.csrf"
    token = csrf_token(login)
    good = connection(cookie(login), method=method, x_csrf_token=token)
    assert (await gate.caller(good)).key_id == made.key.id


@pytest.mark.parametrize("given", ["", "x", "é", UNKNOWN, "0" * 64, csrf_token(UNKNOWN)])
async def test_a_wrong_csrf_token_is_refused(
    gate: KeyAuthorization, made: NewKey, login: str, given: str
) -> None:
    with pytest.raises(CsrfFailed):
        await gate.caller(connection(cookie(login), method="POST", x_csrf_token=given))


async def test_the_key_or_two_values_are_refused_as_csrf_token(
    gate: KeyAuthorization, made: NewKey, login: str
) -> None:
    with pytest.raises(CsrfFailed):
        await gate.caller(connection(cookie(login), method="POST", x_csrf_token=made.text))
    twice = connection(cookie(login), method="POST", x_csrf_token=csrf_token(login))
    twice.scope["headers"].append((b"x-csrf-token", csrf_token(login).encode()))
    with pytest.raises(CsrfFailed):
        await gate.caller(HTTPConnection(twice.scope))


async def test_a_csrf_token_belongs_to_one_login_and_reveals_nothing(
    made: NewKey, login: str
) -> None:
    assert csrf_token(login) == csrf_token(login)
    assert csrf_token(login) != csrf_token(UNKNOWN)
    assert len(csrf_token(login)) == 64
    assert login not in csrf_token(login)


async def test_the_key_or_the_stored_hash_is_refused_as_login_cookie(
    gate: KeyAuthorization, made: NewKey, login: str, store: MemoryStore
) -> None:
    stored = [each.key for each in await store.list_documents(LOGINS)]
    for value in (made.text, *stored):
        with pytest.raises(Unauthenticated):
            await gate.caller(connection(cookie(value)))
    assert stored
    assert login not in stored


async def test_a_login_expires_after_a_month(
    gate: KeyAuthorization, ring: KeyRing, login: str, store: MemoryStore
) -> None:
    [document] = await store.list_documents(LOGINS)
    late = {**document.body, "expires_at_us": await store.now_us()}
    await store.write_documents([DocumentWrite(collection=LOGINS, key=document.key, body=late)])
    with pytest.raises(Unauthenticated, match="log in again"):
        await gate.caller(connection(cookie(login)))
    await Logins(store).prune()
    assert not await store.list_documents(LOGINS)


async def test_a_key_header_overrides_the_cookie(
    gate: KeyAuthorization, made: NewKey, login: str, store: MemoryStore
) -> None:
    other = await KeyStore(store).create("program", scopes=["run"])
    for left in (cookie(login), cookie(UNKNOWN), f"{cookie(login)}; {cookie(UNKNOWN)}"):
        asks = connection(left, method="POST", authorization=f"Bearer {other.text}")
        assert (await gate.caller(asks)).key_id == other.key.id
        assert not hasattr(asks.state, "csrf_token")


async def test_a_wrong_key_header_is_refused_despite_a_valid_cookie(
    gate: KeyAuthorization, made: NewKey, login: str
) -> None:
    asks = connection(cookie(login), x_api_key=UNKNOWN)
    with pytest.raises(Unauthenticated):
        await gate.caller(asks)
    assert not hasattr(asks.state, "is_cookie_bad")


@pytest.mark.parametrize(
    "value",
    ["", "x", UNKNOWN, f'"{UNKNOWN}"', "ek_abcdefgh", "sk-other", "%65k_abcdefgh_" + "a" * 40],
)
async def test_an_invalid_login_cookie_is_refused_and_cleared(
    gate: KeyAuthorization, made: NewKey, value: str
) -> None:
    asks = connection(cookie(value))
    with pytest.raises(Unauthenticated) as caught:
        await gate.caller(asks)
    assert caught.value.code == "auth.required"
    assert asks.state.is_cookie_bad


async def test_a_cookie_of_a_revoked_key_is_reported_as_expired(
    gate: KeyAuthorization, ring: KeyRing, made: NewKey, login: str, store: MemoryStore
) -> None:
    await KeyStore(store).revoke(made.key.id)
    ring.forget()
    asks = connection(cookie(login), method="POST")
    with pytest.raises(KeyExpired):
        await gate.caller(asks)
    assert asks.state.is_cookie_bad


async def test_additional_invalid_cookies_do_not_lock_a_user_out(
    gate: KeyAuthorization, made: NewKey, login: str
) -> None:
    for cookies in (
        [f"{cookie(login)}; {cookie(UNKNOWN)}"],
        [cookie(UNKNOWN), cookie(login)],
        [f"{cookie(login)}; ekiden_login_8321="],
        [f"{cookie(login)};{cookie(login)}"],
    ):
        assert (await gate.caller(connection(*cookies))).key_id == made.key.id


async def test_two_valid_login_cookies_are_refused(
    gate: KeyAuthorization, made: NewKey, login: str, store: MemoryStore
) -> None:
    other = await KeyStore(store).create("other", scopes=["read"])
    also = await KeyStore(store).logins.begin(other.key.id)
    asks = connection(cookie(login), cookie(also))
    with pytest.raises(Unauthenticated, match="several"):
        await gate.caller(asks)
    assert asks.state.is_cookie_bad


@pytest.mark.parametrize("left", [UNKNOWN, "x", "", f"x; ekiden_login_8321={UNKNOWN}"])
async def test_an_old_cookie_is_ignored_where_no_key_is_needed(
    gate: KeyAuthorization, left: str
) -> None:
    for method in ("GET", "POST"):
        assert await gate.caller(connection(cookie(left), method=method)) == LOCAL


async def test_an_unknown_cookie_is_refused_where_a_key_is_needed(ring: KeyRing) -> None:
    asks = connection(cookie(UNKNOWN))
    with pytest.raises(Unauthenticated):
        await KeyAuthorization(ring, ServerConfig(allow_local=False)).caller(asks)
    assert asks.state.is_cookie_bad


async def test_a_websocket_with_a_cookie_needs_the_servers_own_origin(
    gate: KeyAuthorization, made: NewKey, login: str
) -> None:
    own = connection(cookie(login), kind="websocket", origin=OWN)
    assert (await gate.caller(own)).key_id == made.key.id
    with pytest.raises(BadOrigin):
        await gate.caller(connection(cookie(login), kind="websocket"))
    for other in ("null", "https://desk.example.com", "http://localhost:3000", ""):
        with pytest.raises(BadOrigin):
            await gate.caller(connection(cookie(login), kind="websocket", origin=other))


async def test_a_websocket_that_sends_a_key_needs_no_origin(
    gate: KeyAuthorization, made: NewKey
) -> None:
    offer = f"ekiden.v1, ekiden.bearer.{made.text}"
    asks = connection(cookie(UNKNOWN), kind="websocket", sec_websocket_protocol=offer)
    assert (await gate.caller(asks)).key_id == made.key.id


async def test_header_and_cookie_of_a_key_share_one_rate_limit(
    ring: KeyRing, made: NewKey, login: str
) -> None:
    gate = KeyAuthorization(ring, ServerConfig(rate=0.001, burst=3))
    await gate.caller(connection(cookie(login)))
    await gate.caller(connection(x_api_key=made.text))
    await gate.log_in(connection(), made.text)
    asks = connection(cookie(login))
    with pytest.raises(TooManyRequests):
        await gate.caller(asks)
    assert not hasattr(asks.state, "is_cookie_bad")


def test_each_port_has_its_own_cookie() -> None:
    sent = "ekiden_login=a; ekiden_login_8321=b; ekiden_login_8322=c"
    for host, found in (("desk.example.com", "a"), ("127.0.0.1:8321", "b"), ("[::1]:8322", "c")):
        assert kept_logins(Headers({"cookie": sent, "host": host})) == [found]


@each_case(
    ("sent", "found"),
    [
        ("ekiden_login=a", ["a"]),
        (" ekiden_login=a ;b=c", ["a"]),
        ("ekiden_login=a=b", ["a=b"]),
        ("ekiden_login", [""]),
        ("EKIDEN_LOGIN=a", []),
        ("xekiden_login=a; ekiden_login2=b; ekiden_login =c", []),
        ("x=ekiden_login=a", []),
        ("", []),
        (";;;", []),
    ],
)
def test_malformed_cookies_are_ignored(sent: str, found: list[str]) -> None:
    assert kept_logins(Headers({"cookie": sent})) == found
