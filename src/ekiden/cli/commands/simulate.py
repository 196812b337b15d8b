"""`ekiden simulate`."""

from __future__ import annotations

from importlib import import_module
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from ekiden.cli.errors import UsageError
from ekiden.cli.options import JsonOption


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

    The exit code is 1 if a guarantee was violated in one of them; the command that replays each
    such world is printed.
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
