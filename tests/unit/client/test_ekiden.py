"""`Ekiden.open` and `Ekiden.connect`: what they take, and what they leave behind."""

from __future__ import annotations

import asyncio
import inspect
from pathlib import Path
from typing import Any

import pytest

from ekiden import Agent, CodeContext, Ekiden, SqliteStore
from ekiden.client.errors import ClientMisconfigured
from ekiden.core.errors import UserError
from ekiden.core.errors.server import RequestInvalid


async def echo(ctx: CodeContext) -> str:
    return ctx.text


DESK: Agent[Any] = Agent("desk", run=echo)


async def test_a_store_may_be_a_path_an_address_or_an_open_object(tmp_path: Path) -> None:
    path = tmp_path / "店.db"
    async with Ekiden.open(path, team=DESK) as ek:
        assert (await ek.runs.run("hi", session_id="s")).output == "hi"
    async with SqliteStore(path) as store:
        async with Ekiden.open(store) as ek:
            assert [each.session_id async for each in ek.sessions.list()] == ["s"]
            with pytest.raises(UserError, match="there is no team"):
                await ek.runs.run("hi")
        assert (await store.get("s")).agent == "desk"
    left = [each for each in asyncio.all_tasks() if each is not asyncio.current_task()]
    assert left == []


@pytest.mark.parametrize(
    "options", [{"store": 5}, {"store": None}, {"workers": 0}, {"settings": {"model": "x"}}]
)
async def test_invalid_open_options_are_refused(options: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(UserError):
        async with Ekiden.open(**{"store": str(tmp_path / "x.db"), **options}):
            raise AssertionError("it was opened")
    assert not (tmp_path / "x.db").exists()


@pytest.mark.parametrize(
    "options", [{"url": 5}, {"key": 5}, {"retries": -1}, {"timeout_s": 0}, {"url": "ftp://x"}]
)
async def test_invalid_connect_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ClientMisconfigured):
        async with Ekiden.connect(**{"url": "http://127.0.0.1:1", **options}):
            raise AssertionError("it was connected")


async def test_methods_have_signatures_and_raise_when_awaited() -> None:
    async with Ekiden.open("memory:") as here, Ekiden.connect("http://127.0.0.1:1") as there:
        for ek in (here, there):
            assert "wait_s" in inspect.signature(ek.runs.get).parameters
            assert ek.runs.get.__doc__
        wrong = here.runs.get("")
        with pytest.raises(RequestInvalid):
            await wrong
        with pytest.raises(RequestInvalid, match="a lone surrogate"):
            await here.memory.store("a\ud800", user="m")
        with pytest.raises(AttributeError, match="it has agents"):
            getattr(here, "noth" + "ing")
