"""The request of every model call can be rebuilt from the records of the session."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from pydantic import BaseModel

from ekiden import (
    Agent,
    CodeContext,
    FunctionTool,
    GuardrailFunctionOutput,
    ModelRequest,
    ModelSettings,
    RunConfig,
    Runner,
    Session,
    Supervisor,
    function_tool,
    handoff,
    output_guardrail,
)
from ekiden.core.conversation.model import ModelEvent
from ekiden.core.documents import to_json
from ekiden.core.errors import EkidenError, SessionBusy, UserError
from ekiden.core.errors.stored_data import SessionImportInvalid
from ekiden.core.events import VERSIONED, VersionReader
from ekiden.core.handoffs import HandoffTrigger
from ekiden.core.versions import agent_version
from ekiden.handoff import remove_all_tools
from ekiden.runtime import Limits
from ekiden.runtime.config import ModelInputData
from ekiden.runtime.history.deletion import delete_session
from ekiden.runtime.history.fork import fork_session, rewind_session
from ekiden.runtime.history.requests import recorded_request
from ekiden.runtime.history.session_document import export_session, import_session
from ekiden.storage.base import Store, each_document
from ekiden.storage.memory import MemoryStore
from ekiden.storage.sqlite import SqliteStore
from ekiden.testing import ScriptedModel, call, fail, say, transfer
from tests.support.examples import examples

NAMES = ("a", "b", "c")


class Verdict(BaseModel):
    ok: bool


def sent(request: ModelRequest) -> str:
    return canonical(
        {
            "instructions": request.instructions,
            "input": list(request.input),
            "tools": to_json(request.tools),
            "settings": to_json(request.settings),
            "output": to_json(request.output),
        }
    )


def canonical(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


async def rebuilt(store: Store, session_id: str) -> list[str]:
    names = ("instructions", "input", "tools", "settings", "output")
    found = []
    for event in await store.events(session_id):
        if event.type == "llm_call":
            record = (await recorded_request(store, session_id, event.seq)).to_json()
            found.append(canonical({name: record[name] for name in names}))
    return found


@dataclass(frozen=True)
class Example:
    """A conversation: what the model does in each turn, and how the team is made."""

    messages: list[list[tuple[str, str]]]
    instructions: tuple[str, ...]
    filter: str
    is_guarded: bool
    is_structured: bool
    is_limited: bool


turns = st.lists(
    st.tuples(
        st.sampled_from(["tool", "transfer", "told", "event", "nonsense", "fail", "wrong"]),
        st.sampled_from(NAMES),
    ),
    max_size=5,
)
conversations = st.builds(
    Example,
    messages=st.lists(turns, min_size=1, max_size=4),
    instructions=st.tuples(*[st.sampled_from(["none", "text", "code"])] * 3),
    filter=st.sampled_from(["none", "none", "same", "last", "summary", "text"]),
    is_guarded=st.booleans(),
    is_structured=st.booleans(),
    is_limited=st.booleans(),
)


class RecordingModel:
    """A model with scripted answers that remembers what it was sent, and for which agent."""

    def __init__(self, steps: list[Any]) -> None:
        self.seen: list[str] = []
        self.agents: list[str] = []
        self._model = ScriptedModel(steps)

    async def respond(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        self.seen.append(sent(request))
        self.agents.append(request.agent)
        async for part in self._model.respond(request):
            yield part


class Desk:
    """A team whose model follows an example, and remembers what it was sent."""

    def __init__(self, example: Example) -> None:
        self.example = example
        self.seen: list[str] = []
        self.script: list[tuple[str, str]] = []
        self.count = 0
        self.store = MemoryStore()
        self.team = self._made()

    def _made(self) -> Agent[Any]:
        model = ScriptedModel(respond=self._answer)

        @function_tool
        def act(n: int) -> str:
            """Do something."""
            return f"did {n}"

        @output_guardrail(on_failure="repair")
        def no_bad(ctx: Any, agent: Any, output: Any) -> GuardrailFunctionOutput:
            return GuardrailFunctionOutput(tripwire_triggered="bad" in str(output))

        agents = {}
        for name, kind in zip(NAMES, self.example.instructions, strict=True):
            text = f"You are {name}."
            own = {"none": None, "text": text, "code": lambda ctx, agent: self._computed(agent)}
            agents[name] = Agent(
                name,
                model=model,
                tools=[act] if name != "b" else [],
                instructions=own[kind],
                output_guardrails=[no_bad] if self.example.is_guarded else [],
                output_type=Verdict if self.example.is_structured and name == "c" else None,
                model_settings=ModelSettings(temperature=0.5) if name == "a" else ModelSettings(),
            )
        for name, agent in agents.items():
            agent.handoffs.extend(
                handoff(
                    agents[other],
                    allow_return="always",
                    input_filter=remove_all_tools if other == "c" else None,
                    include_context=other != "b",
                )
                for other in NAMES
                if other != name
            )
        agents["a"].handoffs.append(
            handoff(
                agents["c"],
                tool_name_override="by_event",
                when="auto",
                trigger=HandoffTrigger(type="event", event="go"),
            )
        )
        return agents["a"]

    def _computed(self, agent: Agent[Any]) -> str:
        return f"You are {agent.name}, at {self.count // 2}."

    def _answer(self, request: ModelRequest) -> Any:
        self.count += 1
        kind, name = self.script.pop(0) if self.script else ("say", "a")
        if kind == "fail":
            return fail(ConnectionError("no answer"))
        self.seen.append(sent(request))
        names = {tool.name for tool in request.tools}
        if kind == "tool" and "act" in names:
            return call("act", n=self.count)
        if kind in ("transfer", "told") and f"transfer_to_{name}" in names:
            return transfer(name, **({"reason": f"reason {name}"} if kind == "told" else {}))
        if kind == "nonsense":
            return call("nothing")
        if request.output is not None:
            return say('{"ok": true}')
        return say("bad" if kind == "wrong" else f"answer {self.count}")

    def config(self) -> RunConfig:
        def cut(data: Any) -> ModelInputData:
            given = data.model_data
            change: dict[str, Callable[[], ModelInputData]] = {
                "same": lambda: given,
                "last": lambda: replace(given, input=given.input[-3:]),
                "summary": lambda: replace(
                    given, input=[{"role": "user", "content": "In short."}, *given.input[2:]]
                ),
                "text": lambda: replace(given, instructions=f"{given.instructions} Be kind."),
            }
            return change[self.example.filter]()

        return RunConfig(
            limits=Limits(turns=12, tokens=10**9 if self.example.is_limited else None),
            call_model_input_filter=None if self.example.filter == "none" else cut,
            model_settings=ModelSettings(top_p=0.9) if self.example.is_limited else None,
        )

    async def talk(self, session_id: str) -> None:
        for number, script in enumerate(self.example.messages):
            self.script = list(script)
            session = Session(session_id, store=self.store)
            try:
                await Runner.run(
                    self.team, f"message {number}", session=session, run_config=self.config()
                )
            except (EkidenError, ConnectionError):
                self.script = []
                if number % 2:
                    await self._resume(session_id)
            row = await self.store.get(session_id)
            if number == 1 and row.seq > 3:
                try:
                    await rewind_session(self.store, session_id, to_seq=row.seq // 2)
                except UserError:
                    continue

    async def _resume(self, session_id: str) -> None:
        self.team = self._made()  # Another process has objects of its own.
        try:
            await Runner.resume(
                self.team, session=Session(session_id, store=self.store), run_config=self.config()
            )
        except (EkidenError, ConnectionError):
            return


@settings(max_examples=examples(60), deadline=None)
@given(conversations)
def test_every_request_is_rebuilt_exactly(example: Example) -> None:
    async def check() -> None:
        desk = Desk(example)
        await desk.talk("s")
        assert await rebuilt(desk.store, "s") == desk.seen
        events = await desk.store.events("s")
        reader = VersionReader()
        made_by = {event.seq: reader.made_by(event) for event in events}
        assert all(made_by[event.seq] for event in events if event.type in VERSIONED)
        other = MemoryStore()
        await import_session(other, await export_session(desk.store, "s"))
        assert await rebuilt(other, "s") == desk.seen

    asyncio.run(check())


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    if request.param == "memory":
        yield MemoryStore()
    else:
        async with SqliteStore(tmp_path / "s.db") as found:
            yield found


async def shared_texts(store: Store) -> list[str]:
    """What the store has of requests outside sessions, except for notes."""
    found = [each.body async for each in each_document(store, "versions") if "/" not in each.key]
    if not store.shared:
        document = await export_session(store, "s")
        return [*found, *document["versions"].values()]
    return found


async def calls(store: Store, session_id: str = "s") -> list[Any]:
    events = await store.events(session_id)
    return [event for event in events if event.type == "llm_call"]


@function_tool
def look_up(order: int) -> str:
    """Find an order."""
    return "on its way"


async def test_requests_of_many_sessions_share_their_parts(tmp_path: Path) -> None:
    async with SqliteStore(tmp_path / "s.db") as store:
        with ScriptedModel([say("hello")] * 4) as model:
            agent = Agent("desk", model=model, instructions="Be kind.", tools=[look_up])
            for name in ("s0", "s1", "s1", "s2"):
                await Runner.run(agent, "hi", session=Session(name, store=store))
        [text] = await shared_texts(store)
        assert "Be kind." in text
        assert await store.steps("s0") == {}
        made_by = [(event.details or {})["made_by"] for event in await calls(store, "s1")]
        assert made_by == [f"{agent_version(agent)[:16]}/{made_by[0][17:]}"] * 2


async def test_a_text_goes_with_the_last_session_that_used_it(store: Store) -> None:
    with ScriptedModel([say("hello")] * 4) as model:
        agent = Agent("desk", model=model, instructions="You speak with Ada.")
        other = Agent("desk", model=model, instructions="You speak with Bob.")
        await Runner.run(agent, "hi", session=Session("s", store=store))
        await Runner.run(agent, "hi", session=Session("t", store=store))
        await Runner.run(other, "hi", session=Session("b", store=store))
        [event] = await calls(store, "t")
        copied = await fork_session(store, "t", at_seq=event.seq)
        document = await export_session(store, "t")
        await delete_session(store, "t")
        assert (await recorded_request(store, copied.session_id, event.seq)).instructions
        await Session("s", store=store).delete()
        await delete_session(store, copied.session_id)
        found = canonical([each.body async for each in each_document(store, "versions")])
        assert "Ada" not in found
        await import_session(store, document)
        assert (await recorded_request(store, "t", event.seq)).instructions == "You speak with Ada."
        await delete_session(store, "t")
        [kept] = await calls(store, "b")
        assert (await recorded_request(store, "b", kept.seq)).instructions == "You speak with Bob."
        # The process knew the text. It is stored again, because the store has lost it.
        await Runner.run(agent, "hi", session=Session("again", store=store))
        assert (await recorded_request(store, "again", event.seq)).instructions


async def test_a_session_that_cannot_be_deleted_keeps_its_requests(store: Store) -> None:
    @function_tool
    async def leave() -> str:
        with pytest.raises(SessionBusy):
            await Session("s", store=store).delete()
        return "still here"

    with ScriptedModel([call("leave"), say("hello")]) as model:
        agent = Agent("desk", model=model, instructions="Be kind.", tools=[leave])
        await Runner.run(agent, "hi", session=Session("s", store=store))
    for event in await calls(store):
        assert (await recorded_request(store, "s", event.seq)).instructions == "Be kind."


async def test_a_text_for_many_people_stays(tmp_path: Path) -> None:
    async with SqliteStore(tmp_path / "s.db") as store:
        names = [f"s{number}" for number in range(9)]
        with ScriptedModel([say("hello")] * len(names)) as model:
            agent = Agent("desk", model=model, instructions="Be kind.")
            for name in names:
                await Runner.run(agent, "hi", session=Session(name, store=store))
        notes = [each.key async for each in each_document(store, "versions") if "/" in each.key]
        assert len(notes) == 4
        for name in names[:-1]:
            await delete_session(store, name)
        [event] = await calls(store, names[-1])
        request = await recorded_request(store, names[-1], event.seq)
        assert request.instructions == "Be kind."


async def test_a_text_for_one_person_never_stays(store: Store) -> None:
    names = [f"s{number}" for number in range(9)]
    with ScriptedModel([say("hello")] * len(names)) as model:
        agent = Agent("desk", model=model, instructions="You speak with Ada.")
        for name in names:
            session = Session(name, store=store, user_id="ada")
            await Runner.run(agent, "hi", session=session)
    for name in names:
        await delete_session(store, name)
    assert [each async for each in each_document(store, "versions")] == []


async def test_the_order_of_keys_is_kept(store: Store) -> None:
    async def run(ctx: Any, arguments: str) -> str:
        return ""

    properties = {name: {"type": "string", "minLength": 1} for name in ("b", "a")}
    found = []
    for turned in (properties, dict(reversed(properties.items()))):
        schema = {"type": "object", "properties": turned, "required": ["b", "a"]}
        tool = FunctionTool("f", "", schema, run, strict_json_schema=False)
        with ScriptedModel([say("x")]) as model:
            agent = Agent("desk", model=model, tools=[tool])
            session = Session(f"s{len(found)}", store=store)
            await Runner.run(agent, "hi", session=session)
        [event] = await calls(store, session.session_id)
        request = await recorded_request(store, session.session_id, event.seq)
        found.append([*request.tools[0]["parameters"]["properties"]])
    assert found == [["b", "a"], ["a", "b"]]


async def test_later_calls_of_a_run_do_not_repeat_the_version() -> None:
    store = MemoryStore()
    with ScriptedModel([call("look_up", order=1), say("it comes")]) as model:
        agent = Agent("desk", model=model, tools=[look_up])
        await Runner.run(agent, "hi", session=Session("s", store=store))
    events = await store.events("s")
    assert [event.type for event in events if "made_by" in (event.details or {})] == ["llm_call"]
    reader = VersionReader()
    version = agent_version(agent)[:16]
    found = [made_by for event in events if (made_by := reader.made_by(event)) is not None]
    assert [each.partition("/")[0] for each in found] == [version] * 3


async def test_after_a_deploy_events_name_the_new_version(store: Store) -> None:
    with ScriptedModel([call("look_up", order=1), fail(ConnectionError("no")), say("x")]) as model:
        before = Agent("desk", model=model, tools=[look_up], instructions="Be kind.")
        after = before.clone(instructions="Be quick.")
        session = Session("s", store=store)
        with pytest.raises(ConnectionError):
            await Runner.run(before, "hi", session=session)
        await Runner.resume(after, session)
    first, last = await calls(store)
    assert first.details["made_by"].startswith(agent_version(before)[:16])
    assert last.details["made_by"].startswith(agent_version(after)[:16])
    texts = [(await recorded_request(store, "s", e.seq)).instructions for e in (first, last)]
    assert texts == ["Be kind.", "Be quick."]


async def test_code_agents_tell_their_version_too() -> None:
    async def run(ctx: CodeContext) -> Any:
        await ctx.call(look_up, order=1)
        return await ctx.call(look_up, order=2)

    store, agent = MemoryStore(), Agent("desk", run=run, tools=[look_up])
    await Runner.run(agent, "hi", session=Session("s", store=store))
    events = await store.events("s")
    made_by = [
        (event.details or {}).get("made_by") for event in events if event.type == "tool_call"
    ]
    assert made_by == [agent_version(agent)[:16], None]


async def test_computed_parts_belong_to_the_session(store: Store) -> None:

    def instructions(ctx: Any, agent: Any) -> str:
        return "You speak with Ada."

    with ScriptedModel([call("look_up", order=1), say("hello")]) as model:
        agent = Agent("desk", model=model, instructions=instructions, tools=[look_up])
        await Runner.run(
            agent,
            "hi",
            session=Session("s", store=store),
            run_config=RunConfig(model_settings=ModelSettings(extra={"user": "Ada"})),
        )
    assert "Ada" not in canonical(await shared_texts(store))
    steps = await store.steps("s")
    assert [*steps.values()] == [
        {"settings": {"extra": {"user": "Ada"}}, "instructions": "You speak with Ada."}
    ]  # One step for both calls.
    for event in await calls(store):
        request = await recorded_request(store, "s", event.seq)
        assert request.instructions == "You speak with Ada."
        assert request.settings["extra"] == {"user": "Ada"}
    await store.delete("s")
    assert await store.steps("s") == {}


async def test_settings_that_are_not_json_do_not_stop_a_run() -> None:
    store = MemoryStore()
    with ScriptedModel([say("hello")]) as model:
        settings = ModelSettings(extra={"timeout": object(), "retry": float("inf")})
        agent = Agent("desk", model=model, model_settings=settings)
        await Runner.run(agent, "hi", session=Session("s", store=store))
    [event] = await calls(store)
    request = await recorded_request(store, "s", event.seq)
    assert request.settings["extra"] == {
        "timeout": {"not_json": "object"},
        "retry": {"not_json": "float"},
    }


async def test_runs_that_hide_content_hide_it_in_requests(store: Store) -> None:
    with ScriptedModel([say("hello")]) as model:
        agent = Agent("desk", model=model, instructions=lambda ctx, agent: "Ada is here.")
        await Runner.run(
            agent,
            "I am Ada",
            session=Session("s", store=store),
            run_config=RunConfig(
                trace_include_sensitive_data=False,
                model_settings=ModelSettings(extra={"user": "Ada"}),
            ),
        )
    [event] = await calls(store)
    assert event.details["made_by"] == agent_version(agent)[:16]
    assert (await store.steps("s"), await shared_texts(store)) == ({}, [])
    with pytest.raises(UserError, match="the run hid its content"):
        await recorded_request(store, "s", event.seq)


async def test_only_model_calls_have_requests() -> None:
    store = MemoryStore()
    with ScriptedModel([say("hello")]) as model:
        session = Session("s", store=store)
        await Runner.run(Agent("desk", model=model), "hi", session=session)
    with pytest.raises(UserError, match=r"no model call but of type message"):
        await recorded_request(store, "s", 1)
    with pytest.raises(UserError, match="choose one from 1 to"):
        await recorded_request(store, "s", 99)


async def test_a_request_whose_text_was_not_imported_is_not_known(store: Store) -> None:
    with ScriptedModel([say("hello")]) as model:
        session = Session("s", store=store)
        await Runner.run(Agent("desk", model=model), "hi", session=session)
    document = await export_session(store, "s")
    await delete_session(store, "s")
    await import_session(store, {**document, "versions": {}})
    [event] = await calls(store)
    with pytest.raises(UserError, match="is not known"):
        await recorded_request(store, "s", event.seq)


async def test_a_fork_in_the_middle_of_a_turn_keeps_the_requests(store: Store) -> None:
    with ScriptedModel([call("look_up", order=1), call("look_up", order=2), say("x")]) as model:
        agent = Agent("desk", model=model, instructions=lambda c, a: "Be kind.", tools=[look_up])
        await Runner.run(agent, "hi", session=Session("s", store=store))
    first, second, _ = await calls(store)
    await fork_session(store, "s", at_seq=second.seq, new_id="t")
    for event in (first, second):
        own = (await recorded_request(store, "s", event.seq)).to_json()
        copied = (await recorded_request(store, "t", event.seq)).to_json()
        assert {**own, "session_id": "t"} == copied


async def test_a_document_cannot_replace_shared_parts() -> None:
    store, other = MemoryStore(), MemoryStore()
    with ScriptedModel([say("hello")]) as model:
        agent = Agent("desk", model=model, instructions="Be kind.")
        await Runner.run(agent, "hi", session=Session("s", store=store))
    document = await export_session(store, "s")
    [(key, text)] = document["versions"].items()
    document["versions"][key] = text.replace("kind", "rude")
    with pytest.raises(SessionImportInvalid, match=f"versions.{key}"):
        await import_session(other, document)


async def test_data_of_handoffs_is_part_of_the_request() -> None:
    model = RecordingModel([transfer("b", reason="a parcel", summary="It is late."), say("ok")])
    store = MemoryStore()
    b = Agent("b", model=model, instructions="Be kind.")
    await Runner.run(Agent("a", model=model, handoffs=[b]), "hi", session=Session("s", store=store))
    assert "It is late." in model.seen[-1]
    assert await rebuilt(store, "s") == model.seen
    assert await store.steps("s") == {}


async def test_requests_of_supervisors_are_rebuilt() -> None:
    task = {"description": "Count.", "parameters": [], "depends_on": []}
    tasks = [{**task, "id": f"t{number}", "agent": f"{number}"} for number in (1, 2)]
    plan = {"reasoning": "", "tasks": tasks}
    model = RecordingModel([say(canonical(plan)), say("one"), say("two"), say("three")])
    store = MemoryStore()
    members = [Agent(name, model=model, description=f"Knows {name}.") for name in "12"]
    boss = Supervisor("boss", agents=members, model=model, instructions="Be fair.")
    await Runner.run(boss, "Count and add.", session=Session("s", store=store))
    own = [each for each, agent in zip(model.seen, model.agents, strict=True) if agent == "boss"]
    assert await rebuilt(store, "s") == own != []
