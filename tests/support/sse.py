"""Server-sent events as a test reads them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import httpx2


@dataclass(frozen=True)
class Sent:
    """One event."""

    event: str
    id: str | None
    data: Any


async def sent(response: httpx2.Response) -> AsyncIterator[Sent]:
    """The events of a stream as they come; comments are left out."""
    fields: dict[str, str] = {}
    async for line in response.aiter_lines():
        if line.startswith(":"):
            continue
        if line:
            name, _, value = line.partition(": ")
            fields[name] = value
            continue
        if "data" in fields:
            yield Sent(fields.get("event", "message"), fields.get("id"), json.loads(fields["data"]))
        fields = {}
