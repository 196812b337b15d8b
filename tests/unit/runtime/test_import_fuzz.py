"""Whatever is accepted of documents that anybody wrote can be used like any session."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Awaitable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from ekiden.audit import verify_audit
from ekiden.cli.transcript import transcript
from ekiden.core.agent import Agent
from ekiden.core.context import ToolContext
from ekiden.core.errors import EkidenError
from ekiden.core.errors.stored_data import SessionImportInvalid
from ekiden.core.plan import AgentTask, Member, TaskDecomposition
from ekiden.handoff import handoff, remove_all_tools
from ekiden.runtime import CodeContext, RunConfig, Runner
from ekiden.runtime.history.fork import fork_session, rewind_session
from ekiden.runtime.history.session_document import export_session, import_session
from ekiden.runtime.history.session_state import update_state
from ekiden.runtime.supervisor import Supervisor
from ekiden.sessions import Session
from ekiden.sessions.search import search_sessions
from ekiden.storage.memory import MemoryStore
from ekiden.testing import ScriptedModel, call, say, transfer
from ekiden.tools import function_tool


def desk() -> Agent[Any]:
    @function_tool
    def note(ctx: ToolContext[Any], what: str) -> str:
        ctx.variables["noted"] = what
        return f"noted {what}"

    def answer(request: Any) -> Any:
        last = request.input[-1] if request.input else {}
        if request.agent == "door":
            return transfer("clerk", reason="t")
        if last.get("role") == "user":
            return call("note", what=str(last.get("content"))[:40])
        return say(f"{request.agent} heard")

    model = ScriptedModel(respond=answer)
    clerk = Agent("clerk", model=model, tools=[note])
    return Agent("door", model=model, handoffs=[handoff(clerk, input_filter=remove_all_tools)])


def coder() -> Agent[Any]:
    @function_tool(confirmation=True)
    def pay(n: int) -> str:
        return "paid"

    @function_tool
    def price(n: int) -> int:
        return n

    async def run(ctx: CodeContext[Any]) -> str:
        return f"{await ctx.call('price', n=1)} {await ctx.call('pay', n=5)}"

    return Agent("door", run=run, tools=[price, pay])


class Split:
    async def decompose(self, text: str, *, members: list[Member], **_: Any) -> TaskDecomposition:
        tasks = [
            AgentTask(agent="a", description="first", task_id="a"),
            AgentTask(agent="b", description="then", task_id="b", depends_on=("a",)),
        ]
        return TaskDecomposition(tasks=tuple(tasks))


class Join:
    async def aggregate(self, state: Any, **_: Any) -> str:
        return " ".join(str(each.data) for each in state.results)


def boss() -> Any:
    async def run(ctx: CodeContext[Any]) -> str:
        return "did it"

    agents = [Agent(name, run=run) for name in "ab"]
    return Supervisor("boss", agents=agents, decomposer=Split(), aggregator=Join())


async def documents() -> list[tuple[Any, dict[str, Any]]]:
    """Teams, and sessions of theirs: ended, taken back, unfinished, branched, of code, of plans."""
    store = MemoryStore()
    session = Session("s", store=store, user_id="u1", title="t")
    for text in ("one", "two"):
        await Runner.run(desk(), text, session=session)
    await update_state(store, "s", {"out": 1})
    found = [(desk, await export_session(store, "s"))]
    await rewind_session(store, "s", to_seq=4)
    found.append((desk, await export_session(store, "s")))
    branch = await fork_session(store, "s", at_seq=5)
    found.append((desk, await export_session(store, branch.session_id)))
    session, inbox = Session("c", store=store), RunConfig(approver="inbox")
    await Runner.run(coder(), "one", session=session, run_config=inbox)
    found.append((coder, await export_session(store, "c")))
    await Runner.run(boss(), "one", session=Session("p", store=store))
    ended = [e.seq for e in await store.events("p") if (e.details or {}).get("phase") == "finished"]
    branch = await fork_session(store, "p", at_seq=ended[0])
    found.append((boss, await export_session(store, branch.session_id)))
    return found


ODD: list[Any] = [
    None, 0, -1, 1, 2**60, 10**30, 1.5, True, "", "x", "\ud800", "a\x00", [], {}, [[]], [1, 2],
    [None], {"a": 1}, {"": None}, ["x"], [["a", "b", "c"]], "x" * 600, {"set": [1]}, 1e300,
    {"base": 3, "set": {}}, "1.1.m", {"type": "message", "role": "user", "content": "hi"},
]  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    for key, each in pairs:
        yield (*path, key)
        if isinstance(each, dict | list):
            yield from places(each, (*path, key))


def changed(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    document = copy.deepcopy(document)
    inside = document
    for key in path[:-1]:
        inside = inside[key]
    if value is ...:
        del inside[path[-1]]
    else:
        inside[path[-1]] = copy.deepcopy(value)
    return document


async def use(team: Any, document: Any) -> bool:
    """Do all that can be done with a session; whether the document was accepted."""

    async def tried(doing: Awaitable[Any]) -> None:
        with suppress(EkidenError):
            await doing

    store = MemoryStore()
    try:
        session = await import_session(store, document, new_id="n")
    except SessionImportInvalid:
        assert (await store.info())["sessions"] == 0
        return False
    seq = (await session.row()).seq
    list(transcript(await session.events()))
    await session.info()
    await search_sessions(store, "one")
    json.dumps(await export_session(store, "n"))
    await verify_audit(store)
    await session.state()
    for number in range(1, seq + 1):
        await session.state(at=number)
        await tried(fork_session(store, "n", at_seq=number, new_id=f"f{number}"))
    for number in {1, seq // 2, seq}:
        await tried(Runner.resume(team(), Session(f"f{number}", store=store), max_turns=6))
    await tried(update_state(store, "n", {"zz": 1}))
    await tried(Runner.resume(team(), session, max_turns=6))
    await tried(Runner.run(team(), "three", session=session, max_turns=6))
    await tried(rewind_session(store, "n", to_seq=2))
    await session.state()
    return True


async def fuzz(seed: int, many: int) -> int:
    drawn, accepted, known = random.Random(seed), 0, await documents()
    paths = [[path for path in places(each) if path[0] != "ekiden"] for _, each in known]
    for _ in range(many):
        which = drawn.randrange(len(known))
        team, document = known[which]
        path, value = drawn.choice(paths[which]), drawn.choice([..., *ODD])
        try:
            accepted += await use(team, changed(document, path, value))
        except Exception as exc:
            exc.add_note(f"{team.__name__}: {path} = {value!r:.200}")
            raise
    return accepted


async def test_every_exported_document_can_be_imported_and_used() -> None:
    for team, document in await documents():
        assert await use(team, document)


async def test_every_accepted_document_can_be_used() -> None:
    assert await fuzz(seed=7, many=80) > 10


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
async def test_every_accepted_document_of_a_large_sample_can_be_used(seed: int) -> None:
    assert await fuzz(seed=seed, many=1_000) > 100
