"""`ekiden mirror …`."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from ekiden.cli.options import STORE, JsonOption, StoreOption

if TYPE_CHECKING:
    from ekiden.app.settings import Settings
    from ekiden.sessions.mirror_status import MirrorStatus


async def mirror_run(
    *,
    once: Annotated[
        bool,
        Parameter(
            negative="",
            show_default=False,
            help="Send what is there already, and do not wait for more.",
        ),
    ] = False,
    store: StoreOption = STORE,
    as_json: JsonOption = False,
) -> int:
    """Send what is said in sessions to their mirror, as it is said.

    The settings `mirror.…` say where to. While the mirror is away, what is
    to be sent waits in the store. Ctrl-C ends it; the next one goes on
    there. Of several processes one sends, and the others wait for its end.
    """
    from ekiden.app import open_store
    from ekiden.app.mirrors import session_mirror
    from ekiden.cli.exits import Exit
    from ekiden.cli.output import emit, note, say
    from ekiden.sessions.mirror import MirrorPolicy
    from ekiden.sessions.mirroring import mirror_sessions

    settings = _settings()
    mirror = session_mirror(settings.mirror)
    policy = MirrorPolicy(include_sensitive_data=settings.mirror.include_sensitive_data)
    async with open_store(settings.store if store is None else store, create=False) as opened:
        if not (once or as_json):
            note(f"mirroring to {mirror.name}; Ctrl-C ends it")
        try:
            with _ended_by_signal() as stop:
                report = await mirror_sessions(opened, mirror, once=once, stop=stop, policy=policy)
        finally:
            await mirror.close()
    if as_json:
        emit({"mirror": mirror.name, **asdict(report)})
    elif report.busy:
        say(f"another process feeds {mirror.name}")
    else:
        say(
            f"sent: {report.sent}, set aside: {report.set_aside}, "
            f"sessions that wait: {report.waiting}"
        )
        if report.problem is not None and report.waiting:
            note(f"{mirror.name}: {report.problem}; what is to be sent waits")
    if report.busy:
        return Exit.BUSY
    return Exit.FAILED if once and report.waiting else Exit.OK


async def mirror_status(*, store: StoreOption = STORE, as_json: JsonOption = False) -> None:
    """Show how far the mirror is; the mirror itself is not asked."""
    from ekiden.app import open_store
    from ekiden.app.mirrors import session_mirror
    from ekiden.cli.output import emit
    from ekiden.cli.tables import print_pairs
    from ekiden.sessions.mirror_status import mirror_status as status_of

    settings = _settings()
    name = session_mirror(settings.mirror).name
    async with open_store(settings.store if store is None else store, create=False) as opened:
        found = await status_of(opened, name)
    if as_json:
        emit(asdict(found))
    else:
        print_pairs(status_pairs(found))


def status_pairs(status: MirrorStatus) -> Iterator[tuple[str, str]]:
    """How a mirror stands, for people."""
    yield "mirror", status.name
    yield "fed now", "yes" if status.fed else "no"
    yield "sent", str(status.sent)
    yield "sessions that wait", str(status.waiting)
    yield "up to date", "yes" if status.up_to_date else "no"
    if status.problem is not None:
        yield "problem", status.problem
    yield "set aside", str(status.set_aside)
    for each in status.aside:
        yield each.event_id, each.problem


def _settings() -> Settings:
    from ekiden.app.settings import load_settings

    return load_settings(Path.cwd()).settings


@contextmanager
def _ended_by_signal() -> Iterator[asyncio.Event]:
    """An event that is set when the process is asked to end."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    with suppress(NotImplementedError, RuntimeError, ValueError):
        loop.add_signal_handler(signal.SIGTERM, stop.set)
    try:
        yield stop
    finally:
        with suppress(NotImplementedError, RuntimeError, ValueError):
            loop.remove_signal_handler(signal.SIGTERM)
