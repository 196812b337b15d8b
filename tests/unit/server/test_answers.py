"""Answers that are long, or that come line by line."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import httpx2
import pytest

from ekiden.api.local import administration
from ekiden.audit import AuditQuery
from ekiden.core.errors import StoreUnavailable
from ekiden.server.answers import answer, json_lines
from ekiden.storage.base import Store
from tests.support.serving import served
from tests.unit.server.desks import API, problem, serving

_LONG = "x" * 100_000 + "\n"


async def test_lines_are_generated_only_as_they_are_sent() -> None:
    read = 0

    async def lines() -> AsyncGenerator[str, None]:
        nonlocal read
        while True:
            read += 1
            yield _LONG

    given = await json_lines(lines(), filename="a.jsonl")
    assert read == 1
    body = aiter(given.body_iterator)
    assert len(await anext(body)) == len(_LONG)
    assert read <= 2
    assert isinstance(body, AsyncGenerator)
    await body.aclose()


async def test_a_disconnected_client_stops_the_generator(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    over = asyncio.Event()

    async def endless(store: Store, query: AuditQuery) -> AsyncGenerator[str, None]:
        try:
            while True:
                await asyncio.sleep(0)
                yield _LONG
        finally:
            over.set()

    monkeypatch.setattr(administration, "export_lines", endless)
    async with serving(tmp_path, monkeypatch) as desk, served(desk.app) as url:
        async with (
            httpx2.AsyncClient(base_url=url, timeout=60) as client,
            client.stream("GET", f"{API}/audit/export") as response,
        ):
            assert response.status_code == 200
            async for chunk in response.aiter_bytes():
                assert chunk
                break
        async with asyncio.timeout(60):
            await over.wait()


async def test_an_error_before_the_first_line_is_a_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(store: Store, query: AuditQuery) -> AsyncGenerator[str, None]:
        raise StoreUnavailable("the database is away")
        yield ""

    monkeypatch.setattr(administration, "export_lines", broken)
    async with serving(tmp_path, monkeypatch) as desk:
        problem(await desk("GET", "/audit/export"), 503, "store.unavailable")


async def test_an_error_in_the_middle_breaks_off_the_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(store: Store, query: AuditQuery) -> AsyncGenerator[str, None]:
        yield _LONG
        raise StoreUnavailable("the database is away")

    monkeypatch.setattr(administration, "export_lines", broken)
    async with (
        serving(tmp_path, monkeypatch) as desk,
        served(desk.app) as url,
        httpx2.AsyncClient(base_url=url, timeout=60) as client,
    ):
        with pytest.raises(httpx2.RemoteProtocolError):
            await client.get(f"{API}/audit/export")


def test_lone_surrogates_are_sent_as_escapes() -> None:
    assert answer({"a": "\ud800"}).body == b'{"a":"\\ud800"}'
    assert answer({"a": "客"}).body == '{"a":"客"}'.encode()
