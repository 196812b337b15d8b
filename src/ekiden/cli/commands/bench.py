"""`ekiden bench`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

from ekiden.cli.options import JsonOption
from ekiden.cli.output import StatusLine, emit, note


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
            help="For load: the database, such as postgresql://…, in which a schema is created "
            "and removed; by default a SQLite file below --folder.",
        ),
    ] = None,
    sessions: Annotated[
        int | None,
        Parameter(
            validator=Number(gte=1, lte=10_000_000),
            show_default=False,
            help="For load: open sessions; 10,000 by default.",
        ),
    ] = None,
    workers: Annotated[
        int, Parameter(validator=Number(gte=1, lte=256), help="For load: worker processes.")
    ] = 4,
    concurrency: Annotated[
        int,
        Parameter(
            validator=Number(gte=1, lte=100_000),
            help="For load: concurrent sessions per worker.",
        ),
    ] = 32,
    messages: Annotated[
        int | None,
        Parameter(
            validator=Number(gte=1),
            show_default=False,
            help="For load: how many messages arrive one by one; 1,000 by default.",
        ),
    ] = None,
    seconds: Annotated[
        float | None,
        Parameter(
            validator=Number(gt=0),
            show_default=False,
            help="For load: send messages for this many seconds, instead of --messages.",
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
