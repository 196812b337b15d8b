"""Traces, which are only looked at."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, Literal

from ekiden.client.modes import M, Resource, answers, given, lists, streams
from ekiden.client.paths import part
from ekiden.client.streams import Listing


class Traces(Resource[M]):
    """What happened in sessions, as trees of spans."""

    @answers
    async def get(
        self,
        session_id: str,
        *,
        format: Literal["json", "openai"] = "json",
        children: bool = True,
        content: bool = False,
    ) -> Mapping[str, Any]:
        """The trace of a session, with those that answered it; `content`: with what was said."""
        params = {"format": format, "children": children, "content": content}
        trace: Mapping[str, Any] = await self._wire.ask(
            "GET", f"/traces/{part(session_id)}", params=params
        )
        return trace

    @lists
    def spans(
        self,
        session_id: str,
        *,
        kinds: Sequence[str] | None = None,
        children: bool = True,
        content: bool = False,
    ) -> Listing[Mapping[str, Any]]:
        """The spans of a trace, in the order of the tree."""
        more = given(kinds=None if kinds is None else tuple(kinds))
        params = {"children": children, "content": content, **more}
        return Listing(path=f"/traces/{part(session_id)}/spans", params=params, parse=dict)

    @streams
    async def export(
        self, session_id: str, *, children: bool = True, content: bool = False
    ) -> AsyncGenerator[str, None]:
        """The trace as lines of JSON, a span on each."""
        params = {"format": "jsonl", "children": children, "content": content}
        path = f"/traces/{part(session_id)}"
        async with self._wire.stream("GET", path, params=params) as answer:
            async for line in answer.aiter_lines():
                if line:
                    yield line
