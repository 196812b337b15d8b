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

from ekiden.cli.options import STORE, JsonOption, StoreOption, TrustOption
from ekiden.cli.place import HERE, Place

if TYPE_CHECKING:
    from ekiden.project.settings import Settings


async def mirror_run(
    *,
    once: Annotated[
        bool,
        Parameter(
            negative="",
            show_default=False,
            help="Send pending events, and do not wait for more.",
        ),
    ] = False,
    store: StoreOption = STORE,
    trust: TrustOption = False,
    as_json: JsonOption = False,
) -> int:
    """Replicate session events to the mirror as they happen.

    The settings `mirror.…` name the target. While the mirror is unavailable, events wait in the
    store. Ctrl-C ends it; the next run continues from there. If several processes run this command,
    one sends and the others wait to take over. With --once the exit code is 1 if something could
    not be sent.
    """
    from ekiden.cli.exits import Exit
    from ekiden.cli.terminal.output import emit, note, say
    from ekiden.project import open_store
    from ekiden.project.run_options import session_replica
    from ekiden.sessions.replica.base import ReplicaPolicy
    from ekiden.sessions.replica.feed import replicate_sessions

    settings = _settings(trust=trust)
    mirror = session_replica(settings.mirror)
    policy = ReplicaPolicy(include_sensitive_data=settings.mirror.include_sensitive_data)
    async with open_store(settings.store if store is None else store, create=False) as opened:
        if not (once or as_json):
            note(f"mirroring to {mirror.name}; Ctrl-C ends it")
        try:
            with _ended_by_signal() as stop:
                report = await replicate_sessions(
                    opened, mirror, once=once, stop=stop, policy=policy
                )
        finally:
            await mirror.close()
    if as_json:
        emit({"mirror": mirror.name, **asdict(report)})
    elif report.busy:
        say(f"another process sends to {mirror.name}")
    else:
        say(
            f"sent: {report.sent}, set aside: {report.set_aside}, sessions waiting: "
            f"{report.waiting}"
        )
        if report.problem is not None and report.waiting:
            note(f"{mirror.name}: {report.problem}; unsent events wait")
    if report.busy:
        return Exit.BUSY
    return Exit.FAILED if once and report.waiting else Exit.OK


async def mirror_status(*, place: Place = HERE, as_json: JsonOption = False) -> None:
    """Show the replication progress; the mirror itself is not queried."""
    from ekiden.cli.terminal.output import emit
    from ekiden.cli.views.administration import print_status
    from ekiden.core.documents import to_json
    from ekiden.core.errors import UserError
    from ekiden.core.errors.server import NotServed

    async with place.open() as ekiden:
        try:
            found = await ekiden.mirror.status()
        except NotServed as exc:
            raise UserError(str(exc)) from exc
    if as_json:
        emit(to_json(found))
    else:
        print_status(found)


def _settings(*, trust: bool) -> Settings:
    from ekiden.cli.terminal.prompts import check_some
    from ekiden.project.settings import load_settings
    from ekiden.project.trust import inspect_workspace

    loaded = load_settings(Path.cwd())
    check_some(inspect_workspace(Path.cwd(), loaded), "mirror.", "store", trust=trust)
    return loaded.settings


@contextmanager
def _ended_by_signal() -> Iterator[asyncio.Event]:
    """An event that is set when the process receives a termination signal."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    with suppress(NotImplementedError, RuntimeError, ValueError):
        loop.add_signal_handler(signal.SIGTERM, stop.set)
    try:
        yield stop
    finally:
        with suppress(NotImplementedError, RuntimeError, ValueError):
            loop.remove_signal_handler(signal.SIGTERM)
