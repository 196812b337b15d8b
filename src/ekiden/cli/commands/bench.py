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
        Parameter(help="Which; s1 to s5 if none is given."),
    ],
    quick: Annotated[
        bool, Parameter(negative="", show_default=False, help="Little work; rough figures.")
    ] = False,
    folder: Annotated[
        Path, Parameter(help="The disk to measure: what is stored is written below this folder.")
    ] = Path(),
    store: Annotated[
        str | None,
        Parameter(
            name="--store",
            show_default=False,
            help="For load: the database, such as postgresql://…, in which a schema is made and "
            "removed again; else a SQLite file below --folder.",
        ),
    ] = None,
    sessions: Annotated[
        int | None,
        Parameter(
            validator=Number(gte=1, lte=10_000_000),
            show_default=False,
            help="For load: open sessions; 10,000 unless told.",
        ),
    ] = None,
    workers: Annotated[
        int, Parameter(validator=Number(gte=1, lte=256), help="For load: worker processes.")
    ] = 4,
    concurrency: Annotated[
        int,
        Parameter(
            validator=Number(gte=1, lte=100_000),
            help="For load: sessions that a worker has under way at a time.",
        ),
    ] = 32,
    messages: Annotated[
        int | None,
        Parameter(
            validator=Number(gte=1),
            show_default=False,
            help="For load: how many messages come one by one; 1,000 unless told.",
        ),
    ] = None,
    seconds: Annotated[
        float | None,
        Parameter(
            validator=Number(gt=0),
            show_default=False,
            help="For load: for how long they come, instead of how many.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Measure Ekiden against plain asyncio and print the figures, which are JSON in any case.

    s1: a chain of handoffs. s2: many sessions at once in memory. s3: a handoff with a long history
    over one with a short one. s4: many sessions at once on disk. s5: queries on the bus, in memory
    and on disk. x_floor is CPU time over one round trip through an asyncio queue, taken in the same
    process. load: many open sessions in one database and worker processes that share them, beside
    what the machine and the database could do without Ekiden.
    """
    if "load" in scenarios:
        if len(scenarios) > 1:
            from ekiden.cli.errors import UsageError

            raise UsageError("load is measured alone, because it takes the whole machine")
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
