"""`ekiden bench`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from ekiden.cli.options import JsonOption
from ekiden.cli.output import emit


async def bench(
    *scenarios: Annotated[
        Literal["s1", "s2", "s3", "s4", "s5"], Parameter(help="Which; all if none is given.")
    ],
    quick: Annotated[
        bool, Parameter(negative="", show_default=False, help="Little work; rough figures.")
    ] = False,
    folder: Annotated[
        Path, Parameter(help="The disk to measure: what is stored is written below this folder.")
    ] = Path(),
    as_json: JsonOption = False,
) -> None:
    """Measure Ekiden against plain asyncio and print the figures, which are JSON in any case.

    s1: a chain of handoffs. s2: many sessions at once in memory. s3: a handoff with a long history
    over one with a short one. s4: many sessions at once on disk. s5: queries on the bus, in memory
    and on disk. x_floor is CPU time over one round trip through an asyncio queue, taken in the same
    process.
    """
    from ekiden.app.bench import SCENARIOS, Sizes
    from ekiden.app.bench import bench as measure

    sizes = Sizes.quick() if quick else Sizes()
    emit(await measure(scenarios or tuple(SCENARIOS), sizes, folder))
