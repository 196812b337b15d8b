"""Codex as a tool, against an executable that writes Codex's events, one JSON object per line."""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from ekiden.compat.agents import Agent, RunConfig, Runner
from ekiden.compat.agents.exceptions import UserError
from ekiden.compat.agents.extensions.experimental.codex import (
    Codex,
    CodexToolOptions,
    CommandExecutionItem,
    ThreadOptions,
    TodoListItem,
    TurnOptions,
    Usage,
    codex_tool,
)
from ekiden.compat.agents.extensions.experimental.codex.events import coerce_thread_event
from ekiden.compat.agents.tracing import TracingProcessor, set_trace_processors
from ekiden.testing import ScriptedModel, call, say

STAND_IN = f"""#!{sys.executable}
import json, os, pathlib, sys, time
here = pathlib.Path(__file__).parent
args = sys.argv[1:]
schema = args[args.index("--output-schema") + 1] if "--output-schema" in args else None
seen = {{"args": args, "input": sys.stdin.read(), "key": os.environ.get("CODEX_API_KEY")}}
seen["schema"] = json.loads(pathlib.Path(schema).read_text()) if schema else None
with open(here / "calls", "a") as file:
    file.write(json.dumps(seen) + "\\n")
for line in (here / "events").read_text().splitlines():
    if line == "hang":
        time.sleep(60)
    elif line.startswith("exit"):
        sys.stderr.write("out of credit")
        sys.exit(int(line.split()[1]))
    else:
        print(line, flush=True)
"""
COMMAND = {"id": "item_1", "type": "command_execution", "command": "ls"}
EVENTS: list[Any] = [
    {"type": "thread.started", "thread_id": "th-1"},
    {"type": "turn.started"},
    {"type": "item.started", "item": {**COMMAND, "status": "in_progress"}},
    {
        "type": "item.completed",
        "item": {**COMMAND, "status": "failed", "exit_code": 2, "aggregated_output": "x" * 500},
    },
    {"type": "item.completed", "item": {"id": "item_2", "type": "agent_message", "text": "Done."}},
    {
        "type": "turn.completed",
        "usage": {"input_tokens": 70, "cached_input_tokens": 20, "output_tokens": 5},
    },
]


@dataclass(frozen=True)
class Frozen:
    codex_thread_id: str | None = None


@dataclass
class StandIn:
    folder: Path

    @property
    def codex(self) -> Codex:
        return Codex(codex_path_override=str(self.folder / "codex"), api_key="key")

    def says(self, *events: Any) -> None:
        lines = [each if isinstance(each, str) else json.dumps(each) for each in events]
        (self.folder / "events").write_text("\n".join(lines))

    @property
    def calls(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.folder / "calls").read_text().splitlines()]


@pytest.fixture
def stand_in(tmp_path: Path) -> StandIn:
    (tmp_path / "codex").write_text(STAND_IN)
    (tmp_path / "codex").chmod(0o755)
    made = StandIn(tmp_path)
    made.says(*EVENTS)
    return made


class Spans(TracingProcessor):
    def __init__(self) -> None:
        self.ended: list[Any] = []

    def on_span_end(self, span: Any) -> None:
        self.ended.append(span)

    def on_trace_start(self, trace: Any) -> None: ...
    def on_trace_end(self, trace: Any) -> None: ...
    def on_span_start(self, span: Any) -> None: ...
    def shutdown(self) -> None: ...
    def force_flush(self) -> None: ...


async def test_an_agent_uses_codex_and_continues_its_thread(stand_in: StandIn) -> None:
    heard: list[Any] = []
    spans = Spans()
    tool = codex_tool(
        {"codex": stand_in.codex, "span_data_max_chars": 300},
        name="codex_engineer",
        sandbox_mode="read-only",
        use_run_context_thread_id=True,
        on_stream=lambda told: heard.append((told.event.type, told.thread.id)),
    )
    asked = call("codex_engineer", inputs=[{"type": "text", "text": "List the files"}])
    model = ScriptedModel([asked, asked, say("Two files.")])
    agent: Agent[Any] = Agent(name="Lead", tools=[tool])
    context: dict[str, Any] = {}
    set_trace_processors([spans])
    try:
        result = await Runner.run(agent, "Go", context=context, run_config=RunConfig(model=model))
    finally:
        set_trace_processors([])
    assert result.final_output == "Two files."
    assert context == {"codex_thread_id_engineer": "th-1"}
    first, second = stand_in.calls
    assert first["args"] == ["exec", "--experimental-json", "--sandbox", "read-only", "-"]
    assert second["args"][-4:] == ["resume", "--", "th-1", "-"]
    assert (first["input"], first["key"]) == ("List the files", "key")
    outputs = [item.output for item in result.new_items if item.type == "tool_call_output_item"]
    assert json.loads(str(outputs[0])) == {
        "thread_id": "th-1",
        "response": "Done.",
        "usage": {"input_tokens": 70, "cached_input_tokens": 20, "output_tokens": 5},
    }
    assert result.context_wrapper.usage.input_tokens_details.cached_tokens >= 40
    assert heard[0] == ("thread.started", "th-1")
    assert len(heard) == 2 * len(EVENTS)
    named = [
        each for each in spans.ended if getattr(each.span_data, "name", "").startswith("Codex")
    ]
    assert len(named) == 2
    data = named[0].span_data.data
    assert (data["command"], data["status"], data["exit_code"]) == ("ls", "failed", 2)
    assert len(json.dumps(data)) <= 300
    assert named[0].error["data"]["exit_code"] == 2


async def test_a_thread_passes_its_options_to_the_command(stand_in: StandIn) -> None:
    options = ThreadOptions(
        model="gpt-5.2",
        working_directory="/w",
        additional_directories=["/a", "/b"],
        skip_git_repo_check=True,
        model_reasoning_effort="low",
        network_access_enabled=False,
        web_search_enabled=True,
        approval_policy="never",
    )
    schema = {"type": "object", "properties": {}}
    thread = stand_in.codex.start_thread(options)
    turn = await thread.run(
        [
            {"type": "text", "text": "Look"},
            {"type": "local_image", "path": "p.png"},
            {"type": "text", "text": "here"},
        ],
        TurnOptions(output_schema=schema),
    )
    assert (turn.final_response, turn.usage) == ("Done.", Usage(70, 20, 5))
    assert isinstance(turn.items[0], CommandExecutionItem)
    assert turn.items[0]["exit_code"] == 2
    [made] = stand_in.calls
    file = made["args"].pop(made["args"].index("--output-schema") + 1)
    assert " ".join(made["args"]) == (
        "exec --experimental-json --model gpt-5.2 --cd /w --add-dir /a --add-dir /b "
        '--output-schema --skip-git-repo-check --config model_reasoning_effort="low" '
        '--config sandbox_workspace_write.network_access=false --config web_search="live" '
        '--config approval_policy="never" --image p.png -'
    )
    assert (made["input"], made["schema"]) == ("Look\n\nhere", schema)
    assert not Path(file).exists()


@pytest.mark.parametrize(
    ("ending", "options", "told"),
    [
        ("exit 3", {}, "ended with code 3: out of credit"),
        ("no JSON", {}, "wrote no event: 'no JSON'"),
        ('{"type": "turn.failed", "error": {"message": "too long"}}', {}, "failed: too long"),
        ('{"type": "error", "message": "lost"}', {}, "reports an error: lost"),
        ("hang", {"idle_timeout_seconds": 0.5}, "nothing for 0.5 seconds"),
        ('{"type": "item.completed", "item": "' + "y" * 70_000 + '"}', {}, "above the limit"),
    ],
)
async def test_a_failed_turn_raises_the_reason(
    stand_in: StandIn, ending: str, options: dict[str, Any], told: str
) -> None:
    stand_in.says(EVENTS[0], ending)
    codex = Codex(
        codex_path_override=str(stand_in.folder / "codex"),
        codex_subprocess_stream_limit_bytes=65536,
    )
    thread = codex.start_thread()
    with pytest.raises(RuntimeError, match=told):
        await thread.run("Go", TurnOptions(**options))
    assert thread.id == "th-1"


async def test_a_signal_ends_the_command(stand_in: StandIn) -> None:
    stand_in.says(EVENTS[0], "hang")
    signal = asyncio.Event()
    streamed = await stand_in.codex.start_thread().run_streamed("Go", TurnOptions(signal=signal))
    await anext(streamed.events)
    signal.set()
    with pytest.raises(RuntimeError, match="ended with code -15"):
        await anext(streamed.events)


async def test_a_failure_is_reported_to_the_model_and_the_thread_is_kept(stand_in: StandIn) -> None:
    stand_in.says(EVENTS[0], {"type": "turn.failed", "error": {"message": "no credit"}})
    options = CodexToolOptions(
        codex=stand_in.codex,
        use_run_context_thread_id=True,
        failure_error_function=lambda ctx, error: f"told: {error}",
    )
    asked = call("codex", inputs=[{"type": "text", "text": "Go"}])
    model = ScriptedModel([asked, say("Sorry.")])
    agent: Agent[Any] = Agent(name="Lead", tools=[codex_tool(options)])
    context: dict[str, Any] = {}
    result = await Runner.run(agent, "Go", context=context, run_config=RunConfig(model=model))
    [output] = [item.output for item in result.new_items if item.type == "tool_call_output_item"]
    assert output == "told: the turn of Codex failed: no credit"
    assert context == {"codex_thread_id": "th-1"}


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"sandbox": "x"}, "has no .'sandbox'.; known: name"),
        ({"name": "helper"}, "starts with 'codex_'"),
        ({"name": "codex_a-b", "use_run_context_thread_id": True}, "set run_context_thread_id_key"),
        ({"output_schema": {"type": "array"}}, "JSON Schema of an object"),
        ({"output_schema": {"properties": [{"name": "a", "schema": {"type": "x"}}]}}, "'a'"),
        ({"default_thread_options": 3}, "ThreadOptions must be an object or a mapping, not int"),
    ],
)
def test_invalid_codex_options_are_refused(given: dict[str, Any], told: str) -> None:
    with pytest.raises(UserError, match=told):
        codex_tool(**given)


@pytest.mark.parametrize("context", [None, MappingProxyType({}), Frozen()])
async def test_a_context_that_cannot_store_the_thread_is_refused_before_the_turn(
    stand_in: StandIn, context: Any
) -> None:
    tool = codex_tool(
        codex=stand_in.codex, use_run_context_thread_id=True, failure_error_function=None
    )
    asked = call("codex", inputs=[{"type": "text", "text": "Go"}])
    agent: Agent[Any] = Agent(name="Lead", tools=[tool])
    config = RunConfig(model=ScriptedModel([asked]))
    with pytest.raises(UserError, match="pass context={} or an object with it"):
        await Runner.run(agent, "Go", context=context, run_config=config)
    assert not (stand_in.folder / "calls").exists()


async def test_a_missing_codex_command_is_reported_with_advice(tmp_path: Path) -> None:
    codex = Codex({"codex_path_override": str(tmp_path / "none")})
    with pytest.raises(UserError, match="install it, or set CODEX_PATH"):
        await codex.start_thread().run("Go")


async def test_the_output_schema_may_be_described_by_its_fields(stand_in: StandIn) -> None:
    names = {"type": "array", "items": {"type": "string"}}
    fields = [{"name": "files", "description": "All.", "schema": names}]
    tool = codex_tool(codex=stand_in.codex, output_schema={"properties": fields})
    model = ScriptedModel([call("codex", inputs=[{"type": "text", "text": "Go"}]), say("Ok.")])
    agent: Agent[Any] = Agent(name="Lead", tools=[tool])
    await Runner.run(agent, "Go", run_config=RunConfig(model=model))
    assert stand_in.calls[0]["schema"] == {
        "type": "object",
        "additionalProperties": False,
        "properties": {"files": {**names, "description": "All."}},
        "required": [],
    }


def test_events_are_read_with_their_items_and_unknown_ones_are_kept() -> None:
    event = coerce_thread_event(
        {
            "type": "item.updated",
            "item": {"id": "i", "type": "todo_list", "items": [{"text": "a", "completed": True}]},
        }
    )
    assert isinstance(event["item"], TodoListItem)
    assert event.as_dict()["item"]["items"] == [{"text": "a", "completed": True}]
    newer = coerce_thread_event({"type": "turn.paused", "why": "x"})
    assert (newer.type, newer["payload"]) == ("turn.paused", {"type": "turn.paused", "why": "x"})
