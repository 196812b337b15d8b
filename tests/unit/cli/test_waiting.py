"""Waiting for a session that another process has."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from ekiden import Agent, CodeContext, MemoryStore, Session, SessionBusy
from ekiden.cli.errors import exit_for_outcome
from ekiden.cli.run_follow import read_in_turn
from ekiden.cli.run_observer import RunView
from ekiden.project.run_tasks import start_run
from ekiden.runtime import RunConfig, RunResultStreaming
from ekiden.storage.base import Claim, NewSession

Captured = pytest.CaptureFixture[str]


async def greet(ctx: CodeContext[Any]) -> str:
    return "hello"


async def held(store: MemoryStore) -> Claim:
    """The session `s1`, claimed by another process."""
    new = NewSession(id="s1", agent="clerk")
    claim, _ = await store.claim("s1", owner="other-1", lease_s=60, create=new)
    return claim


async def watch(
    store: MemoryStore, config: RunConfig, *, as_json: bool = False, agent: Agent[Any] | None = None
) -> int:
    session = Session("s1", store=store)

    def start(config: RunConfig) -> RunResultStreaming:
        return start_run(agent or Agent("clerk", run=greet), "hi", session, config=config)

    observer = RunView(as_json=as_json, stream=False, how_to_resume="go on")
    result = await read_in_turn(observer, start, config, session_id="s1")
    observer.report(result)
    return exit_for_outcome(result.outcome)


async def told(capsys: Captured) -> str:
    """What standard error has, as soon as it has something."""
    async with asyncio.timeout(60):
        while True:
            text = capsys.readouterr().err
            if text:
                return text
            await asyncio.sleep(0)


async def test_a_free_session_runs_without_a_notice(capsys: Captured) -> None:
    assert await watch(MemoryStore(), RunConfig()) == 0
    assert capsys.readouterr().err == "[s1] user → clerk\n"


async def test_a_busy_session_is_reported_with_owner_and_maximum_wait(capsys: Captured) -> None:
    store = MemoryStore()
    claim = await held(store)
    waiting = asyncio.create_task(watch(store, RunConfig(busy_timeout_s=45)))
    remark = await told(capsys)
    assert remark.startswith("waiting for session s1, held by other-1, at most 45 s; unless it is")
    await store.release(claim)
    assert await waiting == 0
    assert capsys.readouterr().out == "hello\n"


async def test_json_output_reports_a_busy_session(capsys: Captured) -> None:
    store = MemoryStore()
    claim = await held(store)
    waiting = asyncio.create_task(watch(store, RunConfig(), as_json=True))
    facts = json.loads(await told(capsys))["waiting"]
    assert facts.pop("lease_s") <= 60
    assert facts == {"session_id": "s1", "owner": "other-1", "at_most_s": 30}
    await store.release(claim)
    assert await waiting == 0


async def test_without_waiting_a_busy_session_is_refused_without_a_notice(capsys: Captured) -> None:
    store = MemoryStore()
    await held(store)
    with pytest.raises(SessionBusy):
        await watch(store, RunConfig(on_busy="refuse"))
    assert capsys.readouterr().err == ""


async def test_waiting_for_a_busy_session_ends_at_the_timeout() -> None:
    store = MemoryStore()
    await held(store)
    with pytest.raises(SessionBusy):
        await watch(store, RunConfig(busy_timeout_s=0))


async def test_a_busy_session_inside_a_run_does_not_repeat_the_run() -> None:
    calls: list[str] = []

    async def nested(ctx: CodeContext[Any]) -> str:
        calls.append("call")
        raise SessionBusy("s1", owner="other-1", free_in_s=1)

    with pytest.raises(SessionBusy):
        await watch(MemoryStore(), RunConfig(), agent=Agent("clerk", run=nested))
    assert calls == ["call"]
