"""What is said to a team, and what comes of it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from ekiden.api.methods.called import AsyncStream
from ekiden.api.runs import Shown
from ekiden.client.ekiden import Ekiden
from ekiden.core.conversation.model import ModelDelta, Usage, text_of
from ekiden.core.errors import SessionBusy, SessionNotFound, UnknownAgent, UserError
from ekiden.core.errors.server import RequestInvalid, RunNotFound
from ekiden.core.events import Event
from ekiden.core.runs import Run, RunStarted


async def read(stream: AsyncStream[Shown]) -> list[Shown]:
    """All of it."""
    async with asyncio.timeout(60), stream as shown:
        return [each async for each in shown]


def numbers(shown: list[Shown]) -> list[int]:
    return [each.seq for each in shown if isinstance(each, Event)]


async def test_run_waits_for_the_end_of_a_run(relay: Ekiden) -> None:
    run = await relay.runs.run(
        "hello there",
        session_id="a",
        user_id="安娜",
        title="About 👋",
        correlation_id="c",
        priority="high",
        max_turns=9,
        on_busy="wait",
    )
    assert (run.run_id, run.session_id, run.status) == ("a:1", "a", "done")
    assert (run.agent, run.output, run.outcome) == ("desk", "you said: hello there", "done")
    assert (run.chain, run.handoffs, run.questions) == (("user", "triage", "desk"), ("a.h1",), ())
    assert (run.error, run.usage, run.is_active) == (None, Usage(), False)
    assert 0 < run.started_at <= run.updated_at
    assert await relay.runs.get("a:1") == await relay.runs.wait("a:1") == run
    items = await relay.runs.run([{"role": "user", "content": "again"}], session_id="a", agent=None)
    assert (items.run_id, items.output) == ("a:2", "you said: again")
    assert await relay.runs.get("a:1") == run
    [last] = (await relay.runs.list(user="安娜").page(limit=1)).items
    assert last == items


async def test_earlier_runs_keep_their_answers_and_events_after_a_rewind(relay: Ekiden) -> None:
    runs = [await relay.runs.run(text, session_id="a") for text in ("hello", "again", "more")]
    first = await read(relay.runs.follow("a:1"))
    end = numbers(first)[-1]
    for at in (end, 1):
        await relay.sessions.rewind("a", at)
        assert [await relay.runs.get(run.run_id) for run in runs] == runs
        assert numbers(await read(relay.runs.follow("a:1"))) == [*range(1, end + 1)]


async def test_a_started_run_continues_without_a_waiting_caller(
    relay: Ekiden, tmp_path: Path
) -> None:
    run = await relay.runs.start("hold:go on", session_id="a")
    assert (run.run_id, run.is_active, run.output) == ("a:1", True, None)
    assert (await relay.runs.get("a:1", wait_s=0.01)).is_active
    with pytest.raises(SessionBusy):
        await relay.runs.run("more", session_id="a")
    late = await relay.runs.run("hold:go too", session_id="b", timeout_s=0.01)
    assert (late.run_id, late.is_active) == ("b:1", True)
    (tmp_path / "go").touch()
    assert (await relay.runs.wait("a:1")).output == "you said: hold:go on"
    assert (await relay.runs.get("b:1", wait_s=60)).status == "done"
    assert [each.run_id async for each in relay.runs.list()] == ["b:1", "a:1"]
    page = await relay.runs.list(agent="desk", status="idle").page(limit=1)
    rest = await relay.runs.list().page(limit=1, cursor=page.next_cursor)
    assert [each.run_id for each in [*page.items, *rest.items]] == ["b:1", "a:1"]
    assert [each async for each in relay.runs.list(status="waiting")] == []


async def test_a_run_can_be_waited_for_without_a_team(relay: Ekiden, tmp_path: Path) -> None:
    await relay.runs.start("hold:go on", session_id="a")
    async with Ekiden.open(str(tmp_path / "s.db")) as reader, asyncio.timeout(60):
        assert (await reader.runs.get("a:1", wait_s=0.01)).is_active
        (tmp_path / "go").touch()
        assert (await reader.runs.get("a:1", wait_s=60)).output == "you said: hold:go on"
        assert (await reader.runs.wait("a:1")).status == "done"
        for unknown in ("a:2", "a"):
            with pytest.raises(RunNotFound):
                await reader.runs.wait(unknown)
            with pytest.raises(RunNotFound):
                await reader.runs.get(unknown + "00", wait_s=1)
        with pytest.raises(SessionNotFound):
            await reader.runs.get("b:1", wait_s=1)
        (tmp_path / "go").unlink()
        await relay.runs.start("hold:go again", session_id="a")
        assert (await reader.runs.wait("a:1")).output == "you said: hold:go on"
        waiting = asyncio.create_task(reader.runs.wait("a:2"))
        (tmp_path / "go").touch()
        assert (await waiting).output == "you said: hold:go again"
        with pytest.raises(UserError, match="no team"):
            await reader.runs.cancel("a:1")


async def test_a_run_is_streamed_while_it_happens(relay: Ekiden) -> None:
    shown = await read(relay.runs.stream("hello there", session_id="a"))
    assert shown[0] == RunStarted(run_id="a:1", session_id="a")
    assert shown[-1] == await relay.runs.get("a:1")
    pieces = [each.text for each in shown if isinstance(each, ModelDelta)]
    assert pieces == ["you ", "said: ", "hello ", "there"]
    assert numbers(shown) == list(range(1, len(numbers(shown)) + 1))
    again = await read(relay.runs.follow("a:1"))
    assert (numbers(again), again[-1]) == (numbers(shown), shown[-1])
    assert numbers(await read(relay.runs.follow("a:1", after=3))) == numbers(shown)[3:]


async def test_a_stream_continues_after_a_persons_decision(relay: Ekiden) -> None:
    shown = await read(relay.runs.stream("refund please", session_id="a"))
    run = shown[-1]
    assert isinstance(run, Run)
    assert (run.status, run.outcome, len(run.questions)) == ("waiting", "waiting", 1)
    async with relay.runs.follow("a:1", after=numbers(shown)[-1], until="outcome") as rest:
        await relay.inbox.answer(run.questions[0], "approve")
        async with asyncio.timeout(60):
            found = [each async for each in rest]
    last = found[-1]
    assert isinstance(last, Run)
    assert (last.status, last.output) == ("done", "1042 is paid back")
    assert numbers(found)[0] == numbers(shown)[-1] + 1


async def test_closing_a_stream_does_not_stop_the_run(relay: Ekiden, tmp_path: Path) -> None:
    async with relay.runs.stream("hold:go on", session_id="a") as shown:
        assert await anext(shown) == RunStarted(run_id="a:1", session_id="a")
    (tmp_path / "go").touch()
    assert (await relay.runs.wait("a:1")).status == "done"


async def test_a_run_is_cancelled_and_resumed(relay: Ekiden, tmp_path: Path) -> None:
    await relay.runs.start("hold:go on", session_id="a")
    stopped = await relay.runs.cancel("a:1")
    assert (stopped.status, stopped.outcome) == ("stopped", None)
    going = await relay.runs.resume("a", max_turns=5)
    assert (going.run_id, going.is_active) == ("a:1", True)
    with pytest.raises(SessionBusy):
        await relay.runs.resume("a")
    await relay.runs.cancel("a:1")
    late = await relay.runs.resume_and_wait("a", timeout_s=0.01)
    assert late.is_active
    await relay.runs.cancel("a:1")
    (tmp_path / "go").touch()
    done = await relay.runs.resume_and_wait("a")
    assert (done.status, done.output) == ("done", "you said: hold:go on")
    assert await relay.runs.cancel("a:1") == done
    with pytest.raises(UserError, match="nothing to resume"):
        await relay.runs.resume("a")


async def test_a_run_ends_when_a_limit_is_reached(relay: Ekiden) -> None:
    run = await relay.runs.run("hello", session_id="a", max_turns=1)
    assert (run.status, run.outcome, run.output) == ("out_of_budget", "out_of_budget", None)
    resumed = await relay.runs.resume("a", max_turns=5)
    assert resumed.status in ("queued", "running", "done")
    assert (await relay.runs.wait(resumed.run_id)).output == "you said: hello"
    await relay.runs.run("again", session_id="b", max_turns=1)
    assert (await relay.runs.resume_and_wait("b", max_turns=5)).output == "you said: again"


async def test_a_session_is_followed_across_runs(relay: Ekiden) -> None:
    await relay.runs.run("one", session_id="a")
    async with relay.runs.follow_session("a", after=2) as shown:
        await relay.runs.run("two", session_id="a")
        found: list[Event] = []
        async with asyncio.timeout(60):
            async for each in shown:
                found += [each] if isinstance(each, Event) else []
                if found and any(text_of(item) == "you said: two" for item in found[-1].items):
                    break
    assert [each.seq for each in found] == list(range(3, len(found) + 3))


async def test_an_unknown_run_session_or_agent_is_reported(relay: Ekiden) -> None:
    await relay.runs.run("hi", session_id="a")
    for asked in (
        relay.runs.get("a:2"),
        relay.runs.wait("a:2"),
        relay.runs.cancel("a:2"),
        read(relay.runs.follow("a:2")),
        relay.runs.get("abc"),
    ):
        with pytest.raises(RunNotFound):
            await asked
    with pytest.raises(SessionNotFound):
        await relay.runs.get("b:1")
    with pytest.raises(SessionNotFound):
        await relay.runs.resume("b")
    with pytest.raises(SessionNotFound):
        await anext(relay.runs.follow_session("b"))
    with pytest.raises(UnknownAgent):
        await relay.runs.run("hi", agent="nobody")
    with pytest.raises(UnknownAgent):
        await read(relay.runs.stream("hi", agent="nobody"))


@pytest.mark.parametrize(
    "given",
    [
        {"input": ""},
        {"input": []},
        {"session_id": "no id"},
        {"session_id": ""},
        {"priority": "highest"},
        {"on_busy": "push"},
        {"strategy": "luck"},
        {"max_turns": 0},
        {"title": "x" * 201},
        {"timeout_s": 0},
    ],
)
async def test_an_invalid_run_request_is_refused(relay: Ekiden, given: dict[str, Any]) -> None:
    with pytest.raises(RequestInvalid):
        await relay.runs.run(**{"input": "hi", **given})
    assert [each async for each in relay.runs.list()] == []


async def test_an_unknown_option_is_a_type_error(relay: Ekiden) -> None:
    with pytest.raises(TypeError):
        await relay.runs.start("hi", **{"speed": 3})  # type: ignore[misc]
    with pytest.raises(RequestInvalid):
        await relay.runs.get("no run")
    with pytest.raises(RequestInvalid):
        await relay.runs.resume("no id")
