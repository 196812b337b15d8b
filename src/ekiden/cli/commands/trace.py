"""`ekiden trace`, `chain`, `watch` and `cost`: what sessions did, live or later, and its price."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from ekiden.cli.errors import Exit, NoSessions, UsageError
from ekiden.cli.ids import session_id
from ekiden.cli.options import AfterOption, JsonOption, SessionOrNewest, WideOption, about, moment
from ekiden.cli.output import complain, emit, new_file, note, safe, say, show
from ekiden.cli.place import HERE, Place
from ekiden.core.events import EventType
from ekiden.sessions.costs import CostKey

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ekiden.client.ekiden import Ekiden
    from ekiden.tracing import Trace
    from ekiden.tracing.otel_exporter import OtlpReport

NOT_SENT = "cli.not_sent"


async def send_trace(
    trace: Trace, endpoint: str | None, *, content: bool | None, as_json: bool
) -> int:
    """Send the trace and report the result, and return the exit code."""
    from ekiden.tracing.otel_exporter import export_otlp

    report = await asyncio.to_thread(export_otlp, trace.spans, endpoint, content=content)
    if as_json:
        emit({"trace_id": trace.trace_id, **asdict(report)})
    else:
        _tell(trace.trace_id, report)
    if report.problem is not None:
        complain(NOT_SENT, f"{report.problem}; send it again later", as_json=as_json)
        return Exit.FAILED
    return Exit.OK


def _tell(trace_id: str, report: OtlpReport) -> None:
    if report.is_disabled:
        note("OTEL_SDK_DISABLED is set: nothing was sent")
        return
    say(f"trace {trace_id}: {report.sent} spans sent")
    if report.open:
        note(f"{report.open} spans have not ended: send it again when they have")
    if report.refused:
        note(f"{report.refused} spans were refused by the collector")


TraceFormat: TypeAlias = Literal["jsonl", "openai", "events"]


async def trace(
    session: SessionOrNewest = None,
    /,
    *,
    errors: Annotated[bool, about("Show only errors.")] = False,
    follow: Annotated[
        bool, about("Show spans as they happen, until the current run ends.")
    ] = False,
    children: Annotated[
        bool,
        about(
            "Include sessions in which other agents answered queries of this session.",
            negative="--no-children",
        ),
    ] = True,
    format: Annotated[
        TraceFormat | None,
        about(
            "Write the trace in a format for other programs: `jsonl` (one span per line), "
            "`events` (one event per line) or `openai` (format of the OpenAI Agents SDK). Message "
            "content is left out; --content includes it."
        ),
    ] = None,
    output: Annotated[
        Path | None,
        about(
            "New file for the output of --format. Default: standard output.",
            name=("--output", "-o"),
        ),
    ] = None,
    content: Annotated[
        bool,
        about("For --format and --otlp: include messages, and the tools' arguments and results."),
    ] = False,
    otlp: Annotated[
        bool, about("Send the trace to an OpenTelemetry collector instead of showing it.")
    ] = False,
    endpoint: Annotated[
        str | None,
        about(
            "For --otlp: URL of the collector, such as http://127.0.0.1:4318. Default: the "
            "environment variables OTEL_EXPORTER_OTLP_…."
        ),
    ] = None,
    plain: Annotated[bool, about("Draw the tree with ASCII characters only.")] = False,
    wide: WideOption = False,
    place: Place = HERE,
    as_json: JsonOption = False,
) -> int:
    """Show the trace of a session: its runs, agents, calls and handoffs.

    The output lists errors first, then a tree with times, tokens and cost. API keys and access
    tokens are masked everywhere. With --json, the output is one array of all spans, in the order of
    the tree.
    """
    from ekiden.cli.views.traces import print_errors, print_trace, trace_of
    from ekiden.core.documents import to_json

    _check_format(
        format, output=output, content=content and not otlp, other=follow or errors or as_json
    )
    _check_otlp(otlp, endpoint, other=format is not None or follow or errors)
    if follow and errors:
        raise UsageError("--errors shows a finished trace: leave out --follow")
    if follow and place.is_server:
        raise UsageError(
            "--follow does not work with a server; `ekiden watch --session ID` shows events"
        )
    async with place.open() as ekiden:
        chosen = await session_or_newest(ekiden, session)
        if format is not None:
            lines = await _exported(ekiden, chosen, format, children=children, content=content)
            _write_lines(lines, output)
            return Exit.OK
        if follow:
            return await _follow(place, chosen, plain=plain, as_json=as_json, children=children)
        found = await ekiden.traces.get(chosen, children=children, content=True)
    if otlp:
        return await send_trace(trace_of(found), endpoint, content=content or None, as_json=as_json)
    if as_json:
        emit([to_json(each) for each in found.spans if not errors or each.span_id in found.errors])
    elif errors:
        print_errors(trace_of(found), plain=plain)
    else:
        print_trace(trace_of(found), plain=plain, wide=wide)
    return Exit.OK


async def session_or_newest(ekiden: Ekiden, given: str | None) -> str:
    """The named session, else the newest; `NoSessions`."""
    if given is not None:
        return await session_id(ekiden.sessions, given)
    newest = (await ekiden.sessions.list().page(limit=1)).items
    if not newest:
        raise NoSessions
    return newest[0].session_id


def _check_format(
    format: TraceFormat | None, *, output: Path | None, content: bool, other: bool
) -> None:
    """`UsageError` if an option of --format is given without it, or with something else."""
    if format is None and (output is not None or content):
        raise UsageError("--output and --content need --format: give jsonl, events or openai")
    if format is not None and other:
        raise UsageError("--format writes a whole trace: leave out --json, --errors and --follow")


def _check_otlp(otlp: bool, endpoint: str | None, *, other: bool) -> None:
    """`UsageError` if an option of --otlp is given without it, or with something else."""
    if endpoint is not None and not otlp:
        raise UsageError("--endpoint works only with --otlp")
    if otlp and other:
        raise UsageError("--otlp sends a whole trace: leave out --format, --errors and --follow")


async def _exported(
    ekiden: Ekiden, session: str, format: TraceFormat, *, children: bool, content: bool
) -> list[str]:
    from ekiden.core.values import dumps

    if format == "openai":
        found = await ekiden.traces.openai(session, children=children, content=content)
        return [dumps(each) for each in found.data]
    export = ekiden.traces.events if format == "events" else ekiden.traces.export
    async with export(session, children=children, content=content) as lines:
        return [line async for line in lines]


def _write_lines(lines: Sequence[str], output: Path | None) -> None:

    if output is None:
        for line in lines:
            sys.stdout.write(f"{safe(line)}\n")
        sys.stdout.flush()
        return
    with new_file(output) as file:
        file.writelines(f"{line}\n" for line in lines)
    note(f"{len(lines)} lines in {output}")


async def _follow(place: Place, session: str, *, plain: bool, as_json: bool, children: bool) -> int:
    from ekiden.api.local.traces import cost_function
    from ekiden.cli.projects import store_address
    from ekiden.cli.views.live import SpanFollower
    from ekiden.cli.views.traces import glyphs
    from ekiden.hub import EventHub
    from ekiden.project import load_settings, open_store

    async with open_store(store_address(place.store), create=False) as store:
        follower = SpanFollower(
            store,
            look=glyphs(plain=plain),
            as_json=as_json,
            children=children,
            cost=cost_function(load_settings().settings),
        )
        hub = EventHub(store, on_outage=follower.outage)
        async with hub, hub.subscribe() as stream:
            return await follower.follow(session, stream)


async def chain(
    session: SessionOrNewest = None,
    /,
    *,
    place: Place = HERE,
    wide: WideOption = False,
    as_json: JsonOption = False,
) -> None:
    """Show a session's handoffs and their reasons."""
    from ekiden.cli.views.sessions import print_chain

    async with place.open() as ekiden:
        chosen = await session_or_newest(ekiden, session)
        found = await ekiden.sessions.chain(chosen)
    show(found, partial(print_chain, wide=wide), as_json=as_json)


async def cost(
    session: Annotated[
        str | None,
        about(
            "Count only this session and the sessions that answered its queries. Default: all "
            "sessions."
        ),
    ] = None,
    /,
    *,
    since: Annotated[
        str | None,
        about(
            "Count only calls since this time. Give a date, or a time span such as 7d for the "
            "last seven days."
        ),
    ] = None,
    by: Annotated[
        tuple[CostKey, ...],
        about(
            "Group the model calls by this property. You can repeat this option. Default: "
            "agent and model."
        ),
    ] = (),
    place: Place = HERE,
    wide: WideOption = False,
    as_json: JsonOption = False,
) -> None:
    """Show the tokens and cost of model calls.

    Model prices come from the setting `prices`. For models that are not in this setting, the prices
    come from the price list of the extra `prices`, in US dollars. The command does not download
    prices.
    """
    from ekiden.cli.views.sessions import print_costs

    start = moment(since, option="--since")
    if len(set(by)) < len(by):
        raise UsageError("--by names a group twice")
    async with place.open() as ekiden:
        chosen = await session_id(ekiden.sessions, session or "") or None
        found = await ekiden.costs.get(session=chosen, since=start, by=by)
    show(found, partial(print_costs, is_remote=place.is_server, wide=wide), as_json=as_json)


async def watch(
    *,
    session: Annotated[tuple[str, ...], about("Only events of this session.")] = (),
    agent: Annotated[
        tuple[str, ...],
        about("Only events of this agent. Handoffs to and from this agent are included."),
    ] = (),
    type: Annotated[tuple[EventType, ...], about("Only events of this type.")] = (),
    after: AfterOption = None,
    once: Annotated[bool, about("Show past events, and do not wait for new ones.")] = False,
    place: Place = HERE,
    as_json: JsonOption = False,
) -> int:
    """Show events of all processes as they happen.

    By default, the command shows only new events. With --after, it first shows past events after
    the given event. With --once, it shows past events, and exits. You can repeat --session, --agent
    and --type. After Ctrl-C, the command prints how to continue from the same event.
    """
    from ekiden.cli.views.live import Spectator, event_line

    spectator = Spectator(as_json=as_json)
    async with place.open(is_shared=True, on_outage=spectator.outage) as ekiden:
        asked = (("--session", session), ("--agent", agent), ("--type", type))
        words = [word for name, values in asked for each in values for word in (name, each)]
        spectator.words = [*words, *place.words(ekiden.url)]
        chosen = [await session_id(ekiden.sessions, each) for each in session]
        stream = ekiden.events.subscribe(
            sessions=chosen or None,
            agents=agent or None,
            types=type or None,
            after="" if once and after is None else after,
            follow=not once,
        )
        async with stream:
            async for found in spectator.read(stream, ekiden.url, tells=not once):
                if as_json:
                    emit({"id": found.id, **found.event.to_json()})
                else:
                    say(event_line(found.event))
    return spectator.code
