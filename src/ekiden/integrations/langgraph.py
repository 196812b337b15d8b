"""Graphs of LangGraph as agents: each node is stored when it ends, with what its tools did."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Any

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import StateGraph
from langgraph.types import Command

from ekiden.core.conversation.usage import Usage
from ekiden.core.foreign import (
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
from ekiden.core.values.jsonio import loads
from ekiden.tools import to_jsonable

_THREAD, _INTERRUPT = "turn", "__interrupt__"


def adapter(graph: Any) -> LangGraphAgent:
    """The adapter of a graph, compiled or not."""
    return LangGraphAgent(graph)


class LangGraphAgent:
    """A graph as an agent; `input` and `output` are for states that have no ``messages``.

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
        """See `ForeignAdapter`."""
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
        if given is None:
            state = await graph.aget_state(config)
            if not state.next:
                yield TurnAnswer(output=to_jsonable(self._output(state.values)))
                return
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
            yield TurnAnswer(output=to_jsonable(self._output(values)))


class _Saver(InMemorySaver):
    """Keeps the newest checkpoint of each namespace, in the session's transaction."""

    def __init__(self, turn: ForeignTurn) -> None:
        super().__init__()
        self._turn = turn
        self._calls: dict[str, list[Any]] = {}
        """Tools that were called and gave nothing yet, by the id of the call."""
        if turn.checkpoint is not None:
            self._load(turn.checkpoint)

    async def aput(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        stored = self.put(config, checkpoint, metadata, new_versions)
        self._forget_old(config["configurable"]["checkpoint_ns"], checkpoint)
        await self._turn.emit(TurnCheckpoint(data=self._dump()))
        return stored

    async def aput_writes(
        self, config: Any, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        self.put_writes(config, writes, task_id, task_path)
        for _, value in writes:
            for message in value if isinstance(value, list) else [value]:
                await self._tell(message)
        await self._turn.emit(TurnCheckpoint(data=self._dump()))

    async def _tell(self, message: Any) -> None:
        kind = getattr(message, "type", None)
        if kind == "ai":
            for call in message.tool_calls:
                self._calls[str(call["id"])] = [call["name"], call["args"]]
            if message.usage_metadata:
                model = message.response_metadata.get("model_name")
                await self._turn.emit(_usage(message.usage_metadata, model))
        elif kind == "tool":
            call_id = message.tool_call_id
            name, args = self._calls.pop(call_id, [message.name or "tool", {}])
            failed = message.status == "error"
            await self._turn.emit(TurnToolCall(call_id=call_id, name=name, arguments=args))
            await self._turn.emit(
                TurnToolResult(
                    call_id=call_id,
                    output=to_jsonable(message.content),
                    error=str(message.content) if failed else None,
                )
            )

    def _forget_old(self, ns: str, newest: Mapping[str, Any]) -> None:
        kept = self.storage[_THREAD][ns]
        for old in [each for each in kept if each != newest["id"]]:
            del kept[old]
            self.writes.pop((_THREAD, ns, old), None)
        versions = newest["channel_versions"]
        for key in [key for key in self.blobs if key[1] == ns and versions.get(key[2]) != key[3]]:
            del self.blobs[key]

    def _dump(self) -> dict[str, Any]:
        return {
            "checkpoints": [
                [ns, at, _text(checkpoint), _text(metadata), parent]
                for ns, kept in self.storage[_THREAD].items()
                for at, (checkpoint, metadata, parent) in kept.items()
            ],
            "writes": [
                [ns, at, task, place, channel, _text(value), path]
                for (_, ns, at), kept in self.writes.items()
                for (task, place), (_, channel, value, path) in kept.items()
            ],
            "blobs": [
                [ns, channel, version, _text(value)]
                for (_, ns, channel, version), value in self.blobs.items()
            ],
            "calls": self._calls,
        }

    def _load(self, data: Mapping[str, Any]) -> None:
        for ns, at, checkpoint, metadata, parent in data["checkpoints"]:
            self.storage[_THREAD][ns][at] = (_typed(checkpoint), _typed(metadata), parent)
        for ns, at, task, place, channel, value, path in data["writes"]:
            self.writes[(_THREAD, ns, at)][(task, place)] = (task, channel, _typed(value), path)
        for ns, channel, version, value in data["blobs"]:
            self.blobs[(_THREAD, ns, channel, version)] = _typed(value)
        self._calls = dict(data["calls"])


def _text(value: tuple[str, bytes]) -> list[str]:
    return [value[0], b64encode(value[1]).decode()]


def _typed(value: Sequence[str]) -> tuple[str, bytes]:
    return value[0], b64decode(value[1])


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
    """The tools that an interrupt asks about: as LangChain's middleware says it, or as a mapping
    with ``tool`` and ``args``."""
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
            TurnQuestion(id=f"{interrupt.id}/{place}", tool=tool, arguments=to_jsonable(args))
            for place, (tool, args) in enumerate(actions)
        ]
    value = to_jsonable(interrupt.value)
    words = value if isinstance(value, str) else ""
    context = None if isinstance(value, str) else value
    return [TurnQuestion(id=interrupt.id, subject=words[:500], body=words, context=context)]


def _resume(interrupt: Any, answers: Mapping[str, PersonAnswer]) -> Any:
    """What `interrupt()` returns: the words, a mapping with ``approved``, or decisions."""
    actions = _actions(interrupt)
    if not actions:
        return answers[interrupt.id].words
    given = [answers[f"{interrupt.id}/{place}"] for place in range(len(actions))]
    if "tool" in interrupt.value:
        [answer] = given
        args = None if answer.arguments is None else loads(answer.arguments)
        return {"approved": answer.approved, "by": answer.by, "reason": answer.text, "args": args}
    return {
        "decisions": [_decision(name, each) for (name, _), each in zip(actions, given, strict=True)]
    }


def _decision(name: str, answer: PersonAnswer) -> dict[str, Any]:
    if not answer.approved:
        return {"type": "reject", "message": answer.text or "a person refused it"}
    if answer.arguments is not None:
        action = {"name": name, "args": loads(answer.arguments)}
        return {"type": "edit", "edited_action": action}
    return {"type": "approve"}
