"""A chat for programs: one JSON object per line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ekiden.cli.chat.screens.lines import event_record
from ekiden.cli.chat.screens.screen import CommandReply
from ekiden.cli.output import emit
from ekiden.core.conversation.model import ModelDelta
from ekiden.core.events import Event

if TYPE_CHECKING:
    from ekiden.cli.run.observer import Reported


class JsonScreen:
    """`Screen` on standard output; each line has a `type`."""

    def show(self, shown: Event | ModelDelta) -> None:
        if isinstance(shown, ModelDelta):
            emit({"type": "delta", **shown.to_json()})
        elif (record := event_record(shown)) is not None:
            emit(record)

    def beside(self, event: Event) -> None:
        record = event_record(event)
        if record is not None:
            emit({**record, "beside": True})

    def end(self, result: Reported) -> None:
        emit({"type": "result", **result.to_json()})

    def break_off(self) -> None:
        """Deltas without a following `message` mark it."""

    def reply(self, reply: CommandReply) -> None:
        emit({"type": reply.type, **reply.record})

    def note(self, text: str) -> None:
        emit({"type": "note", "text": text})

    def error(self, code: str, message: str, **facts: Any) -> None:
        emit({"type": "error", "code": code, "message": message, **facts})
