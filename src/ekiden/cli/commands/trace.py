"""`ekiden trace`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from cyclopts import Parameter

from ekiden.cli.errors import NoSessions, UsageError
from ekiden.cli.exits import Exit
from ekiden.cli.options import STORE, JsonOption, StoreOption
from ekiden.cli.output import emit, note, safe

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ekiden.storage.base import Store
    from ekiden.tracing import CostOf, Trace

TraceFormat: TypeAlias = Literal["jsonl", "openai", "events"]


def _flag(name: str, text: str) -> Parameter:
    return Parameter(name=name, negative="", show_default=False, help=text)


async def trace(
    session: Annotated[
        str | None, Parameter(help="The session; the newest if none is given.")
    ] = None,
    /,
    *,
    errors: Annotated[bool, _flag("--errors", "Show only what went wrong.")] = False,
    follow: Annotated[
        bool, _flag("--follow", "Show spans as they happen, until the session's run ends.")
    ] = False,
    children: Annotated[
        bool, Parameter(name="--children", help="With the sessions that answered this one.")
    ] = True,
    format: Annotated[
        TraceFormat | None,
        Parameter(
            name="--format",
            help="Write it for other programs: jsonl, a span on each line; events, an event on "
            "each line; openai, the trace shape of the OpenAI Agents SDK. What was said is left "
            "out.",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        Parameter(name=("--output", "-o"), help="Where --format writes to: a new file."),
    ] = None,
    content: Annotated[
        bool,
        _flag("--content", "With --format and --otlp: also what was said, arguments and results."),
    ] = False,
    otlp: Annotated[
        bool, _flag("--otlp", "Send it to an OpenTelemetry collector instead of showing it.")
    ] = False,
    endpoint: Annotated[
        str | None,
        Parameter(
            name="--endpoint",
            help="With --otlp: the collector, such as http://127.0.0.1:4318. Without it the "
            "variables OTEL_EXPORTER_OTLP_… count.",
        ),
    ] = None,
    plain: Annotated[bool, _flag("--plain", "Draw with ASCII only.")] = False,
    store: StoreOption = STORE,
    as_json: JsonOption = False,
) -> int:
    """Show what happened in a session: runs, agents, calls, handoffs.

    A tree with times, tokens and what they cost, errors on top. Keys and
    tokens are covered everywhere. With --json all spans as one array, in
    the order of the tree.
    """
    from ekiden.app import load_settings, open_store
    from ekiden.app.records.traces import cost_function
    from ekiden.app.running import prices_of
    from ekiden.cli.projects import store_address

    check_format(
        format, output=output, content=content and not otlp, other=follow or errors or as_json
    )
    check_otlp(otlp, endpoint, other=format is not None or follow or errors)
    if follow and errors:
        raise UsageError("--errors shows what is over: leave out --follow")
    cost = cost_function(prices_of(load_settings().settings))
    async with open_store(store_address(store), create=False) as opened:
        chosen = session or await newest_session(opened)
        if follow:
            return await _follow(
                opened, chosen, plain=plain, as_json=as_json, children=children, cost=cost
            )
        if format is not None:
            await _export(
                opened, chosen, format, output, children=children, content=content, cost=cost
            )
            return Exit.OK
        from ekiden.tracing import read_trace

        found = await read_trace(opened, chosen, children=children, cost=cost)
    if otlp:
        from ekiden.cli.otlp_sending import send_trace

        return await send_trace(found, endpoint, content=content or None, as_json=as_json)
    print_found(found, errors=errors, plain=plain, as_json=as_json)
    return Exit.OK


async def newest_session(store: Store) -> str:
    """The id of the newest session; `NoSessions`."""
    newest = (await store.list(limit=1)).sessions
    if not newest:
        raise NoSessions
    return newest[0].id


def check_format(
    format: TraceFormat | None, *, output: Path | None, content: bool, other: bool
) -> None:
    """`UsageError` if what belongs to --format stands without it, or with something else."""
    if format is None and (output is not None or content):
        raise UsageError("--output and --content belong to --format: say jsonl, events or openai")
    if format is not None and other:
        raise UsageError("--format writes a whole trace: leave out --json, --errors and --follow")


def check_otlp(otlp: bool, endpoint: str | None, *, other: bool) -> None:
    """`UsageError` if what belongs to --otlp stands without it, or with something else."""
    if endpoint is not None and not otlp:
        raise UsageError("--endpoint belongs to --otlp")
    if otlp and other:
        raise UsageError("--otlp sends a whole trace: leave out --format, --errors and --follow")


def print_found(found: Trace, *, errors: bool, plain: bool, as_json: bool) -> None:
    """A trace, or what went wrong in it."""
    from ekiden.app.records.traces import shown_trace, trace_record
    from ekiden.cli.trace_view import print_errors, print_trace

    if as_json:
        record = trace_record(found)
        wanted = set(record["errors"])
        emit([each for each in record["spans"] if not errors or each["span_id"] in wanted])
    elif errors:
        print_errors(shown_trace(found), plain=plain)
    else:
        print_trace(shown_trace(found), plain=plain)


async def _export(
    store: Store,
    session: str,
    format: TraceFormat,
    output: Path | None,
    *,
    children: bool,
    content: bool,
    cost: CostOf,
) -> None:
    from ekiden.core.jsonio import dumps
    from ekiden.tracing import export_jsonl, export_openai, read_trace, trace_events

    lines: Iterable[str]
    if format == "events":
        events = await trace_events(store, session, children=children, include_content=content)
        lines = map(dumps, events)
    else:
        found = await read_trace(store, session, children=children, cost=cost)
        if format == "jsonl":
            lines = export_jsonl(found, include_content=content)
        else:
            lines = map(dumps, export_openai(found, include_content=content))
    write_lines(lines, output)


def write_lines(lines: Iterable[str], output: Path | None) -> None:
    """Lines for other programs, to a new file or to standard output."""
    from ekiden.cli.audit_files import new_file

    if output is None:
        for line in lines:
            sys.stdout.write(f"{safe(line)}\n")
        sys.stdout.flush()
        return
    count = 0
    with new_file(output) as file:
        for line in lines:
            file.write(f"{line}\n")
            count += 1
    note(f"{count} lines in {output}")


async def _follow(
    store: Store, session: str, *, plain: bool, as_json: bool, children: bool, cost: CostOf
) -> int:
    from ekiden.cli.trace_following import SpanFollower
    from ekiden.cli.trace_view import glyphs
    from ekiden.hub import EventHub

    follower = SpanFollower(
        store, look=glyphs(plain=plain), as_json=as_json, children=children, cost=cost
    )
    hub = EventHub(store, on_outage=follower.outage)
    async with hub, hub.subscribe() as stream:
        return await follower.follow(session, stream)
