"""Running a session at a terminal."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from ekiden import Agent, CodeContext, MemoryStore, Session, Team, Waiting
from ekiden.cli.errors import Interrupted
from ekiden.cli.place import Place
from ekiden.cli.run_observer import RunView, problem_of, resume_command
from ekiden.core.errors import UserError
from ekiden.core.roles import Assignment
from ekiden.core.runs import Refused
from ekiden.project.run_tasks import resume_run, start_run
from ekiden.runtime import Limits, RunConfig
from ekiden.testing import ScriptedModel, stream

Captured = pytest.CaptureFixture[str]
CONFIG = RunConfig()


def observer(*, as_json: bool = False, stream: bool = False, hint: str = "go on") -> RunView:
    """A person at the terminal."""
    return RunView(as_json=as_json, stream=stream, how_to_resume=hint)


async def test_a_failed_run_prints_its_record_and_its_error(capsys: Captured) -> None:
    async def broken(ctx: CodeContext[Any]) -> str:
        raise ValueError("no such shelf")

    session = Session("s1", store=MemoryStore())
    code = await observer(as_json=True).watch(
        start_run(Agent("clerk", run=broken), "hi", session, config=CONFIG)
    )
    shown = capsys.readouterr()
    assert code == 1
    assert json.loads(shown.out)["outcome"] == "failed"
    error = json.loads(shown.err)["error"]
    assert error["code"] == "run.failed"
    assert error["message"] == "ValueError: no such shelf; continue with: go on"
    assert error["session_id"] == "s1"


async def test_a_run_that_cannot_start_is_an_error() -> None:
    session = Session("s1", store=MemoryStore())
    await observer().watch(start_run(_clerk(), "hi", session, config=CONFIG))
    with pytest.raises(UserError, match="nothing to resume"):
        await observer().watch(resume_run(_clerk(), session, config=CONFIG))


async def test_a_run_out_of_turns_prints_how_to_continue(capsys: Captured) -> None:
    async def pass_on(ctx: CodeContext[Any]) -> object:
        return ctx.hand_off("b")

    a: Agent[object] = Agent("a", run=pass_on, handoffs=[_clerk("b")])
    config = RunConfig(limits=Limits(turns=1))
    session = Session("s1", store=MemoryStore())
    assert await observer().watch(start_run(a, "hi", session, config=config)) == 3
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.endswith("continue with: go on\n")
    assert await observer().watch(resume_run(a, session, config=CONFIG)) == 0
    assert capsys.readouterr().out == "hello\n"


async def test_ctrl_c_keeps_the_session(capsys: Captured) -> None:
    arrived = asyncio.Event()

    async def slow(ctx: CodeContext[Any]) -> str:
        arrived.set()
        await asyncio.Event().wait()
        return "never"

    session = Session("s1", store=MemoryStore())
    run = start_run(Agent("clerk", run=slow), "hi", session, config=CONFIG)
    task = asyncio.create_task(observer().watch(run))
    await arrived.wait()
    task.cancel()
    with pytest.raises(Interrupted, match="the session is kept, continue with: go on"):
        await task
    assert (await session.row()).owner is None


async def test_a_streamed_answer_is_printed_once(capsys: Captured) -> None:
    agent: Agent[object] = Agent("clerk", model=ScriptedModel([stream("Hello there", chunks=3)]))
    session = Session("s1", store=MemoryStore())
    looking = observer(stream=True)
    assert await looking.watch(start_run(agent, "hi", session, config=CONFIG, live=True)) == 0
    assert capsys.readouterr().out == "Hello there\n"


async def test_a_streamed_run_prints_its_handoffs_on_stderr(capsys: Captured) -> None:
    async def pass_on(ctx: CodeContext[Any]) -> object:
        return ctx.hand_off("b", reason="too hard")

    a: Agent[object] = Agent("a", run=pass_on, handoffs=[_clerk("b")])
    session = Session("s1", store=MemoryStore())
    await observer(stream=True).watch(start_run(Team(a), "hi", session, config=CONFIG, live=True))
    shown = capsys.readouterr()
    assert shown.out == "hello\n"
    assert shown.err == "handoff: a → b: too hard\n[s1] user → a → b\n"


async def test_a_stream_of_json_is_one_object_per_line_and_ends_with_the_result(
    capsys: Captured,
) -> None:
    session = Session("s1", store=MemoryStore())
    looking = observer(stream=True, as_json=True)
    await looking.watch(start_run(_clerk(), "hi", session, config=CONFIG, live=True))
    *events, last = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [next(iter(each)) for each in events] == ["event"] * len(events)
    assert last["result"]["output"] == "hello"


async def test_an_answer_that_is_not_text_is_printed_as_json(capsys: Captured) -> None:
    async def count(ctx: CodeContext[Any]) -> object:
        return {"parcels": 3}

    session = Session("s1", store=MemoryStore())
    await observer().watch(start_run(Agent("clerk", run=count), "hi", session, config=CONFIG))
    assert capsys.readouterr().out == '{"parcels":3}\n'


def test_waiting_and_refused_runs_have_a_code_and_a_message() -> None:
    assert problem_of(Waiting("an approval")) == (
        "run.waiting",
        "the session waits for an approval",
    )
    assert problem_of(Refused("no")) == ("model.refused", "the model refused: no")


def test_the_resume_command_repeats_the_given_options(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url = "sqlite:///some.db"
    monkeypatch.setenv("EKIDEN_STORE", "mine.db")

    def command(store_option: str | None, team: str | None = None) -> str:
        words = Place(store=store_option).words(url)
        return resume_command("s1", url, words, team=team)

    assert command("mine.db") == "ekiden session resume s1"
    assert command("mine.db", "my.desk:team") == "ekiden session resume s1 --team my.desk:team"
    assert command("other.db") == f"ekiden session resume s1 --store {url}"
    modelled = resume_command("s1", url, (), team=None, model="demo:x")
    assert modelled.endswith("--model demo:x")
    inbox = resume_command("s1", url, (), team=None, approve="inbox")
    assert inbox == "ekiden session resume s1 --approve inbox"


def test_a_store_in_memory_has_no_resume_command() -> None:
    assert resume_command("s1", MemoryStore().url, (), team=None) == ""


@pytest.mark.parametrize("streaming", [True, False])
async def test_the_chosen_agent_is_printed_on_stderr(capsys: Captured, streaming: bool) -> None:
    class Router:
        async def assign(self, text: str, **_: Any) -> Assignment:
            details = {"agent": "clerk", "method": "rule", "confidence": 90}
            return Assignment(agent="clerk", details=details)

        async def keep(self, text: str, *, agent: str) -> Assignment:
            return Assignment(agent=agent, details={"agent": agent, "method": "sticky"})

    team = Team(Agent("router-agent", scope="system", router=Router()), _clerk())
    session = Session("s1", store=MemoryStore())
    await observer(stream=streaming).watch(start_run(team, "hi", session, config=CONFIG))
    assert "rule-match → clerk, 90 %\n" in capsys.readouterr().err
    await observer(stream=streaming).watch(start_run(team, "hi", session, config=CONFIG))
    assert "→ clerk," not in capsys.readouterr().err, "that it stays where it is, is no news"
    await observer(as_json=True).watch(start_run(team, "hi", session, config=CONFIG, to="auto"))
    assert capsys.readouterr().err == ""


def _clerk(name: str = "clerk") -> Agent[object]:
    async def greet(ctx: CodeContext[Any]) -> str:
        return "hello"

    return Agent(name, run=greet)
