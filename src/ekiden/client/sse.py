"""Server-sent events: bytes in, messages out; no network here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ekiden.client.errors import ServerProblem

MAX_MESSAGE = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class SseMessage:
    """One message of a stream."""

    event: str
    data: str
    id: str | None = None
    """`None` if this message has none of its own."""


class SseReader:
    """Takes chunks as they come and gives whole messages; half a message at the end is dropped."""

    def __init__(self) -> None:
        self._rest = b""
        self._event = ""
        self._data: list[str] = []
        self._id: str | None = None
        self._size = 0
        """Of the data of the message that is being read."""

    def feed(self, chunk: bytes) -> Iterator[SseMessage]:
        """The messages that are complete with this chunk; `ServerProblem` for an endless one."""
        buffer = self._rest + chunk
        # A lone carriage return at the end may be the first half of a line break.
        held = b"\r" if buffer.endswith(b"\r") else b""
        text = buffer[: len(buffer) - len(held)].replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *lines, rest = text.split(b"\n")
        self._rest = rest + held
        for line in lines:
            message = self._line(line.decode("utf-8", "replace"))
            if message is not None:
                yield message
        if self._size + len(self._rest) > MAX_MESSAGE:
            raise ServerProblem(
                "client.problem", 200, f"one message is longer than {MAX_MESSAGE} bytes"
            )

    def _line(self, line: str) -> SseMessage | None:
        if line == "":
            return self._done()
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        match name:
            case "event":
                self._event = value
            case "data":
                self._data.append(value)
                self._size += len(value)
            case "id" if "\0" not in value:
                self._id = value
        return None

    def _done(self) -> SseMessage | None:
        event, data, number = self._event or "message", self._data, self._id
        self._event, self._data, self._id, self._size = "", [], None, 0
        if not data:
            return None
        return SseMessage(event=event, data="\n".join(data), id=number)
