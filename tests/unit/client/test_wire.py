"""Requests: what is sent again, and what is not."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import httpx2
import pytest

from ekiden.client import AsyncClient, ClientMisconfigured, ServerProblem, ServerUnavailable
from ekiden.core.current_agent import AGENT_HEADER, AGENT_VARIABLE, acting_as
from ekiden.core.errors import SessionNotFound
from ekiden.core.errors.server import (
    IdempotencyConflict,
    RequestInvalid,
    RunNotFound,
    TooManyRequests,
)

Answer = httpx2.Response | Exception


class Script:
    """Answers requests one after the other, and remembers them."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.requests: list[httpx2.Request] = []

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def client_of(script: Callable[[httpx2.Request], httpx2.Response], **more: Any) -> AsyncClient:
    transport = httpx2.MockTransport(script)
    return AsyncClient("http://server", backoff_s=0, transport=transport, **more)


def ok(**body: Any) -> httpx2.Response:
    return httpx2.Response(200, json=body)


def problem(status: int, code: str, **headers: str) -> httpx2.Response:
    body = {"code": code, "detail": "words", "status": status}
    return httpx2.Response(status, json=body, headers=headers)


RUN = {"run_id": "s:1", "session_id": "s", "status": "done"}


async def test_a_lost_connection_is_retried_with_the_same_idempotency_key() -> None:
    script = Script(
        httpx2.ConnectError("refused"), httpx2.ReadError("cut"), httpx2.Response(202, json=RUN)
    )
    async with client_of(script) as client:
        assert (await client.runs.start("hi")).run_id == "s:1"
    keys = {request.headers["Idempotency-Key"] for request in script.requests}
    assert len(script.requests) == 3
    assert len(keys) == 1


async def test_two_requests_have_two_idempotency_keys() -> None:
    script = Script(httpx2.Response(202, json=RUN), httpx2.Response(202, json=RUN))
    async with client_of(script) as client:
        await client.runs.start("hi")
        await client.runs.start("hi")
    assert len({request.headers["Idempotency-Key"] for request in script.requests}) == 2


async def test_creating_an_api_key_is_not_retried() -> None:
    script = Script(httpx2.ReadError("cut"))
    async with client_of(script) as client:
        with pytest.raises(ServerUnavailable):
            await client.keys.create("me", scopes=["read"])
    assert "Idempotency-Key" not in script.requests[0].headers


async def test_retries_are_limited() -> None:
    script = Script(*(httpx2.ConnectTimeout("") for _ in range(3)))
    async with client_of(script, retries=2) as client:
        with pytest.raises(ServerUnavailable, match="ConnectTimeout") as caught:
            await client.runs.get("s:1")
    assert caught.value.url == "http://server"
    assert not script.answers


async def test_a_busy_server_is_retried_after_the_delay() -> None:
    script = Script(
        problem(429, "request.too_many", **{"Retry-After": "1"}),
        problem(503, "server.stopping"),
        ok(**RUN),
    )
    async with client_of(script) as client:
        assert (await client.runs.get("s:1")).status == "done"


async def test_a_long_retry_after_is_not_waited_for() -> None:
    script = Script(problem(429, "request.too_many", **{"Retry-After": "3600"}))
    async with client_of(script) as client:
        with pytest.raises(TooManyRequests):
            await client.runs.get("s:1")


async def test_a_server_that_stays_busy_is_an_error() -> None:
    script = Script(*(problem(429, "request.too_many") for _ in range(2)))
    async with client_of(script, retries=1) as client:
        with pytest.raises(TooManyRequests):
            await client.runs.get("s:1")


async def test_other_errors_are_not_retried() -> None:
    script = Script(problem(404, "session.not_found"))
    async with client_of(script) as client:
        with pytest.raises(SessionNotFound, match="words"):
            await client.sessions.get("s")


async def test_a_conflict_after_a_timeout_is_retried() -> None:
    script = Script(
        httpx2.ReadTimeout("slow"),
        problem(409, "request.idempotency"),
        httpx2.Response(202, json=RUN),
    )
    async with client_of(script) as client:
        assert (await client.runs.start("hi")).session_id == "s"


async def test_a_used_idempotency_key_is_an_error() -> None:
    script = Script(problem(409, "request.idempotency"))
    async with client_of(script) as client:
        with pytest.raises(IdempotencyConflict):
            await client.runs.start("hi")


async def test_a_not_found_after_a_lost_delete_counts_as_deleted() -> None:
    script = Script(httpx2.ReadError("cut"), problem(404, "session.not_found"))
    async with client_of(script) as client:
        await client.sessions.delete("s")
    script = Script(problem(404, "session.not_found"))
    async with client_of(script) as client:
        with pytest.raises(SessionNotFound):
            await client.sessions.delete("s")


async def test_the_api_key_is_not_sent_along_redirects() -> None:
    script = Script(httpx2.Response(307, headers={"Location": "http://elsewhere/"}))
    async with client_of(script, api_key="k-1") as client:
        with pytest.raises(ServerProblem, match="status 307"):
            await client.runs.get("s:1")
    assert script.requests[0].headers["Authorization"] == "Bearer k-1"
    assert len(script.requests) == 1


@pytest.mark.parametrize("body", [b"<html>", b"\xff"])
async def test_an_unexpected_response_is_an_error(body: bytes) -> None:
    async with client_of(Script(httpx2.Response(200, content=body))) as client:
        with pytest.raises(ServerProblem, match="not JSON"):
            await client.runs.get("s:1")
    async with client_of(Script(httpx2.Response(404, content=body))) as client:
        with pytest.raises(ServerProblem, match="status 404"):
            await client.runs.get("s:1")


async def test_a_lone_surrogate_is_refused_before_sending() -> None:
    script = Script()
    async with client_of(script) as client:
        with pytest.raises(RequestInvalid, match="a lone surrogate"):
            await client.sessions.list(agent="\ud800").page()
        with pytest.raises(RequestInvalid, match="a lone surrogate"):
            await client.runs.start("half \ud800")
    assert script.requests == []


async def test_lists_are_read_page_by_page() -> None:
    def session(number: int) -> dict[str, Any]:
        return {"session_id": f"s{number}"}

    script = Script(
        ok(items=[session(1), session(2)], next_cursor="c1"),
        ok(items=[session(3)], next_cursor=None),
    )
    async with client_of(script) as client:
        found = [each.session_id async for each in client.sessions.list(agent="a b")]
    assert found == ["s1", "s2", "s3"]
    assert script.requests[0].url.params["agent"] == "a b"
    assert "cursor" not in script.requests[0].url.params
    assert script.requests[1].url.params["cursor"] == "c1"


async def test_lists_and_booleans_are_encoded_in_the_query() -> None:
    script = Script(ok(items=[], next_cursor=None), ok(items=[], next_cursor=None))
    async with client_of(script) as client:
        await client.traces.spans("s", kinds=["run", "agent"], children=False).page(limit=3)
    query = script.requests[0].url.params
    assert query.get_list("kinds") == ["run", "agent"]
    assert (query["children"], query["limit"]) == ("false", "3")


async def test_a_client_in_an_agent_sends_the_agent_header(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    script = Script(*(httpx2.Response(202, json=RUN) for _ in range(3)))
    async with client_of(script) as client:
        await client.runs.start("hi")
        with acting_as("desk"):
            await client.runs.start("hi")
        monkeypatch.setenv(AGENT_VARIABLE, "desk")
        await client.runs.start("hi")
    told = [request.headers.get(AGENT_HEADER) for request in script.requests]
    assert told == [None, "1", "1"]


async def test_the_timeout_is_extended_by_the_requested_wait() -> None:
    asked: list[float] = []

    def script(request: httpx2.Request) -> httpx2.Response:
        asked.append(request.extensions["timeout"]["read"])
        return problem(404, "run.not_found")

    async with client_of(script, timeout_s=2.0) as client:
        for wait_s in (0, 300.0):
            with pytest.raises(RunNotFound):
                await client.runs.get("s:1", wait_s=wait_s)
    assert asked == [2.0, 302.0]


async def test_without_the_http_package_requests_say_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "httpx2", None)
    async with AsyncClient("http://server") as client:
        with pytest.raises(ClientMisconfigured, match=r"pip install 'ekiden\[client\]'"):
            await client.runs.start("hi")
        with pytest.raises(ClientMisconfigured, match=r"pip install 'ekiden\[client\]'"):
            async for _ in client.runs.stream("hi"):
                pass
