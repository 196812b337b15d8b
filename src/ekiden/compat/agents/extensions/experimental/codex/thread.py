"""A conversation with Codex."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Literal, TypeAlias, TypedDict

from ekiden.compat.agents.extensions.experimental.codex.codex_options import CodexOptions
from ekiden.compat.agents.extensions.experimental.codex.events import (
    ItemCompletedEvent,
    ThreadErrorEvent,
    ThreadEvent,
    ThreadStartedEvent,
    TurnCompletedEvent,
    TurnFailedEvent,
    Usage,
    coerce_thread_event,
)
from ekiden.compat.agents.extensions.experimental.codex.exec import CodexExec, CodexExecArgs
from ekiden.compat.agents.extensions.experimental.codex.items import (
    ThreadItem,
    is_agent_message_item,
)
from ekiden.compat.agents.extensions.experimental.codex.output_schema_file import (
    create_output_schema_file,
)
from ekiden.compat.agents.extensions.experimental.codex.thread_options import ThreadOptions
from ekiden.compat.agents.extensions.experimental.codex.turn_options import TurnOptions


class TextInput(TypedDict):
    """A text for Codex."""

    type: Literal["text"]
    text: str


class LocalImageInput(TypedDict):
    """A picture for Codex."""

    type: Literal["local_image"]
    path: str


UserInput: TypeAlias = TextInput | LocalImageInput
Input: TypeAlias = str | list[UserInput]


@dataclass(frozen=True)
class Turn:
    """A completed turn."""

    items: list[ThreadItem]
    final_response: str
    usage: Usage | None


@dataclass(frozen=True)
class StreamedTurn:
    """A turn with a stream of events."""

    events: AsyncGenerator[ThreadEvent, None]


RunResult: TypeAlias = Turn
RunStreamedResult: TypeAlias = StreamedTurn


class Thread:
    """A conversation with Codex; `Codex.start_thread` creates it."""

    def __init__(
        self,
        *,
        exec_client: CodexExec,
        options: CodexOptions,
        thread_options: ThreadOptions,
        thread_id: str | None = None,
    ) -> None:
        self._exec = exec_client
        self._options = options
        self._thread_options = thread_options
        self._id = thread_id

    @property
    def id(self) -> str | None:
        """The id that resumes the thread; `None` before the first turn has started."""
        return self._id

    async def run_streamed(
        self, input: Input, turn_options: TurnOptions | None = None
    ) -> StreamedTurn:
        """Start a turn. The turn runs while you read its events."""
        return StreamedTurn(events=self._events(input, turn_options or TurnOptions()))

    async def run(self, input: Input, turn_options: TurnOptions | None = None) -> Turn:
        """Run a turn to its end. Raises `RuntimeError` if the turn fails."""
        items: list[ThreadItem] = []
        answer, usage = "", None
        async with aclosing(self._events(input, turn_options or TurnOptions())) as events:
            async for event in events:
                if isinstance(event, ItemCompletedEvent):
                    items.append(event.item)
                    if is_agent_message_item(event.item):
                        answer = event.item.text
                elif isinstance(event, TurnCompletedEvent):
                    usage = event.usage
                elif (failure := failure_of(event)) is not None:
                    raise RuntimeError(failure)
        return Turn(items=items, final_response=answer, usage=usage)

    async def _events(
        self, input: Input, turn_options: TurnOptions
    ) -> AsyncGenerator[ThreadEvent, None]:
        prompt, images = _split(input)
        options = vars(self._thread_options)
        folders = options["additional_directories"]
        schema = create_output_schema_file(turn_options.output_schema)
        args = CodexExecArgs(
            input=prompt,
            images=images,
            base_url=self._options.base_url,
            api_key=self._options.api_key,
            thread_id=self._id,
            output_schema_file=schema.schema_path,
            signal=turn_options.signal,
            idle_timeout_seconds=turn_options.idle_timeout_seconds,
            **{**options, "additional_directories": list(folders) if folders else None},
        )
        try:
            async with aclosing(self._exec.run(args)) as lines:
                async for line in lines:
                    event = _read(line)
                    if isinstance(event, ThreadStartedEvent):
                        self._id = event.thread_id
                    yield event
        finally:
            schema.cleanup()


def failure_of(event: ThreadEvent) -> str | None:
    """What the event says of a failed turn; `None` if it does not end the turn in this way."""
    if isinstance(event, TurnFailedEvent):
        return f"the turn of Codex failed: {event.error.message}"
    if isinstance(event, ThreadErrorEvent):
        return f"Codex reports an error: {event.message}"
    return None


def _split(input: Input) -> tuple[str, list[str]]:
    """The texts as one prompt, and the paths of the pictures."""
    if isinstance(input, str):
        return input, []
    texts = [each["text"] for each in input if each["type"] == "text"]
    return "\n\n".join(texts), [each["path"] for each in input if each["type"] == "local_image"]


def _read(line: str) -> ThreadEvent:
    try:
        return coerce_thread_event(json.loads(line))
    except (ValueError, TypeError, KeyError) as exc:
        raise RuntimeError(f"the codex command wrote no event: {line!r:.400}") from exc
