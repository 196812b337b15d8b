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
from ekiden.cli.options import JsonOption, StoreOption
from ekiden.cli.terminal.output import StatusLine, emit, note, say
from ekiden.cli.terminal.tables import print_table


async def bench(
    *scenarios: Annotated[
        Literal["s1", "s2", "s3", "s4", "s5", "load"],
        Parameter(help="Scenarios to run. Default: `s1` to `s5`."),
    ],
    quick: Annotated[
        bool, Parameter(help="Do less work; the results are then less exact.")
    ] = False,
    folder: Annotated[
        Path,
        Parameter(
            help="Folder on the disk to measure. The command writes its data into this folder."
        ),
    ] = Path(),
    store: Annotated[
        str | None,
        Parameter(
            help="For the scenario `load`: database URL, such as postgresql://…. The command "
            "creates a schema in the database and removes the schema at the end. Default: a SQLite "
            "file in --folder."
        ),
    ] = None,
    sessions: Annotated[
        int | None,
        Parameter(
            validator=Number(gte=1, lte=10_000_000),
            help="For the scenario `load`: number of open sessions. Default: 10,000.",
        ),
    ] = None,
    workers: Annotated[
        int,
        Parameter(
            validator=Number(gte=1, lte=256),
            help="For the scenario `load`: number of worker processes.",
        ),
    ] = 4,
    concurrency: Annotated[
        int,
        Parameter(
            validator=Number(gte=1, lte=100_000),
            help="For the scenario `load`: number of concurrent sessions per worker.",
        ),
    ] = 32,
    messages: Annotated[
        int | None,
        Parameter(
            validator=Number(gte=1),
            help="For the scenario `load`: number of messages to send, one after another. Default: "
            "1,000.",
        ),
    ] = None,
    seconds: Annotated[
        float | None,
        Parameter(
            validator=Number(gt=0),
            help="For the scenario `load`: send messages for this many seconds. This option "
            "replaces --messages.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Compare the speed of Ekiden with plain asyncio, and print the results as JSON.

    Scenario `s1` runs a chain of handoffs. Scenario `s2` runs many concurrent sessions in memory;
    `s4` does the same on disk. Scenario `s3` compares handoffs with a long and a short history. In
    `s5`, agents send queries over the bus, in memory and on disk. In the results, `x_floor` is the
    CPU time of an operation divided by the CPU time of one round trip through an asyncio queue.

    In the scenario `load`, worker processes share one database with many open sessions. The result
    is compared with the speed of the machine and of the database without Ekiden.
    """
    if "load" in scenarios:
        if len(scenarios) > 1:
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
    from ekiden.project.bench import SCENARIOS, Sizes, bench as measure

    sizes = Sizes.quick() if quick else Sizes()
    with StatusLine(as_json=as_json) as status:
        found = await measure(scenarios or tuple(SCENARIOS), sizes, folder, progress=status.show)
    emit(found)


async def doctor(*, store: StoreOption = None, as_json: JsonOption = False) -> int:
    """Check this installation and the store.

    The command checks settings, Python, the database engine, the store's format and integrity,
    fsync on the disk, extras and local models. The command prints how to install missing parts. It
    migrates a store of an older format.
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
            help="Scene, Agent or Team to simulate, or a function that returns a Scene. Write it "
            "as file.py:name or module:name."
        ),
    ],
    *,
    say: Annotated[
        list[str] | None,
        Parameter(
            help="Message to send, if you simulate an Agent or a Team. You can repeat this option."
            " Each message starts its own conversation."
        ),
    ] = None,
    seeds: Annotated[
        str,
        Parameter(help="Number of worlds to run, or a range of random seeds such as 1-1000."),
    ] = "100",
    seed: Annotated[
        int | None,
        Parameter(help="Run only the world with this random seed, and print every step."),
    ] = None,
    processes: Annotated[
        int,
        Parameter(
            validator=Number(gte=1, lte=256),
            help="Number of processes that run worlds at the same time.",
        ),
    ] = 1,
    as_json: JsonOption = False,
) -> int:
    """Test your team in simulations ("worlds") with injected faults, such as crashes and lost
    messages.

    If Ekiden breaks a guarantee in a world, the exit code is 1. The output then contains the
    command that replays that world.
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
