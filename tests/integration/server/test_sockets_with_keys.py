"""Keys on a real socket: WebSockets of pages and programs, and streams whose key is revoked."""

from __future__ import annotations

from pathlib import Path

import httpx2
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.typing import Subprotocol

from ekiden.project.keys import KeyStore
from ekiden.server import ServerConfig
from ekiden.server.access import csrf_token
from ekiden.server.middleware import admission
from tests.support.serving import application, served

EVENTS = "/api/v1/events"


async def test_a_websocket_needs_a_key_before_it_is_accepted(tmp_path: Path) -> None:
    async with application(tmp_path, workers=0) as app, served(app) as url:
        keys = KeyStore((await app.state.service.tenant_service()).store)
        made = await keys.create("page", scopes=["read"])
        other = await keys.create("asker", scopes=["answer"])
        address = url.replace("http", "ws") + EVENTS
        offered = [Subprotocol("ekiden.v1"), Subprotocol(f"ekiden.bearer.{made.text}")]
        async with connect(address, subprotocols=offered) as socket:
            assert socket.subprotocol == "ekiden.v1"
        async with connect(address, additional_headers={"X-API-Key": made.text}) as socket:
            assert socket.subprotocol is None
        for status, headers in (
            (401, {}),
            (401, {"Authorization": "Bearer ek_abcdefgh_" + "a" * 40}),
            (403, {"X-API-Key": other.text}),
            (403, {"X-API-Key": made.text, "Origin": "https://evil.example.com"}),
        ):
            with pytest.raises(InvalidStatus) as caught:
                async with connect(address, additional_headers=headers):
                    pass
            assert caught.value.response.status_code == status
            assert b"auth." in (caught.value.response.body or b"")


async def test_a_websocket_with_a_cookie_is_for_the_servers_own_pages(tmp_path: Path) -> None:
    async with application(tmp_path, workers=0) as app, served(app) as url:
        keys = KeyStore((await app.state.service.tenant_service()).store)
        made = await keys.create("page", scopes=["read"])
        address = url.replace("http", "ws") + EVENTS
        login = await keys.logins.begin(made.key.id)
        cookie = {"Cookie": f"ekiden_login_{url.rpartition(':')[2]}={login}"}
        async with connect(address, additional_headers={**cookie, "Origin": url}) as socket:
            assert socket.subprotocol is None
        for headers in (cookie, {**cookie, "Origin": "http://127.0.0.1:1"}):
            with pytest.raises(InvalidStatus) as caught:
                async with connect(address, additional_headers=headers):
                    pass
            assert caught.value.response.status_code == 403
            assert b"auth.origin" in (caught.value.response.body or b"")


async def test_a_websocket_with_a_stale_cookie_gets_a_header_deleting_the_cookie(
    tmp_path: Path,
) -> None:
    async with application(tmp_path, workers=0) as app, served(app) as url:
        keys = KeyStore((await app.state.service.tenant_service()).store)
        made = await keys.create("page", scopes=["read"])
        login = await keys.logins.begin(made.key.id)
        await keys.revoke(made.key.id)
        headers = {"Cookie": f"ekiden_login_{url.rpartition(':')[2]}={login}", "Origin": url}
        with pytest.raises(InvalidStatus) as caught:
            async with connect(url.replace("http", "ws") + EVENTS, additional_headers=headers):
                pass
        refused = caught.value.response
        assert refused.status_code == 401
        assert "Max-Age=0" in refused.headers["Set-Cookie"]


async def test_a_websocket_ends_when_its_browser_logs_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admission, "RECHECK_S", 0.0)
    config = ServerConfig(heartbeat_s=0.05)
    async with application(tmp_path, workers=0, config=config) as app, served(app) as url:
        keys = KeyStore((await app.state.service.tenant_service()).store)
        login = await keys.logins.begin((await keys.create("page", scopes=["read"])).key.id)
        headers = {"Cookie": f"ekiden_login_{url.rpartition(':')[2]}={login}", "Origin": url}
        address = url.replace("http", "ws") + f"{EVENTS}?inbox=true"
        async with connect(address, additional_headers=headers) as socket:
            await socket.recv()
            out = {**headers, "X-CSRF-Token": csrf_token(login)}
            async with httpx2.AsyncClient() as browser:
                assert (await browser.post(f"{url}/api/v1/logout", headers=out)).is_success
            with pytest.raises(ConnectionClosed):
                while True:
                    await socket.recv()


async def test_a_websocket_ends_when_its_key_is_revoked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admission, "RECHECK_S", 0.0)
    config = ServerConfig(heartbeat_s=0.05)
    async with application(tmp_path, workers=0, config=config) as app, served(app) as url:
        keys = KeyStore((await app.state.service.tenant_service()).store)
        made = await keys.create("page", scopes=["read"])
        address = url.replace("http", "ws") + f"{EVENTS}?inbox=true"
        async with connect(address, additional_headers={"X-API-Key": made.text}) as socket:
            await socket.recv()
            await keys.revoke(made.key.id)
            app.state.keyring.forget()
            with pytest.raises(ConnectionClosed):
                while True:
                    await socket.recv()
            assert socket.close_code == 1008


async def test_a_stream_ends_when_its_key_is_revoked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admission, "RECHECK_S", 0.0)
    config = ServerConfig(heartbeat_s=0.05)
    async with application(tmp_path, config=config) as app, served(app) as url:
        keys = KeyStore((await app.state.service.tenant_service()).store)
        made = await keys.create("page", scopes=["read", "run"])
        headers = {"X-API-Key": made.text}
        async with httpx2.AsyncClient(base_url=url, headers=headers, timeout=60) as client:
            run = (await client.post("/api/v1/runs", json={"input": "Where is 1042?"})).json()
            path = f"/api/v1/sessions/{run['session_id']}/stream"
            async with client.stream("GET", path) as stream:
                assert stream.status_code == 200
                pieces = stream.aiter_bytes()
                await anext(pieces)
                await keys.revoke(made.key.id)
                app.state.keyring.forget()
                async for _ in pieces:
                    pass
            assert (await client.get("/api/v1/sessions")).status_code == 401
