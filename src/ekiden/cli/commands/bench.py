"""`ekiden doctor`, `bench` and `simulate`: check, measure and simulate an installation."""

from __future__ import annotations

from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

from ekiden.cli.errors import UsageError
from ekiden.cli.exits import Exit
from ekiden.cli.options import STORE, JsonOption, StoreOption
from ekiden.cli.terminal.output import StatusLine, emit, note, say
from ekiden.cli.terminal.tables import print_table


async def bench(
    *scenarios: Annotated[
        Literal["s1", "s2", "s3", "s4", "s5", "load"],
        Parameter(help="The measurements; s1 to s5 by default."),
    ],
    quick: Annotated[
        bool, Parameter(negative="", show_default=False, help="Less work, rougher figures.")
    ] = False,
    folder: Annotated[
        Path, Parameter(help="A folder on the disk to measure; data is written below it.")
    ] = Path(),
    store: Annotated[
        str | None,
        Parameter(
            name="--store",
            show_default=False,
            help="Only for the scenario load: the database, such as postgresql://…. The command "
            "creates a schema in it, and removes it. By default a SQLite file below --folder.",
        ),
    ] = None,
    sessions: Annotated[
        int | None,
        Parameter(
            validator=Number(gte=1, lte=10_000_000),
            show_default=False,
            help="Only for the scenario load: the number of open sessions; 10,000 by default.",
        ),
    ] = None,
    workers: Annotated[
        int,
        Parameter(
            validator=Number(gte=1, lte=256), help="Only for the scenario load: worker processes."
        ),
    ] = 4,
    concurrency: Annotated[
        int,
        Parameter(
            validator=Number(gte=1, lte=100_000),
            help="Only for the scenario load: concurrent sessions per worker.",
        ),
    ] = 32,
    messages: Annotated[
        int | None,
        Parameter(
            validator=Number(gte=1),
            show_default=False,
            help="Only for the scenario load: messages to send one by one; 1,000 by default.",
        ),
    ] = None,
    seconds: Annotated[
        float | None,
        Parameter(
            validator=Number(gt=0),
            show_default=False,
            help="Only for the scenario load: send messages for this many seconds, instead of "
            "--messages.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Measure Ekiden against plain asyncio and print the figures as JSON.

    The scenario s1 is a chain of handoffs. Scenario s2 runs many concurrent sessions in memory, s4
    on disk. Scenario s3 compares a handoff with a long history to one with a short history. In s5,
    agents send queries on the bus, in memory and on disk. The figure x_floor is CPU time divided
    by one round trip through an asyncio queue in the same process.

    The scenario load has many open sessions in one database, shared by worker processes. It
    compares them to the machine and the database without Ekiden.
    """
    if "load" in scenarios:
        if len(scenarios) > 1:
            from ekiden.cli.errors import UsageError

            raise UsageError("load is measured alone, because it uses the whole machine")
        from ekiden.project.bench.load import LoadSize, load

        most = sessions or (50 if quick else 10_000)
        size = LoadSize(
            sessions=most,
            workers=workers,
            concurrency=concurrency,
            messages=messages or min(20 if quick else 1000, most),
            seconds=seconds,
        )
        emit(await load(size, store=store, folder=folder, note=note))
        return
    from ekiden.project.bench import SCENARIOS, Sizes
    from ekiden.project.bench import bench as measure

    sizes = Sizes.quick() if quick else Sizes()
    status = StatusLine(as_json=as_json)
    try:
        found = await measure(scenarios or tuple(SCENARIOS), sizes, folder, progress=status.show)
    finally:
        status.close()
    emit(found)


async def doctor(*, store: StoreOption = STORE, as_json: JsonOption = False) -> int:
    """Check this installation and the store; a store of an older format is migrated.

    It checks settings, Python, the database engine, the store's format and integrity, the disk's
    fsync, the extras and local models, and prints how to install what is missing.
    """
    from ekiden.cli.projects import store_address
    from ekiden.core.errors import UserError
    from ekiden.project.doctor import Check, examine
    from ekiden.project.stores import DEFAULT_STORE

    try:
        address = store_address(store)
        settings = Check(name="settings", status="ok", detail="`ekiden config list` shows them")
    except UserError as exc:
        address = DEFAULT_STORE
        settings = Check(name="settings", status="problem", detail=f"[{exc.code}] {exc}")
    checks = [settings, *await examine(address)]
    healthy = all(check.status != "problem" for check in checks)
    if as_json:
        emit({"ok": healthy, "checks": [asdict(check) for check in checks]})
    else:
        print_table(
            ("check", "status", "detail"),
            [(check.name, check.status, check.detail) for check in checks],
        )
        for check in checks:
            if check.not_checked:
                say(f"not checked ({check.name}): {check.not_checked}")
    return Exit.OK if healthy else Exit.STORE


def simulate(
    scene: Annotated[
        str,
        Parameter(
            help="A Scene, a function that returns one, an Agent or a Team, as file.py:name or "
            "module:name."
        ),
    ],
    *,
    say: Annotated[
        list[str] | None,
        Parameter(
            show_default=False,
            negative="",
            help="Messages to an Agent or a Team, each in its own conversation.",
        ),
    ] = None,
    seeds: Annotated[
        str, Parameter(help="The worlds to run: a number, or a range such as 1-1000.")
    ] = "100",
    seed: Annotated[
        int | None,
        Parameter(show_default=False, help="Replay this one world and print every step."),
    ] = None,
    processes: Annotated[
        int, Parameter(validator=Number(gte=1, lte=256), help="Concurrent workers.")
    ] = 1,
    as_json: JsonOption = False,
) -> int:
    """Run your team in simulated worlds with injected faults.

    If a world violates a guarantee, the exit code is 1. The output has the command that replays
    this world.
    """
    first, dash, last = seeds.partition("-")
    if not all(part.isdecimal() for part in (first, last or "1")) or not int(last or first):
        raise UsageError(f"--seeds is a number such as 100 or a range such as 1-1000, not {seeds}")
    if last and int(first) > int(last):
        raise UsageError(f"--seeds {seeds} has no seeds: the first is above the last")
    which = ["--seed", str(seed)]
    if seed is None:
        which = ["--seeds", seeds if dash else f"1-{seeds}", "--processes", str(processes)]
    said = [f"--say={text}" for text in say or ()]
    # The test kit is built on the command line, and is found by name like every other plug-in.
    kit = import_module("ekiden.testing.simulate")
    code: int = kit.main([*said, *which, *(["--json"] if as_json else []), "--", scene])
    return code
