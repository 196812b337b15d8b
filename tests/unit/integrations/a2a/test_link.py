"""Speaking with remote agents that are away, slow, strange or hostile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from ekiden import UserError
from ekiden.core.errors.integrations import RemoteAgentUnavailable
from ekiden.integrations.a2a import RemoteA2A, a2a_agent
from ekiden.integrations.a2a.agent import cancel_remote
from ekiden.integrations.a2a.link import RemoteLink
from ekiden.integrations.a2a.values import View
from ekiden.runtime import Rollback
from ekiden.testing.servers.loopback import HttpReply, HttpRequest, LoopbackServer
from tests.support.a2a_server import Partner, partner_served
from tests.support.serving import served


def link_to(url: str, **settings: Any) -> RemoteLink:
    made = RemoteA2A(card=url, **{"patience_s": 0.2, "poll_s": 0.01, **settings})
    return RemoteLink(made, name="printer")


async def said(link: RemoteLink, text: str = "flyers") -> View:
    return await link.send(text, message_id="m1", context_id="c1")


@asynccontextmanager
async def answering(
    card: Callable[[Request], Response] | None = None,
    rpc: Callable[[Request], Any] | None = None,
) -> AsyncIterator[str]:
    """A server that answers with a given response."""

    async def get(request: Request) -> Response:
        return plain_card(request) if card is None else card(request)

    async def post(request: Request) -> Response:
        assert rpc is not None
        answer = rpc(request)
        made: Response = await answer if asyncio.iscoroutine(answer) else answer
        return made

    app = Starlette(
        routes=[
            Route("/.well-known/agent-card.json", get),
            Route("/rpc", post, methods=["POST"]),
        ]
    )
    async with served(app) as url:
        yield url


def plain_card(request: Request) -> Response:
    return JSONResponse(
        {
            "name": "x",
            "description": "x",
            "version": "1",
            "supportedInterfaces": [
                {
                    "url": f"{request.base_url}rpc",
                    "protocolBinding": "JSONRPC",
                    "protocolVersion": "1.0",
                }
            ],
            "capabilities": {},
            "defaultInputModes": [],
            "defaultOutputModes": [],
            "skills": [],
        }
    )


async def test_an_unreachable_agent_is_unavailable() -> None:
    view = await said(link_to("http://127.0.0.1:9"))
    assert view.state == "unavailable"
    assert "cannot be reached" in view.text


async def test_attempts_that_take_longer_than_the_patience_come_to_an_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ekiden.integrations.a2a.link._FIRST_DELAY_S", 1e-9)
    link = link_to("http://127.0.0.1:9", patience_s=1e-3)
    assert "cannot be reached" in (await said(link)).text
    assert "cannot be reached" in (await link.wait("t")).text


@pytest.mark.parametrize(
    ("card", "state"),
    [
        (lambda _: Response("nonsense"), "invalid"),
        (lambda _: JSONResponse([]), "invalid"),
        (lambda _: JSONResponse({}), "invalid"),
        (lambda _: Response(status_code=404), "invalid"),
        (lambda _: Response(status_code=401), "invalid"),
        (lambda _: Response(status_code=503), "unavailable"),
        (lambda _: RedirectResponse("http://127.0.0.1:9/"), "invalid"),
        (lambda _: Response(b"x" * 9_000_000), "invalid"),
        (lambda _: Response(b"x", headers={"Content-Encoding": "gzip"}), "invalid"),
    ],
)
async def test_an_invalid_card_is_refused(card: Callable[[Request], Response], state: str) -> None:
    async with answering(card) as url:
        assert (await said(link_to(url))).state == state


@pytest.mark.parametrize(
    "result",
    [
        [],
        {"jsonrpc": "2.0", "id": 1},
        {"jsonrpc": "2.0", "id": 1, "result": {}},
        {"jsonrpc": "2.0", "id": 1, "result": {"task": {"status": {"state": 5, "message": 1}}}},
        {"jsonrpc": "2.0", "id": 1, "error": {"code": -32602, "message": "no" * 5000}},
        {"jsonrpc": "2.0", "id": 1, "error": "no"},
    ],
)
async def test_an_invalid_response_is_reported_short(result: Any) -> None:
    async with answering(rpc=lambda _: JSONResponse(result)) as url:
        view = await said(link_to(url))
    assert view.state == "invalid"
    assert len(view.text) < 1000


async def test_a_response_that_is_too_long_is_not_read_completely() -> None:
    async def long() -> AsyncIterator[bytes]:
        for _ in range(20):
            yield b"x" * 1_000_000
            await asyncio.sleep(0)

    async with answering(rpc=lambda _: StreamingResponse(long())) as url:
        view = await said(link_to(url))
    assert (view.state, view.text) == ("invalid", "its answer is too long")


async def test_a_busy_server_is_retried() -> None:
    left = 3

    def busy(request: Request) -> Response:
        nonlocal left
        left -= 1
        if left > 0:
            return Response(status_code=503)
        task = {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}
        return JSONResponse({"jsonrpc": "2.0", "id": 1, "result": {"task": task}})

    async with answering(rpc=busy) as url:
        view = await said(link_to(url, patience_s=5.0))
    assert (view.state, view.task_id) == ("working", "t")


async def test_a_task_that_never_ends_times_out() -> None:
    partner = Partner()
    async with partner_served(partner, streaming=False) as (url, _):
        link = link_to(url)
        view = await said(link, "hold on")
        view = await link_to(url, timeout_s=0.2).wait(view.task_id)
        assert view.state == "unavailable"
        assert "within 0.2 s" in view.text
        assert await link.cancel("nobody")
        partner.release.set()


async def test_a_rollback_tolerates_an_unreachable_agent() -> None:
    for settings in ({}, {"token_env": "NOT_SET_AT_ALL"}):
        remote = RemoteA2A(card="http://127.0.0.1:9", patience_s=0.1, **settings)
        await cancel_remote(
            Rollback(
                key="k",
                arguments={"settings": remote.to_json(), "task": "t"},
                handoff_id="h",
                agent="printer",
                reason="",
                context=None,
                idempotency_key="k",
            )
        )


def test_invalid_settings_are_refused() -> None:
    for wrong in (
        {"token_env": "a b"},
        {"headers_env": {"X": "1x"}},
        {"timeout_s": 0},
        {"poll_s": float("inf")},
    ):
        with pytest.raises(UserError):
            RemoteA2A(card="https://x.example", **wrong)


def test_only_https_or_localhost_is_called() -> None:
    for card in ("", "http://a.example", "ftp://x", "https://u:p@x.example", "https://", "x", 1):
        with pytest.raises(UserError):
            a2a_agent(card, name="printer")
    for card in ("http://[::1]:9", "http://localhost", "http://127.0.0.1:80/card.json"):
        assert a2a_agent(card, name="printer").name == "printer"
    with pytest.raises(UserError):
        RemoteA2A(card="https://x.example:99999999")


def test_an_unset_variable_is_named() -> None:
    remote = RemoteA2A(card="https://x.example", token_env="NOT_SET_AT_ALL")
    with pytest.raises(RemoteAgentUnavailable, match="NOT_SET_AT_ALL"):
        remote.headers("printer")


def test_a_trailing_newline_of_a_credential_is_removed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PARTNER_CRED", "s3cretZZhunter29911abc\n")
    settings = RemoteA2A(card="https://x.example", token_env="PARTNER_CRED")
    assert settings.headers("p") == {"Authorization": "Bearer s3cretZZhunter29911abc"}


@pytest.mark.parametrize(
    "secret", ["s3cretZZ\nhunter29911", "s3cretZZ\x7fhunter29911", "s3crétZZ9"]
)
async def test_an_invalid_credential_is_named_and_not_shown(
    secret: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PARTNER_CRED", secret)
    for more in ({"token_env": "PARTNER_CRED"}, {"headers_env": {"X-Auth": "PARTNER_CRED"}}):
        with pytest.raises(RemoteAgentUnavailable, match="PARTNER_CRED") as caught:
            await said(link_to("http://127.0.0.1:9", **more))
        assert "s3cr" not in str(caught.value)


@asynccontextmanager
async def _dripping() -> AsyncIterator[str]:
    """A server that begins to answer and never ends."""

    class Dripping(LoopbackServer):
        async def handle(self, request: HttpRequest, reply: HttpReply) -> None:
            await reply.text("{ }", sent=1)
            await asyncio.Event().wait()

    async with Dripping() as server:
        yield server.origin


async def test_a_response_that_never_ends_times_out() -> None:
    async with _dripping() as url, asyncio.timeout(60):
        link = link_to(url, timeout_s=0.2)
        view = await said(link)
        assert view.state == "unavailable"
        assert "within 0.2 s" in view.text
        assert await link.cancel("t") == "it did not answer within 0.2 s"
