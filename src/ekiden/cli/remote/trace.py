"""`ekiden trace --server`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ekiden.cli.commands import trace as local
from ekiden.cli.errors import NoSessions, UsageError
from ekiden.cli.exits import Exit
from ekiden.cli.remote.likeness import like
from ekiden.core.jsonio import dumps

if TYPE_CHECKING:
    from ekiden.client import AsyncClient


@like(local.trace)
async def trace(
    client: AsyncClient,
    *,
    session: str | None,
    errors: bool,
    follow: bool,
    children: bool,
    format: local.TraceFormat | None,
    output: Path | None,
    content: bool,
    otlp: bool,
    endpoint: str | None,
    plain: bool,
    as_json: bool,
) -> int:
    """Show what happened in a session of the server."""
    from ekiden.cli.remote.team_reading import trace_of

    local.check_format(
        format, output=output, content=content and not otlp, other=follow or errors or as_json
    )
    local.check_otlp(otlp, endpoint, other=format is not None or follow or errors)
    if follow:
        raise UsageError("--follow is not for servers; `ekiden watch --session ID` shows events")
    chosen = session or await _newest(client)
    if format is not None:
        await _export(client, chosen, format, output, children=children, content=content)
        return Exit.OK
    raw = await client.traces.get(chosen, children=children, content=True)
    if otlp:
        from ekiden.cli.otlp_sending import send_trace

        return await send_trace(trace_of(raw), endpoint, content=content or None, as_json=as_json)
    local.print_found(trace_of(raw), errors=errors, plain=plain, as_json=as_json)
    return Exit.OK


async def _newest(client: AsyncClient) -> str:
    newest = (await client.sessions.list().page(limit=1)).items
    if not newest:
        raise NoSessions
    return newest[0].session_id


async def _export(
    client: AsyncClient,
    session: str,
    format: local.TraceFormat,
    output: Path | None,
    *,
    children: bool,
    content: bool,
) -> None:
    if format == "jsonl":
        exported = client.traces.export(session, children=children, content=content)
        async with exported:
            lines = [line async for line in exported]
    elif format == "openai":
        found = await client.traces.get(
            session, format="openai", children=children, content=content
        )
        lines = [dumps(each) for each in found["data"]]
    else:
        raise UsageError("--format events is not for servers; `ekiden session export` has them")
    local.write_lines(lines, output)
