"""Runs agents and workflows of the Microsoft Agent Framework. Each step is stored when it ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping
from contextlib import nullcontext
from dataclasses import asdict, is_dataclass, replace
from json import JSONDecodeError
from typing import Any

from agent_framework import (
    Agent,
    AgentResponse,
    AgentResponseUpdate,
    AgentSession,
    ChatContext,
    ChatMiddleware,
    ChatResponse,
    CheckpointStorage,
    Content,
    FunctionInvocationContext,
    FunctionMiddleware,
    FunctionTool,
    Message,
    Workflow,
    WorkflowCheckpoint,
)
from agent_framework._workflows._checkpoint_encoding import (
    decode_checkpoint_value,
    encode_checkpoint_value,
)

from ekiden.core.conversation.model import Usage
from ekiden.core.errors import UserError
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
from ekiden.tools import output_text, result_form, to_jsonable


class AgentFrameworkWorkflow:
    """A workflow as a member of a team. Pass the workflow, or a function that builds one for each
    turn.

    A single workflow object takes one turn at a time, and its executors must restore their state
    from checkpoints. `types` are your own classes that messages and state contain. For example::

        AgentFrameworkWorkflow(build, input=lambda turn: Order(turn.text), types=[Order])
    """

    framework = "agent_framework"
    durability: Durability = "superstep"

    def __init__(
        self,
        workflow: Workflow | Callable[[], Workflow],
        *,
        input: Callable[[ForeignTurn], Any] | None = None,
        types: Collection[type] = (),
    ) -> None:
        self._workflow, self._input = workflow, input or _text
        self._types = frozenset(f"{each.__module__}:{each.__qualname__}" for each in types)
        self._lock = asyncio.Lock()
        self._blank: WorkflowCheckpoint | None = None
        """The state before the first turn, for a workflow object that takes several turns."""

    async def take_turn(self, turn: ForeignTurn) -> AsyncGenerator[TurnPart, None]:
        """See `ForeignAdapter.take_turn`."""
        is_shared = isinstance(self._workflow, Workflow)
        workflow = self._workflow if isinstance(self._workflow, Workflow) else self._workflow()
        storage = _Storage(turn, self._types)
        outputs: list[Any] = []
        requests: list[Any] = []
        calls = _pending_calls(storage.loaded) if turn.resumes else {}
        async with self._lock if is_shared else nullcontext():
            start = await self._restore(workflow, turn, storage)
            async for event in workflow.run(**start, stream=True, checkpoint_storage=storage):
                if event.type == "request_info":
                    requests.append(event)
                elif event.type in ("output", "intermediate"):
                    if event.type == "output":
                        outputs.append(event.data)
                    for part in _parts(event.data, calls):
                        yield part
            if is_shared and self._blank is None and storage.first is not None:
                self._blank = replace(storage.first, messages={})
        for event in requests:
            yield _question(event)
        if not requests:
            yield TurnAnswer(output=_output(outputs))

    async def _restore(self, workflow: Workflow, turn: ForeignTurn, storage: _Storage) -> Any:
        """Restore the state of the last checkpoint; returns the arguments for running the turn."""
        last = storage.loaded if turn.checkpoint is not None else self._blank
        if not turn.resumes:
            if last is not None:
                # Without messages, this run only restores the state, and stores nothing.
                unstored = _Storage(None, self._types, last)
                await workflow.run(checkpoint_id=last.checkpoint_id, checkpoint_storage=unstored)
            return {"message": self._input(turn)}
        assert last is not None
        pending = last.pending_request_info_events
        responses = {
            name: _response(pending[name], answer)
            for name, answer in turn.answers.items()
            if name in pending
        }
        return {"checkpoint_id": last.checkpoint_id, "responses": responses or None}


class _Storage(CheckpointStorage):
    """Stores the newest checkpoint in the session. Without a turn it stores nothing."""

    def __init__(
        self,
        turn: ForeignTurn | None,
        types: frozenset[str],
        loaded: WorkflowCheckpoint | None = None,
    ) -> None:
        self._turn, self.loaded = turn, loaded
        self.first: WorkflowCheckpoint | None = None
        if turn is not None and turn.checkpoint is not None:
            data = decode_checkpoint_value(turn.checkpoint, allowed_types=types)
            self.loaded = WorkflowCheckpoint.from_dict(data)

    async def save(self, checkpoint: WorkflowCheckpoint) -> str:
        """See `CheckpointStorage`."""
        self.first = self.first or checkpoint
        if self._turn is not None:
            data = encode_checkpoint_value(checkpoint.to_dict())
            await self._turn.emit(TurnCheckpoint(data=data))
        return str(checkpoint.checkpoint_id)

    async def load(self, checkpoint_id: str) -> WorkflowCheckpoint:
        """See `CheckpointStorage`."""
        assert self.loaded is not None
        return self.loaded

    async def list_checkpoints(self, *, workflow_name: str) -> list[WorkflowCheckpoint]:
        """See `CheckpointStorage`."""
        return [self.loaded] if self.loaded else []

    async def delete(self, checkpoint_id: str) -> bool:
        """See `CheckpointStorage`."""
        return False

    async def get_latest(self, *, workflow_name: str) -> WorkflowCheckpoint | None:
        """See `CheckpointStorage`."""
        return self.loaded

    async def list_checkpoint_ids(self, *, workflow_name: str) -> list[str]:
        """See `CheckpointStorage`."""
        return [self.loaded.checkpoint_id] if self.loaded else []


def _text(turn: ForeignTurn) -> str:
    return "\n\n".join(each["content"] for each in turn.messages())


def _question(event: Any) -> TurnQuestion:
    data = event.data
    if _is_approval(event):
        call = data.function_call
        return TurnQuestion(id=event.request_id, tool=call.name, arguments=call.arguments)
    value = asdict(data) if is_dataclass(data) and not isinstance(data, type) else data
    text = value if isinstance(value, str) else ""
    return TurnQuestion(
        id=event.request_id,
        subject=text[:500],
        body=text,
        options=("yes", "no") if event.response_type is bool else (),
        context=None if text else to_jsonable(value),
    )


def _response(event: Any, answer: PersonAnswer) -> Any:
    """The answer in the type that the executor expects: a bool, a text, or JSON of a class."""
    if _is_approval(event):
        return event.data.to_function_approval_response(answer.approved and not answer.arguments)
    if event.response_type is bool:
        return answer.words == "yes"
    if event.response_type is str:
        return answer.words
    try:
        return loads(answer.words)
    except (JSONDecodeError, ValueError):
        return answer.words


def _pending_calls(checkpoint: WorkflowCheckpoint | None) -> dict[str, TurnToolCall]:
    """The calls that wait for approval, by id."""
    pending = checkpoint.pending_request_info_events.values() if checkpoint else ()
    calls = [event.data.function_call for event in pending if _is_approval(event)]
    return {each.call_id: _call(each) for each in calls}


def _is_approval(event: Any) -> bool:
    return isinstance(event.data, Content) and event.data.type == "function_approval_request"


def _call(content: Any) -> TurnToolCall:
    arguments = to_jsonable(content.arguments)
    return TurnToolCall(call_id=content.call_id, name=content.name, arguments=arguments)


def _parts(data: Any, calls: dict[str, TurnToolCall]) -> list[TurnPart]:
    """The parts of the answer of an agent in the workflow. A call is sent with its result."""
    if not isinstance(data, AgentResponse | AgentResponseUpdate):
        return []
    parts: list[TurnPart] = []
    messages: Any = data.messages if isinstance(data, AgentResponse) else [data]
    for content in (each for message in messages for each in message.contents):
        call_id = content.call_id or ""
        if content.type == "text" and isinstance(data, AgentResponseUpdate):
            parts.append(TurnDelta(text=content.text or ""))
        elif content.type == "function_call" and content.name:
            calls[call_id] = _call(content)
        elif content.type == "function_result":
            unknown = TurnToolCall(call_id=call_id, name="tool")
            output = to_jsonable(content.result)
            parts.append(calls.pop(call_id, unknown))
            parts.append(TurnToolResult(call_id=call_id, output=output))
        elif content.type == "usage":
            parts.append(_usage(content.usage_details))
    if isinstance(data, AgentResponse) and data.usage_details:
        parts.append(_usage(data.usage_details))
    return parts


def _usage(used: Mapping[str, Any], model: str | None = None) -> TurnUsage:
    usage = Usage(
        requests=1,
        input_tokens=used.get("input_token_count") or 0,
        output_tokens=used.get("output_token_count") or 0,
    )
    return TurnUsage(usage=usage, model=model)


def _output(outputs: list[Any]) -> Any:
    """The last output. The pieces of a streamed output are joined."""
    pieces = [each for each in outputs if isinstance(each, AgentResponseUpdate)]
    if pieces and isinstance(outputs[-1], AgentResponseUpdate):
        return "".join(each.text for each in pieces)
    last = outputs[-1] if outputs else ""
    if isinstance(last, list) and last and all(isinstance(each, Message) for each in last):
        last = last[-1]
    return last.text if isinstance(last, AgentResponse | Message) else last


_TRANSFER = "transfer_to_"


def adapter(obj: Any) -> AgentFrameworkAgent | AgentFrameworkWorkflow:
    """The adapter of an agent or of a workflow."""
    if isinstance(obj, Workflow):
        return AgentFrameworkWorkflow(obj)
    if not isinstance(obj, Agent):
        raise UserError(
            f"{type(obj).__name__} of the Agent Framework is neither an Agent nor a Workflow: "
            "give one of them, or write a ForeignAdapter"
        )
    return AgentFrameworkAgent(obj)


class AgentFrameworkAgent:
    """An agent of the framework as a member of a team.

    For example::

        foreign_agent(AgentFrameworkAgent(agent), "billing")
    """

    framework = "agent_framework"
    durability: Durability = "call"

    def __init__(self, agent: Agent[Any]) -> None:
        self._agent = agent

    async def take_turn(self, turn: ForeignTurn) -> AsyncGenerator[TurnPart, None]:
        """See `ForeignAdapter.take_turn`."""
        last = turn.checkpoint or {}
        session = AgentSession.from_dict(last["session"]) if last else self._agent.create_session()
        if turn.resumes:
            contents = []
            for request in map(Content.from_dict, last["requests"]):
                answer = turn.answers[str(request.id)]
                approved = answer.approved and answer.arguments is None
                contents.append(request.to_function_approval_response(approved))
            messages = [Message("user", contents)]
        else:
            messages = [Message(each["role"], [each["content"]]) for each in turn.messages()]
        response = await self._agent.run(
            messages,
            session=session,
            middleware=[_StoredCalls(turn), _StoredAnswers(turn)],
            tools=[_transfer(turn, to, text) for to, text in turn.handoffs.items()],
        )
        after = {"session": to_jsonable(session.to_dict())}
        requests = response.user_input_requests
        if not requests:
            yield TurnAnswer(output=response.text, checkpoint=after)
            return
        after["requests"] = [to_jsonable(each.to_dict()) for each in requests]
        for place, each in enumerate(requests):
            yield TurnQuestion(
                id=str(each.id),
                tool=each.function_call.name,
                arguments=each.function_call.arguments,
                checkpoint=None if place else after,
            )


class _StoredCalls(FunctionMiddleware):
    """Makes each tool call a stored step, which is not repeated after a crash."""

    def __init__(self, turn: ForeignTurn) -> None:
        self._turn = turn

    async def process(
        self, context: FunctionInvocationContext, call_next: Callable[[], Awaitable[None]]
    ) -> None:
        """See `FunctionMiddleware`."""
        if context.function.name.startswith(_TRANSFER):
            await call_next()
            return

        async def call(key: str) -> Any:
            await call_next()
            result = context.result
            text = output_text(result_form(context.function.name, result))
            contents = result if isinstance(result, list) else [Content.from_text(text)]
            return [to_jsonable(each.to_dict()) for each in contents]

        stored = await self._turn.step(context.function.name, to_jsonable(context.arguments), call)
        context.result = [Content.from_dict(each) for each in stored]


class _StoredAnswers(ChatMiddleware):
    """Makes each model call a stored step, which is not repeated after a crash."""

    def __init__(self, turn: ForeignTurn) -> None:
        self._turn = turn

    async def process(self, context: ChatContext, call_next: Callable[[], Awaitable[None]]) -> None:
        """See `ChatMiddleware`."""

        async def ask(key: str) -> Any:
            await call_next()
            response = context.result
            if response.text:
                await self._turn.emit(TurnDelta(text=response.text))
            await self._turn.emit(_usage(response.usage_details or {}, response.model))
            return to_jsonable(response.to_dict())

        stored = await self._turn.step("model", len(context.messages), ask, is_tool=False)
        context.result = ChatResponse.from_dict(stored)


def _transfer(turn: ForeignTurn, to: str, description: str) -> FunctionTool:
    def transfer(reason: str = "") -> str:
        return turn.hand_to(to, reason=reason)

    return FunctionTool(name=f"{_TRANSFER}{to}", description=description, func=transfer)
