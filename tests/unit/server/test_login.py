"""How the console gets in."""

from __future__ import annotations

from collections.abc import AsyncIterator
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI

from ekiden import __version__
from ekiden.server import ServerConfig
from ekiden.server.access import csrf_token
from tests.support.serving import application, client_of
from tests.unit.server.keyed import bearer, is_problem, keys_of, make_key

API = "/api/v1"
LOGIN, LOGOUT, ME = f"{API}/login", f"{API}/logout", f"{API}/me"
SESSIONS = f"{API}/sessions"
UNKNOWN = "ek_abcdefgh_" + "a" * 40
DAYS_30 = "2592000"


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[FastAPI]:
    config = ServerConfig(hosts=["desk.example.com"], origins=["https://other.example.com"])
    async with application(tmp_path, workers=0, config=config) as running:
        yield running


@pytest.fixture
async def client(app: FastAPI) -> AsyncIterator[httpx2.AsyncClient]:
    async with client_of(app) as caller:
        yield caller


def set_cookie(response: httpx2.Response) -> Any:
    """The cookie that the answer sets, with its attributes."""
    [text] = response.headers.get_list("set-cookie")
    return SimpleCookie(text)["ekiden_login"]


def is_forgotten(response: httpx2.Response) -> bool:
    found = set_cookie(response)
    return bool(found.value == "" and found["max-age"] == "0" and found["path"] == "/")


async def test_a_key_becomes_an_http_only_cookie(app: FastAPI, client: httpx2.AsyncClient) -> None:
    made = await make_key(app, "read", "answer", name="Zoë 李", tenant="acme")
    found = await client.post(LOGIN, json={"key": f" {made.text}\n"})
    assert found.status_code == 200
    kept = set_cookie(found)
    assert found.json() == {
        "name": "Zoë 李",
        "tenant": "acme",
        "scopes": ["answer", "read"],
        "local": False,
        "csrf_token": csrf_token(kept.value),
        "version": __version__,
        "console": app.state.has_console,
    }
    assert made.text.rpartition("_")[2] not in str(kept)
    assert (kept["path"], kept["max-age"]) == ("/", DAYS_30)
    assert kept["httponly"] is True
    assert kept["samesite"].lower() == "strict"
    assert (kept["secure"], kept["domain"]) == ("", "")
    assert found.headers["cache-control"] == "no-store"
    assert made.text not in found.text


@pytest.mark.parametrize(
    ("address", "headers"),
    [
        (f"https://127.0.0.1{LOGIN}", {}),
        (f"http://desk.example.com{LOGIN}", {"Origin": "https://desk.example.com"}),
    ],
    ids=["tls", "proxy"],
)
async def test_over_tls_the_cookie_is_secure(
    app: FastAPI, client: httpx2.AsyncClient, address: str, headers: dict[str, str]
) -> None:
    made = await make_key(app)
    found = await client.post(address, json={"key": made.text}, headers=headers)
    assert set_cookie(found)["secure"] is True


async def test_a_login_cookie_replaces_the_key(app: FastAPI, client: httpx2.AsyncClient) -> None:
    made = await make_key(app, "admin")
    token = (await client.post(LOGIN, json={"key": made.text})).json()["csrf_token"]
    assert (await client.get(SESSIONS)).status_code == 200
    me = (await client.get(ME)).json()
    assert (me["csrf_token"], me["scopes"]) == (
        token,
        ["admin", "answer", "history", "read", "run"],
    )
    body = {"name": "ci", "scopes": ["read"]}
    refused = await client.post(f"{API}/keys", json=body)
    assert is_problem(refused, 403, "auth.csrf")
    assert "set-cookie" not in refused.headers
    done = await client.post(f"{API}/keys", json=body, headers={"X-CSRF-Token": token})
    assert done.status_code == 201


async def test_logging_out_ends_the_login_but_not_the_key(
    app: FastAPI, client: httpx2.AsyncClient
) -> None:
    made = await make_key(app)
    entered = await client.post(LOGIN, json={"key": made.text})
    token, copied = entered.json()["csrf_token"], set_cookie(entered).value
    assert is_problem(await client.post(LOGOUT), 403, "auth.csrf")
    out = await client.post(LOGOUT, headers={"X-CSRF-Token": token})
    assert (out.status_code, out.content) == (204, b"")
    assert is_forgotten(out)
    assert is_problem(await client.get(ME), 401, "auth.required")
    assert (await client.get(ME, headers=bearer(made))).status_code == 200
    client.cookies.set("ekiden_login", copied)
    assert is_problem(await client.get(ME), 401, "auth.required")


async def test_a_second_login_ends_the_first(app: FastAPI, client: httpx2.AsyncClient) -> None:
    made = await make_key(app)
    first = set_cookie(await client.post(LOGIN, json={"key": made.text})).value
    second = set_cookie(await client.post(LOGIN, json={"key": made.text})).value
    assert (await client.get(ME)).status_code == 200
    client.cookies.clear()
    for token, status in ((first, 401), (second, 200)):
        found = await client.get(ME, headers={"Cookie": f"ekiden_login={token}"})
        assert found.status_code == status


async def test_failed_logins_are_limited_but_a_valid_key_is_accepted(
    app: FastAPI, client: httpx2.AsyncClient
) -> None:
    made = await make_key(app)
    tries = [
        lambda: client.get(ME, headers=bearer(UNKNOWN)),
        lambda: client.get(ME, headers={"X-API-Key": "sk-other"}),
        lambda: client.post(LOGIN, json={"key": UNKNOWN}),
        lambda: client.get(ME, headers={"Cookie": "ekiden_login=nonesuch"}),
    ]
    answers = [await tries[number % 4]() for number in range(60)]
    statuses = [each.status_code for each in answers]
    assert statuses[:30] == [401] * 30
    assert statuses[-4:] == [429] * 4
    assert is_problem(answers[-1], 429, "request.too_many")
    assert int(answers[-1].headers["Retry-After"]) >= 1
    assert (await client.get(ME, headers=bearer(made))).status_code == 200
    assert (await client.get(ME)).status_code == 401
    assert (await client.post(LOGIN, json={"key": made.text})).status_code == 200


@pytest.mark.parametrize("key", [UNKNOWN, "x", " ", "sk-other", "ключ", "ek_abcdefgh_" + "é" * 40])
async def test_a_wrong_key_at_login_is_a_401(
    app: FastAPI, client: httpx2.AsyncClient, key: str
) -> None:
    await make_key(app)
    found = await client.post(LOGIN, json={"key": key})
    assert is_problem(found, 401, "auth.required")
    assert "set-cookie" not in found.headers
    assert found.headers["www-authenticate"].startswith("Bearer")
    assert key.strip() == "x" or not key.strip() or key not in found.text


async def test_a_wrong_key_at_login_is_refused_where_no_key_is_needed(
    client: httpx2.AsyncClient,
) -> None:
    assert is_problem(await client.post(LOGIN, json={"key": UNKNOWN}), 401, "auth.required")


async def test_a_revoked_key_cannot_log_in(app: FastAPI, client: httpx2.AsyncClient) -> None:
    made = await make_key(app)
    await (await keys_of(app)).revoke(made.key.id)
    app.state.keyring.forget()
    assert is_problem(await client.post(LOGIN, json={"key": made.text}), 401, "auth.expired")


async def test_a_cookie_of_a_key_revoked_later_is_cleared(
    app: FastAPI, client: httpx2.AsyncClient
) -> None:
    made = await make_key(app)
    await client.post(LOGIN, json={"key": made.text})
    await (await keys_of(app)).revoke(made.key.id)
    app.state.keyring.forget()
    refused = await client.get(SESSIONS)
    assert is_problem(refused, 401, "auth.expired")
    assert is_forgotten(refused)
    assert is_problem(await client.get(SESSIONS), 401, "auth.required")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b'"ek"',
        b"{}",
        b'{"key": 7}',
        b'{"key": null}',
        b'{"key": ""}',
        b'{"key": "a", "more": 1}',
        b'{"key": "a", "key": "b"}',
        b'{"key": "' + b"a" * 201 + b'"}',
    ],
)
async def test_an_invalid_login_request_is_refused(client: httpx2.AsyncClient, body: bytes) -> None:
    headers = {"Content-Type": "application/json"}
    found = await client.post(LOGIN, content=body, headers=headers)
    assert is_problem(found, 422, "request.invalid")


async def test_the_login_body_is_limited_before_authentication(
    app: FastAPI, client: httpx2.AsyncClient
) -> None:
    await make_key(app)
    found = await client.post(LOGIN, json={"key": "a" * 5000})
    assert is_problem(found, 413, "request.too_large")


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example.com"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:3000"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors"},
        {"Host": "evil.example.com"},
    ],
)
async def test_foreign_pages_cannot_log_in_or_out(
    app: FastAPI, client: httpx2.AsyncClient, headers: dict[str, str]
) -> None:
    made = await make_key(app)
    found = await client.post(LOGIN, json={"key": made.text}, headers=headers)
    assert is_problem(found, 403, "auth.origin")
    assert "set-cookie" not in found.headers
    login = await (await keys_of(app)).logins.begin(made.key.id)
    token = {"Cookie": f"ekiden_login={login}", "X-CSRF-Token": csrf_token(login)}
    assert is_problem(await client.post(LOGOUT, headers=token | headers), 403, "auth.origin")


async def test_an_own_page_can_log_in_despite_an_old_cookie(
    app: FastAPI, client: httpx2.AsyncClient
) -> None:
    made = await make_key(app)
    headers = {
        "Origin": "http://127.0.0.1",
        "Sec-Fetch-Site": "same-origin",
        "Cookie": f"ekiden_login={UNKNOWN}",
    }
    found = await client.post(LOGIN, json={"key": made.text}, headers=headers)
    assert found.status_code == 200
    assert set_cookie(found).value not in ("", UNKNOWN)


async def test_login_attempts_count_towards_the_rate_limit(tmp_path: Path) -> None:
    config = ServerConfig(rate=0.001, burst=2)
    async with application(tmp_path, workers=0, config=config) as app, client_of(app) as client:
        made = await make_key(app)
        assert (await client.get(ME, headers=bearer(made))).status_code == 200
        assert (await client.post(LOGIN, json={"key": made.text})).status_code == 200
        refused = await client.post(LOGIN, json={"key": made.text})
        assert is_problem(refused, 429, "request.too_many")
        assert "set-cookie" not in refused.headers


async def test_a_login_is_never_replayed_by_an_idempotency_key(
    app: FastAPI, client: httpx2.AsyncClient
) -> None:
    made, tokens = await make_key(app), set()
    for number in (1, 2):
        headers = {"Idempotency-Key": "once"}
        found = await client.post(LOGIN, json={"key": made.text}, headers=headers)
        tokens.add(set_cookie(found).value)
        assert len(tokens) == number
        assert "idempotency-replayed" not in found.headers


async def test_a_local_caller_is_reported_as_local(client: httpx2.AsyncClient) -> None:
    for headers in ({}, {"Cookie": f"ekiden_login={UNKNOWN}"}):
        found = await client.get(ME, headers=headers)
        assert found.status_code == 200
        told = found.json()
        assert (told["name"], told["local"], told["csrf_token"]) == ("local", True, None)
        assert told["scopes"] == ["admin", "answer", "history", "read", "run"]
    assert (await client.post(LOGOUT)).status_code == 204


async def test_a_caller_with_a_key_header_gets_no_csrf_token(
    app: FastAPI, client: httpx2.AsyncClient
) -> None:
    made = await make_key(app, "run")
    told = (await client.get(ME, headers=bearer(made))).json()
    assert (told["local"], told["csrf_token"], told["scopes"]) == (False, None, ["run"])


async def test_only_posting_a_login_needs_no_key(app: FastAPI, client: httpx2.AsyncClient) -> None:
    await make_key(app)
    for method in ("GET", "PUT", "DELETE", "OPTIONS"):
        assert is_problem(await client.request(method, LOGIN), 401, "auth.required")
    for path in (f"{LOGIN}/", f"{LOGIN}/x", f"{API}//login", LOGOUT):
        assert is_problem(await client.post(path, json={"key": "x"}), 401, "auth.required")
