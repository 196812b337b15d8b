"""The gate and the console's cookie."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from starlette.datastructures import Headers
from starlette.requests import HTTPConnection

from ekiden.app.keys import Keys, NewKey
from ekiden.core.server_errors import (
    BadOrigin,
    CsrfFailed,
    KeyExpired,
    TooManyRequests,
    Unauthenticated,
)
from ekiden.server import ServerConfig
from ekiden.server.access import LOCAL
from ekiden.server.chores import Chores
from ekiden.server.cookies import csrf_token, kept_keys
from ekiden.server.gate import KeyGate
from ekiden.server.keyring import KeyRing
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
    async def keys() -> Keys:
        return Keys(store)

    chores = Chores()
    yield KeyRing(keys, chores)
    await chores.close()


@pytest.fixture
async def made(store: MemoryStore) -> NewKey:
    return await Keys(store).create("console", scopes=["read", "answer"])


@pytest.fixture
def gate(ring: KeyRing) -> KeyGate:
    return KeyGate(ring, ServerConfig())


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


def cookie(key: NewKey | str) -> str:
    return f"ekiden_key_8321={key if isinstance(key, str) else key.text}"


async def test_a_cookie_says_who_calls(gate: KeyGate, made: NewKey) -> None:
    asks = connection(f"theme=dark; {cookie(made)}; lang=zh")
    assert (await gate.caller(asks)).key_id == made.key.id
    assert asks.state.csrf_token == csrf_token(made.text)


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS"])
async def test_reading_needs_no_token(gate: KeyGate, made: NewKey, method: str) -> None:
    assert (await gate.caller(connection(cookie(made), method=method))).name == "console"


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "get", "BREW"])
async def test_everything_else_needs_the_token(gate: KeyGate, made: NewKey, method: str) -> None:
    with pytest.raises(CsrfFailed) as caught:
        await gate.caller(connection(cookie(made), method=method))
    assert caught.value.code == "auth.csrf"
    token = csrf_token(made.text)
    good = connection(cookie(made), method=method, x_csrf_token=token)
    assert (await gate.caller(good)).key_id == made.key.id


@pytest.mark.parametrize("given", ["", "x", "é", UNKNOWN, "0" * 64, csrf_token(UNKNOWN)])
async def test_a_wrong_token_is_none(gate: KeyGate, made: NewKey, given: str) -> None:
    with pytest.raises(CsrfFailed):
        await gate.caller(connection(cookie(made), method="POST", x_csrf_token=given))


async def test_the_key_is_no_token_and_two_tokens_are_none(gate: KeyGate, made: NewKey) -> None:
    with pytest.raises(CsrfFailed):
        await gate.caller(connection(cookie(made), method="POST", x_csrf_token=made.text))
    twice = connection(cookie(made), method="POST", x_csrf_token=csrf_token(made.text))
    twice.scope["headers"].append((b"x-csrf-token", csrf_token(made.text).encode()))
    with pytest.raises(CsrfFailed):
        await gate.caller(HTTPConnection(twice.scope))


async def test_a_token_is_of_one_key_and_tells_nothing_of_it(made: NewKey) -> None:
    assert csrf_token(made.text) == csrf_token(made.text)
    assert csrf_token(made.text) != csrf_token(UNKNOWN)
    assert len(csrf_token(made.text)) == 64
    assert made.text.rpartition("_")[2] not in csrf_token(made.text)


async def test_a_header_wins_and_the_cookie_is_not_looked_at(
    gate: KeyGate, made: NewKey, store: MemoryStore
) -> None:
    other = await Keys(store).create("program", scopes=["run"])
    for left in (cookie(made), cookie(UNKNOWN), f"{cookie(made)}; {cookie(UNKNOWN)}"):
        asks = connection(left, method="POST", authorization=f"Bearer {other.text}")
        assert (await gate.caller(asks)).key_id == other.key.id
        assert not hasattr(asks.state, "csrf_token")


async def test_a_wrong_header_is_not_mended_by_a_good_cookie(gate: KeyGate, made: NewKey) -> None:
    asks = connection(cookie(made), x_api_key=UNKNOWN)
    with pytest.raises(Unauthenticated):
        await gate.caller(asks)
    assert not hasattr(asks.state, "is_cookie_bad")


@pytest.mark.parametrize(
    "value",
    ["", "x", UNKNOWN, f'"{UNKNOWN}"', "ek_abcdefgh", "sk-other", "%65k_abcdefgh_" + "a" * 40],
)
async def test_a_broken_key_in_a_cookie_is_refused_and_to_be_forgotten(
    gate: KeyGate, made: NewKey, value: str
) -> None:
    asks = connection(cookie(value))
    with pytest.raises(Unauthenticated) as caught:
        await gate.caller(asks)
    assert caught.value.code == "auth.required"
    assert asks.state.is_cookie_bad


async def test_a_key_that_was_good_once_is_told_so(
    gate: KeyGate, ring: KeyRing, made: NewKey, store: MemoryStore
) -> None:
    await Keys(store).revoke(made.key.id)
    ring.forget()
    asks = connection(cookie(made), method="POST")
    with pytest.raises(KeyExpired):
        await gate.caller(asks)
    assert asks.state.is_cookie_bad


async def test_what_a_page_of_a_parent_domain_adds_locks_nobody_out(
    gate: KeyGate, made: NewKey
) -> None:
    for cookies in (
        [f"{cookie(made)}; {cookie(UNKNOWN)}"],
        [cookie(UNKNOWN), cookie(made)],
        [f"{cookie(made)}; ekiden_key_8321="],
        [f"{cookie(made)};{cookie(made)}"],
    ):
        assert (await gate.caller(connection(*cookies))).key_id == made.key.id


async def test_two_keys_that_are_both_good_are_refused(
    gate: KeyGate, made: NewKey, store: MemoryStore
) -> None:
    other = await Keys(store).create("other", scopes=["read"])
    asks = connection(cookie(made), cookie(other))
    with pytest.raises(Unauthenticated, match="several"):
        await gate.caller(asks)
    assert asks.state.is_cookie_bad


@pytest.mark.parametrize("left", [UNKNOWN, "x", "", f"x; ekiden_key_8321={UNKNOWN}"])
async def test_a_cookie_of_an_earlier_store_locks_nobody_out_where_no_key_is_needed(
    gate: KeyGate, left: str
) -> None:
    for method in ("GET", "POST"):
        assert await gate.caller(connection(cookie(left), method=method)) == LOCAL


async def test_it_lets_nobody_in_either(ring: KeyRing) -> None:
    asks = connection(cookie(UNKNOWN))
    with pytest.raises(Unauthenticated):
        await KeyGate(ring, ServerConfig(allow_local=False)).caller(asks)
    assert asks.state.is_cookie_bad


async def test_a_websocket_with_a_cookie_is_for_pages_of_this_server(
    gate: KeyGate, made: NewKey
) -> None:
    own = connection(cookie(made), kind="websocket", origin=OWN)
    assert (await gate.caller(own)).key_id == made.key.id
    with pytest.raises(BadOrigin):
        await gate.caller(connection(cookie(made), kind="websocket"))
    for other in ("null", "https://desk.example.com", "http://localhost:3000", ""):
        with pytest.raises(BadOrigin):
            await gate.caller(connection(cookie(made), kind="websocket", origin=other))


async def test_a_websocket_that_offers_a_key_needs_no_origin(gate: KeyGate, made: NewKey) -> None:
    offer = f"ekiden.v1, ekiden.bearer.{made.text}"
    asks = connection(cookie(UNKNOWN), kind="websocket", sec_websocket_protocol=offer)
    assert (await gate.caller(asks)).key_id == made.key.id


async def test_a_key_has_one_rate_however_it_is_sent(ring: KeyRing, made: NewKey) -> None:
    gate = KeyGate(ring, ServerConfig(rate=0.001, burst=3))
    await gate.caller(connection(cookie(made)))
    await gate.caller(connection(x_api_key=made.text))
    await gate.holder(made.text)
    asks = connection(cookie(made))
    with pytest.raises(TooManyRequests):
        await gate.caller(asks)
    assert not hasattr(asks.state, "is_cookie_bad")


def test_each_port_has_a_cookie_of_its_own() -> None:
    sent = "ekiden_key=a; ekiden_key_8321=b; ekiden_key_8322=c"
    for host, found in (("desk.example.com", "a"), ("127.0.0.1:8321", "b"), ("[::1]:8322", "c")):
        assert kept_keys(Headers({"cookie": sent, "host": host})) == [found]


@each_case(
    ("sent", "found"),
    [
        ("ekiden_key=a", ["a"]),
        (" ekiden_key=a ;b=c", ["a"]),
        ("ekiden_key=a=b", ["a=b"]),
        ("ekiden_key", [""]),
        ("EKIDEN_KEY=a", []),
        ("xekiden_key=a; ekiden_key2=b; ekiden_key =c", []),
        ("x=ekiden_key=a", []),
        ("", []),
        (";;;", []),
    ],
)
def test_cookies_are_read_strictly(sent: str, found: list[str]) -> None:
    assert kept_keys(Headers({"cookie": sent})) == found
