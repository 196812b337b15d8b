"""Runs agents of Google ADK. Each event is stored when it is appended to ADK's session."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.agents.run_config import RunConfig, StreamingMode
from google.adk.apps import App, ResumabilityConfig
from google.adk.events import Event
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService, Session
from google.adk.tools import FunctionTool
from google.genai import types

from ekiden.core.conversation.model import Usage
from ekiden.core.integrations.foreign_agents import (
    CheckpointDelta,
    Durability,
    ForeignTurn,
    TurnAnswer,
    TurnCheckpoint,
    TurnDelta,
    TurnPart,
    TurnQuestion,
    TurnToolCall,
    TurnToolResult,
    TurnUsage,
)
from ekiden.tools import to_jsonable

_APP, _USER = "ekiden", "user"
_CONFIRM = "adk_request_confirmation"


def adapter(agent: Any) -> AdkAgent:
    """The adapter of an agent, or of an app."""
    return AdkAgent(agent)


class AdkAgent:
    """An agent of ADK as a member of a team.

    ADK resumes an invocation at its last event, so an interrupted tool may run again. For example::

        foreign_agent(AdkAgent(root_agent), "billing")
    """

    framework = "google_adk"
    durability: Durability = "event"

    def __init__(self, agent: Any) -> None:
        self._agent = agent.root_agent if isinstance(agent, App) else agent
        self._plugins = list(agent.plugins) if isinstance(agent, App) else []

    async def take_turn(self, turn: ForeignTurn) -> AsyncGenerator[TurnPart, None]:
        """See `ForeignAdapter.take_turn`."""
        service = _Sessions(turn)
        await service.begin()
        app = App(
            name=_APP,
            root_agent=_with_transfers(self._agent, turn),
            plugins=self._plugins,
            resumability_config=ResumabilityConfig(is_resumable=True),
        )
        runner = Runner(app=app, session_service=service)
        message, invocation = None, None
        if turn.resumes:
            invocation = service.last.invocation_id
        if turn.answers:
            parts = [_confirmed(*each) for each in turn.answers.items()]
            message = types.Content(role="user", parts=parts)
        elif not turn.resumes:
            text = "\n\n".join(each["content"] for each in turn.messages())
            message = types.Content(role="user", parts=[types.Part(text=text)])
        final = ""
        mode = StreamingMode.SSE if turn.is_streamed else StreamingMode.NONE
        stream = runner.run_async(
            user_id=_USER,
            session_id=_APP,
            invocation_id=invocation,
            new_message=message,
            run_config=RunConfig(streaming_mode=mode),
        )
        async with aclosing(stream):
            async for event in stream:
                text = _text(event)
                if text and event.partial:
                    yield TurnDelta(text=text)
                elif text and event.is_final_response():
                    final = text
        asked = service.unanswered()
        for call in asked:
            original = (call.args or {}).get("originalFunctionCall") or {}
            hint = ((call.args or {}).get("toolConfirmation") or {}).get("hint", "")
            yield TurnQuestion(
                id=str(call.id),
                tool=original.get("name", "tool"),
                arguments=to_jsonable(original.get("args")),
                body=hint,
            )
        if not asked:
            yield TurnAnswer(output=final or service.last_text())


def _text(event: Event) -> str:
    parts = event.content.parts if event.content else None
    return "".join(part.text or "" for part in parts or () if not part.thought)


def _with_transfers(agent: Any, turn: ForeignTurn) -> Any:
    """The agent with a tool for each handoff target. Only an `LlmAgent` has tools."""
    if not turn.handoffs or not isinstance(agent, LlmAgent):
        return agent
    transfers = [_transfer(turn, to, text) for to, text in turn.handoffs.items()]
    return agent.clone(update={"tools": [*agent.tools, *transfers]})


def _transfer(turn: ForeignTurn, to: str, description: str) -> FunctionTool:
    def transfer(reason: str = "") -> str:
        return turn.hand_to(to, reason=reason)

    transfer.__name__, transfer.__doc__ = f"transfer_to_{to}", description
    return FunctionTool(transfer)


def _confirmed(call_id: str, answer: Any) -> Any:
    # ADK cannot run the call with edited arguments, so edited arguments reject it.
    response = {"confirmed": answer.approved and answer.arguments is None}
    return types.Part(
        function_response=types.FunctionResponse(id=call_id, name=_CONFIRM, response=response)
    )


class _Sessions(InMemorySessionService):
    """One session of ADK. Each event is stored as a checkpoint of the turn."""

    def __init__(self, turn: ForeignTurn) -> None:
        super().__init__()
        self._turn = turn
        self._events: list[Event] = []

    async def begin(self) -> None:
        """Create the session from the checkpoint."""
        data = self._turn.checkpoint or {"events": [], "state": {}}
        session = await self.create_session(
            app_name=_APP, user_id=_USER, session_id=_APP, state=data["state"]
        )
        for each in data["events"]:
            event = Event.model_validate(each)
            self._events.append(event)
            await super().append_event(session, event)

    @property
    def last(self) -> Event:
        """The last event."""
        return self._events[-1]

    async def append_event(self, session: Session, event: Event) -> Event:
        """Store the event, and emit its tool results and its usage."""
        event = await super().append_event(session, event)
        if event.partial:
            return event
        self._events.append(event)
        await self._emit_results(event)
        used = event.usage_metadata
        if used is not None:
            usage = Usage(
                requests=1,
                input_tokens=used.prompt_token_count or 0,
                output_tokens=used.candidates_token_count or 0,
            )
            await self._turn.emit(TurnUsage(usage=usage, model=event.model_version))
        state = {k: v for k, v in session.state.items() if not k.startswith("temp:")}
        added = {
            "events": [event.model_dump(mode="json", exclude_none=True)],
            "state": to_jsonable(state),
        }
        await self._turn.emit(TurnCheckpoint(data=CheckpointDelta(added)))
        return event

    async def _emit_results(self, event: Event) -> None:
        calls = {str(call.id): call for each in self._events for call in each.get_function_calls()}
        for result in event.get_function_responses():
            call = calls.get(str(result.id))
            waits = event.actions.requested_tool_confirmations
            if call is None or call.name == _CONFIRM or (waits and str(result.id) in waits):
                continue
            call_id, arguments = str(result.id), to_jsonable(call.args)
            await self._turn.emit(
                TurnToolCall(call_id=call_id, name=call.name or "", arguments=arguments)
            )
            await self._turn.emit(
                TurnToolResult(call_id=call_id, output=to_jsonable(result.response))
            )

    def unanswered(self) -> list[Any]:
        """The requests for confirmation without an answer."""
        answered = {
            str(each.id) for event in self._events for each in event.get_function_responses()
        }
        return [
            call
            for event in self._events
            for call in event.get_function_calls()
            if call.name == _CONFIRM and str(call.id) not in answered
        ]

    def last_text(self) -> str:
        """The last text of the agent."""
        for event in reversed(self._events):
            if event.author != "user" and (text := _text(event)):
                return text
        return ""
