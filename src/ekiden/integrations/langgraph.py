"""Runs graphs of LangGraph as agents. Each node is stored when it ends, together with its tool
results."""

from __future__ import annotations

import asyncio
from base64 import b64decode, b64encode
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Any

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command

from ekiden.core.conversation.model import Usage
from ekiden.core.integrations.foreign_agents import (
    Durability,
    ForeignTurn,
    PersonAnswer,
    TurnAnswer,
    TurnCheckpoint,
    TurnDelta,
    TurnPart,
    TurnQuestion,
    TurnToolCall,
    TurnToolResult,
    TurnUsage,
)
from ekiden.core.values import loads
from ekiden.tools import to_jsonable

_THREAD, _INTERRUPT = "turn", "__interrupt__"


def adapter(graph: Any) -> LangGraphAgent:
    """The adapter of a compiled or uncompiled graph."""
    return LangGraphAgent(graph)


class LangGraphAgent:
    """A graph as an agent. `input` and `output` are functions for graphs whose state has no
    ``messages``.

    For example::

        LangGraphAgent(graph, input=lambda turn: {"topic": turn.text}, output=lambda s: s["report"])
    """

    framework = "langgraph"
    durability: Durability = "node"

    def __init__(
        self,
        graph: Any,
        *,
        input: Callable[[ForeignTurn], Any] | None = None,
        output: Callable[[Mapping[str, Any]], Any] | None = None,
    ) -> None:
        self._graph = graph.compile() if isinstance(graph, StateGraph) else graph
        self._input, self._output = input or _messages, output or _last_message

    async def take_turn(self, turn: ForeignTurn) -> AsyncGenerator[TurnPart, None]:
        """See `ForeignAdapter.take_turn`."""
        saver = _Saver(turn)
        graph = self._graph.copy({"checkpointer": saver})
        config = {"configurable": {"thread_id": _THREAD}}
        given: Any = None
        if not turn.resumes:
            given = self._input(turn)
        elif turn.answers:
            waiting = (await graph.aget_state(config)).interrupts
            given = Command(resume={each.id: _resume(each, turn.answers) for each in waiting})
        values: Any = None
        if turn.is_streamed:
            modes = ["messages", "values"]
            shown = graph.astream(given, config, stream_mode=modes, durability="sync")
            async for mode, data in shown:
                if mode == "values":
                    values = data
                elif data[0].type == "AIMessageChunk":
                    yield TurnDelta(text=data[0].text)
        else:
            values = await graph.ainvoke(given, config, durability="sync")
        interrupts = values.get(_INTERRUPT) if isinstance(values, dict) else None
        for each in interrupts or ():
            for question in _questions(each):
                yield question
        if not interrupts:
            yield TurnAnswer(output=self._output(values), checkpoint=saver.dump())


class _Saver(InMemorySaver):
    """Keeps the newest checkpoint of each namespace, and stores it in the session.

    It is stored when a node ends: LangGraph computes the next checkpoint from the node's writes.
    """

    def __init__(self, turn: ForeignTurn) -> None:
        super().__init__()
        self._turn, self._storing = turn, asyncio.Lock()
        self._calls: dict[str, list[Any]] = {}
        """Name and arguments of the open tool calls, by id."""
        self._emitted: dict[str, bool] = {}
        """Ids of emitted messages: a node may write the messages of its subgraph again."""
        if turn.checkpoint is not None:
            self._load(turn.checkpoint)

    async def aput(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        async with self._storing:  # The next node starts after the last one is stored.
            stored = self.put(config, checkpoint, metadata, new_versions)
            self._forget_old(config["configurable"]["checkpoint_ns"], checkpoint)
        return stored

    async def aput_writes(
        self, config: Any, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        self.put_writes(config, writes, task_id, task_path)
        if not task_path or task_path.endswith(f" {START}"):
            return  # These are the writes of the input or of an answer, not of a node.
        async with self._storing:
            for _, value in writes:
                for message in value if isinstance(value, list) else [value]:
                    await self._emit(message)
            await self._turn.emit(TurnCheckpoint(data=self.dump()))

    async def _emit(self, message: Any) -> None:
        kind = getattr(message, "type", None)
        if kind not in ("ai", "tool") or message.id in self._emitted:
            return
        if message.id is not None:
            self._emitted[message.id] = True
        if kind == "ai":
            for call in message.tool_calls:
                self._calls[str(call["id"])] = [call["name"], call["args"]]
            if message.usage_metadata:
                model = message.response_metadata.get("model_name")
                await self._turn.emit(_usage(message.usage_metadata, model))
        else:
            call_id = message.tool_call_id
            name, args = self._calls.pop(call_id, [message.name or "tool", {}])
            output = to_jsonable(message.content)
            error = str(message.content) if message.status == "error" else None
            await self._turn.emit(TurnToolCall(call_id=call_id, name=name, arguments=args))
            await self._turn.emit(TurnToolResult(call_id=call_id, output=output, error=error))

    def _forget_old(self, ns: str, newest: Mapping[str, Any]) -> None:
        """Delete older checkpoints, and the checkpoints of subgraphs, which have ended."""
        stored, inner = self.storage[_THREAD], f"{ns}|" if ns else ""
        ended = {each for each in stored if each.startswith(inner) and ":" in each[len(inner) :]}
        for each in ended:
            del stored[each]
        stored[ns] = {newest["id"]: stored[ns][newest["id"]]}
        for _, of, at in list(self.writes):
            if of in ended or (of == ns and at != newest["id"]):
                del self.writes[_THREAD, of, at]
        versions = newest["channel_versions"]
        for _, of, channel, version in list(self.blobs):
            if of in ended or (of == ns and versions.get(channel) != version):
                del self.blobs[_THREAD, of, channel, version]

    def dump(self) -> dict[str, Any]:
        """The whole state as one text: the store handles it faster than thousands of values."""
        kept: list[Any] = [
            [
                [ns, at, list(checkpoint), list(metadata), parent]
                for ns, found in self.storage[_THREAD].items()
                for at, (checkpoint, metadata, parent) in found.items()
            ],
            [
                [ns, at, task, place, channel, list(value), path]
                for (_, ns, at), found in self.writes.items()
                for (task, place), (_, channel, value, path) in found.items()
            ],
            [[*key[1:], list(value)] for key, value in self.blobs.items()],
            self._calls,
            self._emitted,
        ]
        kind, data = self.serde.dumps_typed(kept)
        return {"langgraph": kind, "data": b64encode(data).decode()}

    def _load(self, data: Mapping[str, str]) -> None:
        kept = self.serde.loads_typed((data["langgraph"], b64decode(data["data"])))
        checkpoints, writes, blobs, self._calls, self._emitted = kept
        for ns, at, checkpoint, metadata, parent in checkpoints:
            self.storage[_THREAD][ns][at] = (tuple(checkpoint), tuple(metadata), parent)
        for ns, at, task, place, channel, value, path in writes:
            self.writes[(_THREAD, ns, at)][(task, place)] = (task, channel, tuple(value), path)
        for ns, channel, version, value in blobs:
            self.blobs[(_THREAD, ns, channel, version)] = tuple(value)


def _usage(used: Mapping[str, Any], model: str | None) -> TurnUsage:
    usage = Usage(
        requests=1, input_tokens=used["input_tokens"], output_tokens=used["output_tokens"]
    )
    return TurnUsage(usage=usage, model=model)


def _messages(turn: ForeignTurn) -> Any:
    return {"messages": turn.messages()}


def _last_message(values: Mapping[str, Any]) -> Any:
    messages = values.get("messages")
    return messages[-1].content if messages else dict(values)


def _actions(interrupt: Any) -> list[tuple[str, Any]]:
    """The tool calls that an interrupt asks about: in the format of LangChain's middleware, or a
    mapping with ``tool`` and ``args``."""
    value = interrupt.value
    if not isinstance(value, Mapping):
        return []
    if "tool" in value:
        return [(str(value["tool"]), value.get("args", value.get("arguments")))]
    return [(each["name"], each.get("args")) for each in value.get("action_requests", ())]


def _questions(interrupt: Any) -> list[TurnQuestion]:
    actions = _actions(interrupt)
    if actions:
        return [
            TurnQuestion(id=f"{interrupt.id}/{index}", tool=tool, arguments=to_jsonable(args))
            for index, (tool, args) in enumerate(actions)
        ]
    value = to_jsonable(interrupt.value)
    text = value if isinstance(value, str) else ""
    context = None if isinstance(value, str) else value
    return [TurnQuestion(id=interrupt.id, subject=text[:500], body=text, context=context)]


def _resume(interrupt: Any, answers: Mapping[str, PersonAnswer]) -> Any:
    """The return value of `interrupt()`: a text, a mapping with ``approved``, or decisions."""
    actions = _actions(interrupt)
    if not actions:
        return answers[interrupt.id].words
    given = [answers[f"{interrupt.id}/{index}"] for index in range(len(actions))]
    if "tool" in interrupt.value:
        [answer] = given
        args = None if answer.arguments is None else loads(answer.arguments)
        return {"approved": answer.approved, "by": answer.by, "reason": answer.text, "args": args}
    pairs = zip(actions, given, strict=True)
    return {"decisions": [_decision(name, each) for (name, _), each in pairs]}


def _decision(name: str, answer: PersonAnswer) -> dict[str, Any]:
    if not answer.approved:
        return {"type": "reject", "message": answer.text or "a person refused it"}
    if answer.arguments is not None:
        action = {"name": name, "args": loads(answer.arguments)}
        return {"type": "edit", "edited_action": action}
    return {"type": "approve"}
