"""Running a session at a terminal, with questions to the person there."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any

import pytest

from ekiden import Agent, CodeContext, MemoryStore, Session, Team
from ekiden.cli.errors import Exit, Interrupted, UsageError
from ekiden.cli.run_follow import LocalRun, RunFollower, WaitPolicy
from ekiden.cli.run_observer import RunView
from ekiden.cli.views.inbox import tell_questions
from ekiden.core.errors import StoreUnavailable, UnknownAgent
from ekiden.core.questions import InboxItem
from ekiden.inbox import Inbox
from ekiden.project.run_tasks import finished_run, resume_run, start_run
from ekiden.project.stored_runs import questions_to_people
from ekiden.runtime import RunConfig, Runner
from ekiden.storage.base import SessionRow

Captured = pytest.CaptureFixture[str]
STAY = WaitPolicy(stays=True)


async def desk(ctx: CodeContext[Any]) -> str:
    first = await ctx.request_approval("15 % discount?\x1b[2J", ("yes", "no way"))
    second = await ctx.request_approval("What shall I write?", ())
    return f"{first.choice}: {second.text}"


TEAM = Team(Agent("desk", run=desk))


@dataclass(kw_only=True)
class Watched:
    """A run that is watched."""

    run: LocalRun

    async def watch(self, wait_policy: WaitPolicy) -> int:
        return await RunFollower(run=self.run, observer=self.run.observer).watch(wait_policy)


def watched(
    store: MemoryStore, *, as_json: bool = False, stream: bool = False, hint: str = "resume it"
) -> Watched:
    """The session `s`, begun with a message."""
    session = Session("s", store=store)
    observer = RunView(
        as_json=as_json, stream=stream, how_to_resume=hint, store_words=["--store", "x.db"]
    )
    run = LocalRun(
        observer=observer,
        session=session,
        config=RunConfig(),
        start=lambda config: start_run(TEAM, "hi", session, config=config, live=stream),
        resume=lambda config: resume_run(TEAM, session, config=config, live=stream),
        ended=lambda row: finished_run(TEAM, session, row, config=RunConfig()),
    )
    return Watched(run=run)


async def asked(store: MemoryStore, subject: str = "") -> InboxItem:
    """The question that the session waits for, as soon as it does."""
    async with asyncio.timeout(60):
        while True:
            for item in (await Inbox(store).list()).items:
                if item.subject.startswith(subject):
                    return item
            await asyncio.sleep(0)


class Told:
    """Everything that was printed."""

    def __init__(self, capsys: Captured) -> None:
        self._capsys = capsys
        self.out = self.err = ""

    async def until(self, words: str, *, times: int = 1) -> None:
        """Wait until standard error has the words so often."""
        async with asyncio.timeout(60):
            while True:
                self.read()
                if self.err.count(words) >= times:
                    return
                await asyncio.sleep(0.001)

    def read(self) -> None:
        shown = self._capsys.readouterr()
        self.out += shown.out
        self.err += shown.err


async def answer_all(store: MemoryStore, told: Told | None = None) -> None:
    """Answer both questions of the desk, as they come, or as the terminal shows them."""
    if told is not None:
        await told.until("15 %")
    first = await asked(store, "15 %")
    await Inbox(store).answer(first.id, choice="yes", by="mira")
    if told is not None:
        await told.until("What")
    second = await asked(store, "What")
    await Inbox(store).answer(second.id, text="祝你好运", by="mira")


async def test_without_waiting_the_command_prints_how_to_answer(capsys: Captured) -> None:
    store = MemoryStore()
    assert await watched(store).watch(WaitPolicy()) == Exit.WAITING
    shown = capsys.readouterr()
    item = await asked(store)
    assert shown.out == ""
    assert shown.err.splitlines() == [
        "[s] user → desk",
        "desk asks operator: 15 % discount?\\x1b[2J",
        f"  answer with: ekiden inbox answer {item.id} yes|'no way' --store x.db",
        "error[run.waiting]: the session waits for person:operator; after the answer "
        "continue with: resume it",
    ]


async def test_json_output_contains_the_ids(capsys: Captured) -> None:
    store = MemoryStore()
    assert await watched(store, as_json=True).watch(WaitPolicy()) == Exit.WAITING
    shown = capsys.readouterr()
    record = json.loads(shown.out)
    item = await asked(store)
    assert record["outcome"] == "waiting"
    assert record["waiting_for"] == [
        {
            "id": item.id,
            "kind": "approval",
            "from_agent": "desk",
            "role": "operator",
            "subject": "15 % discount?\x1b[2J",
            "options": ["yes", "no way"],
            "deadline_us": None,
            "session_id": "s",
        }
    ]
    assert json.loads(shown.err)["error"]["code"] == "run.waiting"


async def test_without_a_stored_session_no_answer_command_is_printed(capsys: Captured) -> None:
    await watched(MemoryStore(), hint="").watch(WaitPolicy())
    assert "ekiden" not in capsys.readouterr().err


async def test_a_waiting_command_shows_the_answers_and_one_result(capsys: Captured) -> None:
    store, shown = MemoryStore(), Told(capsys)
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        group.create_task(answer_all(store, shown))
        code = await watched(store).watch(STAY)
    shown.read()
    assert (code, shown.out) == (Exit.OK, "yes: 祝你好运\n")
    lines = shown.err.splitlines()
    assert [line for line in lines if line.startswith("desk asks")] == [
        "desk asks operator: 15 % discount?\\x1b[2J",
        "desk asks operator: What shall I write?",
    ]
    assert lines.count("session s waits for an answer; Ctrl-C leaves it suspended …") == 2
    assert lines[-1] == "[s] user → desk"
    assert "TEXT --store x.db" in shown.err


@pytest.mark.parametrize("stream", [False, True])
async def test_a_waiting_json_command_prints_one_result(capsys: Captured, stream: bool) -> None:
    store, shown = MemoryStore(), Told(capsys)
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        group.create_task(answer_all(store, shown))
        code = await watched(store, as_json=True, stream=stream).watch(STAY)
    shown.read()
    *events, last = [json.loads(line) for line in shown.out.splitlines()]
    result = last["result"] if stream else last
    assert (code, result["output"]) == (Exit.OK, "yes: 祝你好运")
    assert "waiting_for" not in result
    assert all("event" in each for each in events)
    waits = [json.loads(line)["waiting"] for line in shown.err.splitlines()]
    assert [[each["subject"][:4] for each in wait["waiting_for"]] for wait in waits] == [
        ["15 %"],
        ["What"],
    ]


async def test_an_answer_faster_than_the_question_is_used(
    capsys: Captured,
) -> None:
    store = MemoryStore()
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        group.create_task(answer_all(store))
        assert await watched(store).watch(STAY) == Exit.OK
    assert capsys.readouterr().out == "yes: 祝你好运\n"


async def test_ctrl_c_leaves_the_session_suspended(capsys: Captured) -> None:
    store = MemoryStore()
    task = asyncio.create_task(watched(store).watch(STAY))
    item = await asked(store)
    await Told(capsys).until("Ctrl-C")
    task.cancel()
    with pytest.raises(Interrupted, match="after the answer continue with: resume it"):
        await task
    row = await store.get("s")
    assert (row.status, row.owner) == ("waiting", None)
    assert (await Inbox(store).get(item.id)).status == "open"


async def test_waiting_for_an_answer_ends_at_the_timeout(capsys: Captured) -> None:
    store = MemoryStore()
    code = await watched(store).watch(WaitPolicy(stays=True, timeout_s=0.001))
    assert code == Exit.WAITING
    lines = capsys.readouterr().err.splitlines()
    assert lines[-1] == "no answer within 0.001 s; the session still waits"
    assert any(line.startswith("error[run.waiting]") for line in lines)
    assert (await store.get("s")).status == "waiting"


async def test_a_run_finished_by_another_process_is_printed(capsys: Captured) -> None:
    store = MemoryStore()
    task = asyncio.create_task(watched(store, as_json=True).watch(STAY))
    other = watched(store, as_json=True)
    other.run.start = other.run.resume
    await asked(store)
    rival = asyncio.create_task(other.watch(STAY))
    async with asyncio.timeout(60):
        await answer_all(store)
        assert [await task, await rival] == [Exit.OK, Exit.OK]
    first, second = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert first == second
    assert (first["output"], first["chain"]) == ("yes: 祝你好运", ["user", "desk"])


async def test_a_run_that_failed_in_another_process_is_reported(capsys: Captured) -> None:
    async def broken(ctx: CodeContext[Any]) -> str:
        raise ValueError("the shelf fell down")

    store = MemoryStore()
    task = asyncio.create_task(watched(store).watch(STAY))
    told = Told(capsys)
    await told.until("Ctrl-C")
    with pytest.raises(ValueError, match="shelf"):
        await Runner.run(Team(Agent("desk", run=broken)), "hi", session=Session("s", store=store))
    async with asyncio.timeout(60):
        assert await task == Exit.FAILED
    told.read()
    assert (
        "error[run.failed]: ValueError: the shelf fell down; continue with: resume it" in told.err
    )


async def test_a_store_outage_is_reported(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Flaky(MemoryStore):
        outages = 0

        async def get(self, session_id: str) -> SessionRow:
            if self.outages and asyncio.current_task() is task:
                self.outages -= 1
                raise StoreUnavailable("the network is down")
            return await super().get(session_id)

    monkeypatch.setattr("ekiden.runtime.loop.answer_wait._RETRY_S", 0.001)
    store = Flaky()
    task = asyncio.create_task(watched(store).watch(STAY))
    told = Told(capsys)
    await told.until("Ctrl-C")
    store.outages = 3
    await told.until("error[store.unavailable]: the network is down; trying again")
    async with asyncio.timeout(60):
        await answer_all(store)
        assert await task == Exit.OK
    told.read()
    assert told.err.count("trying again") == 1, "it is said once"


def test_options_become_a_wait_policy() -> None:
    assert WaitPolicy.of(wait=False, timeout_s=None, store="memory:") == WaitPolicy()
    assert WaitPolicy.of(wait=False, timeout_s=5, store="x.db") == WaitPolicy(
        stays=True, timeout_s=5
    )
    with pytest.raises(UsageError, match="no other process can answer in memory:"):
        WaitPolicy.of(wait=True, timeout_s=None, store="memory:")


async def test_a_run_resumed_by_another_process_is_read_again() -> None:
    store = MemoryStore()
    session = Session("s", store=store)
    before = await Runner.run(TEAM, "hi", session=session)
    one = watched(store)
    claim, _ = await store.claim("s", owner="other-1", lease_s=60)
    assert await one.run._resume(before) is before, "somebody else has it"
    await store.release(claim)
    await Runner.run(Team(Agent("desk", run=_greet)), "hi", session=session)
    assert await one.run._resume(before) is before, "somebody else has ended it"


async def _greet(ctx: CodeContext[Any]) -> str:
    return "hello"


async def test_an_error_is_not_mistaken_for_a_run_resumed_elsewhere() -> None:
    store = MemoryStore()
    session = Session("s", store=store)
    before = await Runner.run(TEAM, "hi", session=session)
    [item] = await questions_to_people(store, "s")
    await Inbox(store).answer(item.id, choice="yes", by="mira")
    strangers = watched(store)
    strangers.run.resume = lambda config: resume_run(Agent("x", run=_greet), session, config=config)
    with pytest.raises(UnknownAgent):
        await strangers.run._resume(before)


def test_of_many_questions_only_the_first_are_printed(capsys: Captured) -> None:
    items = [
        InboxItem(kind="approval", from_agent="desk", subject=f"question {n}") for n in range(12)
    ]
    tell_questions(items, ["--store", "x.db"])
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 21
    assert lines[-1] == "and 2 more: ekiden inbox list --store x.db"
