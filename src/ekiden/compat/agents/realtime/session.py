"""A live session of the SDK: Ekiden's session, its agents and events in the SDK's terms."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from typing import Any

from ekiden.compat.agents.exceptions import UserError
from ekiden.compat.agents.guardrail import OutputGuardrailResult
from ekiden.compat.agents.items import ToolApprovalItem, typed
from ekiden.compat.agents.logger import log_model_and_tool_action_warning, logger
from ekiden.compat.agents.realtime.agent import RealtimeAgent
from ekiden.compat.agents.realtime.config import RealtimeRunConfig, RealtimeUserInput
from ekiden.compat.agents.realtime.events import (
    RealtimeAgentEndEvent,
    RealtimeAudio,
    RealtimeError,
    RealtimeEventInfo,
    RealtimeGuardrailTripped,
    RealtimeHistoryAdded,
    RealtimeHistoryUpdated,
    RealtimeInputAudioTimeoutTriggered,
    RealtimeRawModelEvent,
    RealtimeSessionEvent,
    RealtimeToolApprovalRequired,
    RealtimeToolStart,
)
from ekiden.compat.agents.realtime.items import to_native, to_sdk
from ekiden.compat.agents.realtime.model import (
    RealtimeModel,
    RealtimeModelConfig,
    RealtimeModelListener,
)
from ekiden.compat.agents.realtime.model_events import (
    RealtimeModelEndOfStreamEvent,
    RealtimeModelEvent,
    RealtimeModelExceptionEvent,
    RealtimeModelInputAudioTimeoutTriggeredEvent,
    RealtimeModelItemUpdatedEvent,
    RealtimeModelOutputTextDeltaEvent,
    RealtimeModelToolCallEvent,
    RealtimeModelTranscriptDeltaEvent,
    RealtimeModelTurnEndedEvent,
    RealtimeModelTurnStartedEvent,
    RealtimeModelUsageEvent,
)
from ekiden.compat.agents.realtime.model_inputs import (
    RealtimeModelSendAudio,
    RealtimeModelSendInterrupt,
    RealtimeModelSendRawMessage,
    RealtimeModelSendSessionUpdate,
    RealtimeModelSendToolOutput,
    RealtimeModelSendUserInput,
)
from ekiden.compat.agents.realtime.team import RealtimeTeam
from ekiden.compat.agents.run_config import ToolErrorFormatterArgs
from ekiden.compat.agents.run_context import RunContextWrapper
from ekiden.compat.agents.tool import (
    DEFAULT_APPROVAL_REJECTION_MESSAGE,
    FunctionTool,
    invoke_function_tool,
    read_arguments,
)
from ekiden.compat.agents.tool_context import ToolContext
from ekiden.integrations.realtime import (
    RealtimeModelSettings,
    RealtimeRunConfig as NativeConfig,
    RealtimeSession as NativeSession,
    RealtimeSetup,
    items as native,
    model as native_inputs,
)

REJECTION_MESSAGE = DEFAULT_APPROVAL_REJECTION_MESSAGE
_DEBOUNCE = 100
_MOST_HANDOFFS = 1000


class RealtimeSession(RealtimeModelListener):
    """A conversation over a live connection; `RealtimeRunner.run` creates it.

    The connection is open inside ``async with``. Iterate over the session to get its events.
    """

    def __init__(
        self,
        model: RealtimeModel,
        agent: RealtimeAgent[Any],
        context: Any = None,
        model_config: RealtimeModelConfig | None = None,
        run_config: RealtimeRunConfig | None = None,
    ) -> None:
        self._model = model
        self._agent = agent
        self._context: RunContextWrapper[Any] = RunContextWrapper(context)
        self._info = RealtimeEventInfo(context=self._context)
        self._model_config: RealtimeModelConfig = model_config or {}
        self._run_config: RealtimeRunConfig = run_config or {}
        self._team = RealtimeTeam(self._context, self._invoke)
        self._bridge = _Bridge(self)
        self._native: NativeSession | None = None
        self._waiting: dict[str, tuple[asyncio.Future[bool], ToolApprovalItem]] = {}
        self._guards = _Guards(self)
        self._hides_end = False

    @property
    def model(self) -> RealtimeModel:
        """The model; use it to add listeners and to send your own messages."""
        return self._model

    async def __aenter__(self) -> RealtimeSession:
        """Connect; what the model or the agents' own functions raise gets out."""
        starting: Any = self._model_config.get("initial_model_settings") or {}
        start = await self._team.prepare(self._agent, starting)
        config = NativeConfig(
            tool_timeout_s=None, max_handoffs=_MOST_HANDOFFS, returns="always", max_calls=1000
        )
        self._native = NativeSession(self._bridge, start, self._context.context, config=config)
        await self._native.enter()
        self._context.join(self._native.context)
        self.show(RealtimeHistoryUpdated(history=[], info=self._info))
        return self

    async def enter(self) -> RealtimeSession:
        """Like ``async with``, for callers that call `close` themselves."""
        return await self.__aenter__()

    async def __aexit__(self, kind: Any, error: Any, traceback: Any) -> None:
        await self.close()

    async def __aiter__(self) -> AsyncIterator[RealtimeSessionEvent]:
        if self._native is None:
            return
        async for event in self._native:
            shown = self._shown(event)
            if shown is not None:
                yield shown

    async def close(self) -> None:
        """End the session; a second call does nothing."""
        await self._guards.close()
        if self._native is not None:
            await self._native.close()

    async def send_message(self, message: RealtimeUserInput) -> None:
        """Send a message from the person; the agent answers."""
        await self._open().send_message(message)

    async def send_audio(self, audio: bytes, *, commit: bool = False) -> None:
        """Send audio from the person."""
        await self._open().send_audio(audio, commit=commit)

    async def interrupt(self) -> None:
        """Stop the answer."""
        await self._model.send_event(RealtimeModelSendInterrupt())

    async def update_agent(self, agent: RealtimeAgent[Any]) -> None:
        """Hand the conversation to a handoff target of the active agent."""
        await self._open().update_agent(self._team.agent(agent))

    async def approve_tool_call(self, call_id: str, *, always: bool = False) -> None:
        """Approve a waiting tool call, or from now on all calls of this tool."""
        self._decide(call_id, is_approved=True, always=always)

    async def reject_tool_call(
        self, call_id: str, *, always: bool = False, rejection_message: str | None = None
    ) -> None:
        """Reject a waiting tool call, or from now on all calls of this tool."""
        self._decide(call_id, is_approved=False, always=always, message=rejection_message)

    async def on_event(self, event: RealtimeModelEvent) -> None:
        """Handle an event of the model."""
        self._bridge.reports.put_nowait(event)

    def show(self, event: Any) -> None:
        """Add an event to the events of the session."""
        if self._native is not None:
            self._native.show(event)

    def _open(self) -> NativeSession:
        if self._native is None:
            raise UserError("the session is not open: use it inside its `async with` block")
        return self._native

    def _decide(
        self, call_id: str, *, is_approved: bool, always: bool, message: str | None = None
    ) -> None:
        if call_id not in self._waiting:
            raise UserError(f"no tool call {call_id!r} waits for approval")
        decided, item = self._waiting.pop(call_id)
        self._context.decisions.decide(item, is_approved, always=always, message=message)
        decided.set_result(is_approved)

    async def _invoke(
        self, tool: FunctionTool, agent: RealtimeAgent[Any], context: ToolContext[Any]
    ) -> Any:
        """Run a tool, with the approval that it needs."""
        call_id, arguments = context.tool_call_id, context.tool_arguments
        if tool.needs_approval:
            if not await self._is_allowed(tool, agent, context):
                return await self._rejection(tool, call_id)
            self.show(
                RealtimeToolStart(agent=agent, tool=tool, arguments=arguments, info=self._info)  # type: ignore[arg-type]
            )
        return await invoke_function_tool(function_tool=tool, context=context, arguments=arguments)

    async def _is_allowed(
        self, tool: FunctionTool, agent: RealtimeAgent[Any], context: ToolContext[Any]
    ) -> bool:
        call_id, arguments = context.tool_call_id, context.tool_arguments
        needs: Any = tool.needs_approval
        if callable(needs):
            needs = needs(self._context, read_arguments(tool.name, arguments), call_id)
            needs = await needs if inspect.isawaitable(needs) else needs
        if not needs:
            return True
        known = self._context.decisions.of(agent.name, tool.qualified_name, call_id)
        if known is not None:
            return known
        call = {
            "type": "function_call",
            "call_id": call_id,
            "name": tool.name,
            "arguments": arguments,
        }
        item = ToolApprovalItem(agent, typed(call), tool.name)
        decided: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting[call_id] = (decided, item)
        self.show(
            RealtimeToolApprovalRequired(
                agent=agent, tool=tool, call_id=call_id, arguments=arguments, info=self._info
            )
        )
        return await decided

    async def _rejection(self, tool: FunctionTool, call_id: str) -> str:
        given = self._context.decisions.message(tool.qualified_name, call_id)
        formatter = self._run_config.get("tool_error_formatter")
        if given is not None or formatter is None:
            return REJECTION_MESSAGE if given is None else given
        told = formatter(
            ToolErrorFormatterArgs(
                kind="approval_rejected",
                tool_type="function",
                tool_name=tool.name,
                call_id=call_id,
                default_message=REJECTION_MESSAGE,
                run_context=self._context,
            )
        )
        told = await told if inspect.isawaitable(told) else told
        return told if isinstance(told, str) else REJECTION_MESSAGE

    def _shown(self, event: Any) -> Any:
        """An event of Ekiden's session as one of the SDK's; `None` if the SDK has none."""
        if event.info is self._info:
            return event
        changes: dict[str, Any] = {"info": self._info}
        match event:
            case RealtimeRawModelEvent(data=data):
                self._hides_end = isinstance(data, _SilentEnd)
                if not isinstance(data, _Report):
                    return None
                changes["data"] = data.data
            case RealtimeAgentEndEvent() if self._hides_end:
                self._hides_end = False
                return None
            case RealtimeAudio(audio=audio):
                if audio.response_id in self._guards.stopped:
                    return None
            case RealtimeHistoryAdded(item=item):
                changes["item"] = to_sdk(item)
                if changes["item"] is None:
                    return None
            case RealtimeHistoryUpdated(history=history):
                items = [to_sdk(each) for each in history]
                changes["history"] = [each for each in items if each is not None]
        for name in ("agent", "from_agent", "to_agent"):
            if hasattr(event, name):
                changes[name] = self._team.sdk_agent(getattr(event, name))
        if hasattr(event, "tool"):
            changes["tool"] = self._team.sdk_tool(event.tool)
            if isinstance(event, RealtimeToolStart) and changes["tool"].needs_approval:
                return None  # It is shown when the call is allowed.
        return replace(event, **changes)


class _Guards:
    """Output guardrails: they check the answer each time that it has grown by some characters."""

    def __init__(self, session: RealtimeSession) -> None:
        self._session = session
        self._texts: dict[str, str] = {}
        self._checks: dict[str, int] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._latest: str | None = None
        """The last answer that began."""
        self._current: str | None = None
        """The last answer, until it ends."""
        self.stopped: set[str] = set()
        """Answers that a guardrail stopped."""

    def follow(self, event: Any) -> None:
        """Check the answer if it is long enough."""
        if isinstance(event, RealtimeModelTurnStartedEvent):
            self._latest = self._current = event.response_id
            return
        if isinstance(event, RealtimeModelTurnEndedEvent):
            self._texts.clear()
            self._checks.clear()
            self._current = None
            return
        is_audio = isinstance(event, RealtimeModelTranscriptDeltaEvent)
        if not is_audio and not isinstance(event, RealtimeModelOutputTextDeltaEvent):
            return
        self._latest = self._current = event.response_id
        session = self._session
        agent = session._team.sdk_agent(session._open().agent)
        every = session._run_config.get("output_guardrails") or []
        guardrails = list({id(each): each for each in (*agent.output_guardrails, *every)}.values())
        if not guardrails:
            return
        settings = session._run_config.get("guardrails_settings") or {}
        text = self._texts[event.item_id] = self._texts.get(event.item_id, "") + event.delta
        due = len(text) // max(1, settings.get("debounce_text_length", _DEBOUNCE))
        if due > self._checks.get(event.item_id, 0):
            self._checks[event.item_id] = due
            check = self._check(guardrails, agent, text, event.response_id, is_audio=is_audio)
            task = asyncio.create_task(check)
            self._tasks.add(task)
            task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            error: Any = {"message": f"Guardrail task failed: {task.exception()}"}
            self._session.show(RealtimeError(error=error, info=self._session._info))

    async def close(self) -> None:
        """Stop the checks that run."""
        tasks = [each for each in self._tasks if each is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _check(
        self,
        guardrails: list[Any],
        agent: RealtimeAgent[Any],
        text: str,
        response_id: str,
        *,
        is_audio: bool,
    ) -> None:
        session, tripped = self._session, list[OutputGuardrailResult]()
        for guardrail in guardrails:
            try:
                found = await guardrail.run(session._context, agent, text)
            except Exception as exc:
                log_model_and_tool_action_warning(logger, "an output guardrail failed", exc)
                continue
            if found.output.tripwire_triggered:
                tripped.append(found)
        if not tripped or response_id in self.stopped:
            return
        self.stopped.add(response_id)
        session.show(
            RealtimeGuardrailTripped(guardrail_results=tripped, message=text, info=session._info)
        )
        # The answer may be over by now: then only its audio can be stopped, not the next answer.
        if response_id == self._current:
            await session.model.send_event(
                RealtimeModelSendInterrupt(
                    force_response_cancel=True,
                    response_id=response_id,
                    cancel_response_only=not is_audio,
                )
            )
        elif is_audio:
            await session.model.send_event(
                RealtimeModelSendInterrupt(response_id=response_id, playback_only=True)
            )
        names = ", ".join(each.guardrail.get_name() for each in tripped)
        told = RealtimeModelSendUserInput(user_input=f"A guardrail stopped your answer: {names}")
        await session.model.send_event_if(told, lambda: response_id == self._latest)


class _Report(native.RealtimeModelOtherEvent):
    """A report of the SDK's model, which the session shows as it is."""


class _SilentEnd(native.RealtimeModelTurnEndedEvent):
    """Has a call made that came outside an answer."""


class _Bridge:
    """The SDK's model as one of Ekiden's, and its own connection."""

    def __init__(self, session: RealtimeSession) -> None:
        self._session = session
        self.reports: asyncio.Queue[RealtimeModelEvent] = asyncio.Queue()
        self._turn: str | None = None
        """The answer under way."""
        self._calls: dict[str, RealtimeModelToolCallEvent] = {}
        """Calls that are not answered yet."""
        self._held: RealtimeModelSendToolOutput | None = None
        """Sent with what follows: whether the model goes on is part of it."""
        self._asks = False

    async def connect(self, setup: RealtimeSetup, settings: RealtimeModelSettings) -> _Bridge:
        session = self._session
        options = session._model_config.copy()
        starting = dict(options.get("initial_model_settings") or {})
        more = {key: starting[key] for key in starting if key not in ("tools", "handoffs")}
        options["initial_model_settings"] = {**self._settings(setup), **more}  # type: ignore[typeddict-item]
        session.model.add_listener(session)
        try:
            await session.model.connect(options)
        except BaseException:
            session.model.remove_listener(session)
            raise
        return self

    def _settings(self, setup: RealtimeSetup) -> Any:
        session = self._session
        config, starting = session._run_config, session._model_config.get("initial_model_settings")
        settings: dict[str, Any] = {
            **(config.get("model_settings") or {}),
            **(starting or {}),
            **session._team.offer(setup),
        }
        if config.get("tracing_disabled"):
            settings["tracing"] = None
        return settings

    async def send(self, event: native_inputs.RealtimeModelSendEvent) -> None:
        """Tell the SDK's model; it asks for an answer by itself after a message of the person."""
        if isinstance(event, native_inputs.RealtimeModelRequestResponse):
            await self._release(is_last=True)
            return
        await self._release(is_last=False)
        send = self._session.model.send_event
        match event:
            case native_inputs.RealtimeModelSendUserInput(content=content):
                is_text = len(content) == 1 and content[0].keys() == {"type", "text"}
                said: Any = {"type": "message", "role": "user", "content": list(content)}
                said = content[0]["text"] if is_text else said
                await send(RealtimeModelSendUserInput(user_input=said))
            case native_inputs.RealtimeModelSendAudio(audio=audio, commit=commit):
                await send(RealtimeModelSendAudio(audio=audio, commit=commit))
            case native_inputs.RealtimeModelSendToolOutput(tool_call=call, output=output):
                asked = self._calls.pop(call.call_id)
                self._held = RealtimeModelSendToolOutput(asked, output, start_response=False)
            case native_inputs.RealtimeModelSendSessionUpdate(setup=setup):
                await send(RealtimeModelSendSessionUpdate(self._settings(setup)))
            case native_inputs.RealtimeModelSendMessage():
                part = {"type": "input_text", "text": event.text}
                item = {"type": "message", "role": event.role, "content": [part]}
                await self._raw("conversation.item.create", item=item)
                self._asks = True
            case native_inputs.RealtimeModelSendInterrupt():
                await send(RealtimeModelSendInterrupt())
            case native_inputs.RealtimeModelSendRawMessage(message=message):
                rest = {key: value for key, value in message.items() if key != "type"}
                await self._raw(message["type"], **rest)

    async def _release(self, *, is_last: bool) -> None:
        held, self._held = self._held, None
        asks, self._asks = self._asks, False
        if held is not None:
            held.start_response = is_last
            await self._session.model.send_event(held)
        elif asks and is_last:
            await self._raw("response.create")

    async def _raw(self, kind: str, **fields: Any) -> None:
        await self._session.model.send_event(
            RealtimeModelSendRawMessage({"type": kind, "other_data": fields})
        )

    async def events(self) -> AsyncIterator[Any]:
        """What the SDK's model reports: each report as it is, then in Ekiden's terms."""
        while True:
            event = await self.reports.get()
            yield _Report(data=event)
            if isinstance(event, RealtimeModelEndOfStreamEvent):
                return
            for each in self._translated(event):
                yield each

    def _translated(self, event: Any) -> Iterator[Any]:
        self._session._guards.follow(event)
        match event:
            case RealtimeModelExceptionEvent(exception=exception):
                raise exception
            case RealtimeModelInputAudioTimeoutTriggeredEvent():
                info = self._session._info
                self._session.show(RealtimeInputAudioTimeoutTriggered(info=info))
            case RealtimeModelUsageEvent(usage=usage):
                self._session._context.usage.add(usage)
            case RealtimeModelItemUpdatedEvent(item=item):
                yield native.RealtimeModelItemUpdatedEvent(item=to_native(item))
            case RealtimeModelTurnStartedEvent(response_id=response_id):
                self._turn = response_id or ""
                yield native.RealtimeModelTurnStartedEvent(response_id=self._turn)
            case RealtimeModelTurnEndedEvent(response_id=response_id):
                turn = (response_id or "") if self._turn is None else self._turn
                self._turn = None
                yield native.RealtimeModelTurnEndedEvent(response_id=turn)
            case RealtimeModelToolCallEvent():
                self._calls[event.call_id] = event
                turn = event.call_id if self._turn is None else self._turn
                yield native.RealtimeModelToolCallEvent(
                    name=event.name,
                    call_id=event.call_id,
                    arguments=event.arguments,
                    response_id=turn,
                    item_id=event.id,
                )
                if self._turn is None:
                    yield _SilentEnd(response_id=turn)
            case _:
                yield event

    async def close(self) -> None:
        session = self._session
        session.model.remove_listener(session)
        await session.model.close()
