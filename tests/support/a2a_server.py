"""A remote agent for tests, made of the official server: it does what its requests say."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from a2a.helpers.proto_helpers import new_task_from_user_message, new_text_message
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill, Part
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.types import Message, Receive, Scope, Send

from tests.support.serving import served


class Partner(AgentExecutor):
    """The first word of a request says what becomes of it."""

    def __init__(self) -> None:
        self.received: list[str] = []
        """The requests that were begun, each once."""
        self.message_ids: list[str] = []
        self.contexts: list[str] = []
        self.cancelled: list[str] = []
        self.working = asyncio.Event()
        """Something with `hold` is under way."""
        self.release = asyncio.Event()
        """It may go on."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.message is not None
        text = context.get_user_input()
        self.received.append(text)
        self.message_ids.append(context.message.message_id)
        if text.startswith("at once"):
            await event_queue.enqueue_event(new_text_message("said at once"))
            return
        task = context.current_task
        is_answer = task is not None
        if task is None:
            task = new_task_from_user_message(context.message)
            await event_queue.enqueue_event(task)
        self.contexts.append(task.context_id)
        told = TaskUpdater(event_queue, task.id, task.context_id)
        await told.start_work()
        if text.startswith("hold"):
            self.working.set()
            await self.release.wait()
        await self._end(told, text, is_answer=is_answer)

    async def _end(self, told: TaskUpdater, text: str, *, is_answer: bool) -> None:
        if text.startswith("fail"):
            await told.failed(told.new_agent_message([Part(text="the press broke")]))
        elif text.startswith("reject"):
            await told.reject(told.new_agent_message([Part(text="we do not print that")]))
        elif text.startswith("ask") and not is_answer:
            await told.requires_input(told.new_agent_message([Part(text="which colour?")]))
        elif text.startswith("data"):
            part = Part()
            part.data.struct_value.update({"copies": 3})
            await told.add_artifact([part], name="result")
            await told.complete()
        else:
            await told.add_artifact([Part(text=f"printed: {text.splitlines()[0]}")], name="result")
            await told.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.task_id is not None
        assert context.context_id is not None
        self.cancelled.append(context.task_id)
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()


class Cuts:
    """Breaks connections of an application off, as often as it is told, in the middle of answers
    to methods whose name is given."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self.cut: dict[str, int] = {}
        self.calls: list[str] = []
        self.headers: list[dict[str, str]] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        body = await Request(scope, receive).body()
        method = next((name for name in METHODS if f'"{name}"'.encode() in body), "")
        self.calls.append(method)
        self.headers.append(dict(Request(scope).headers))
        sent = False

        async def again() -> Message:
            nonlocal sent
            if sent:
                return await receive()
            sent = True
            return {"type": "http.request", "body": body, "more_body": False}

        if not self.cut.get(method):
            await self._app(scope, again, send)
            return
        self.cut[method] -= 1

        async def swallowed(message: Message) -> None:
            """The answer is made, and lost on the way."""
            if message["type"] == "http.response.start":
                await send({"type": "http.response.start", "status": 200, "headers": _LONG})
            elif message["type"] == "http.response.body":
                raise ConnectionAbortedError

        await self._app(scope, again, swallowed)


METHODS = ("SendMessage", "GetTask", "ListTasks", "SubscribeToTask", "CancelTask")
_LONG = [(b"content-type", b"application/json"), (b"content-length", b"1000000")]


@asynccontextmanager
async def partner_served(
    partner: Partner, *, streaming: bool = True, interface: str | None = None
) -> AsyncIterator[tuple[str, Cuts]]:
    """The partner behind a real socket: the address of its card, and what can break it."""
    card = AgentCard(
        name="Partner",
        description="Prints.",
        version="1",
        capabilities=AgentCapabilities(streaming=streaming),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[AgentSkill(id="print", name="print", description="Prints.", tags=["print"])],
    )
    card.supported_interfaces.append(
        AgentInterface(url="", protocol_binding="JSONRPC", protocol_version="1.0")
    )
    handler = DefaultRequestHandler(partner, InMemoryTaskStore(), card)
    routes = [*create_agent_card_routes(card), *create_jsonrpc_routes(handler, "/rpc")]
    cuts = Cuts(Starlette(routes=routes))
    async with served(cuts) as url:
        card.supported_interfaces[0].url = interface or f"{url}/rpc"
        yield url, cuts
