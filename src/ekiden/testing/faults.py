"""Lists the places where a test may kill the process: ``python -m ekiden.testing.faults``.

To activate a fault point, set ``EKIDEN_TESTING=1 EKIDEN_FAULT=name[:nth]``. The process then kills
itself with SIGKILL when it reaches the fault point the n-th time. With ``name:nth:stop``, the
process stops there instead, until it gets SIGCONT.
"""

from __future__ import annotations

import argparse
import ast
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from ekiden.core.errors import UserError

_PACKAGE = Path(__file__).resolve().parents[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultPoint:
    """A place in the source where a test may kill the process."""

    name: str
    file: str
    """The path, relative to the folder that contains the package."""
    line: int


def fault_points(package: Path = _PACKAGE) -> list[FaultPoint]:
    """Return all fault points in the source of `package`, by name. The package is not imported.

    Raises `UserError` for a fault point whose name is not a literal.
    """
    found = [point for file in package.rglob("*.py") for point in _in_file(file, package.parent)]
    return sorted(found, key=lambda point: (point.name, point.file, point.line))


def _in_file(file: Path, root: Path) -> Iterator[FaultPoint]:
    source = file.read_text(encoding="utf-8")
    if "fault_point(" not in source:
        return
    place = file.relative_to(root).as_posix()
    for node in ast.walk(ast.parse(source, filename=str(file))):
        if not isinstance(node, ast.Call) or _name(node.func) != "fault_point":
            continue
        match node.args:
            case [ast.Constant(value=str(name))]:
                yield FaultPoint(name=name, file=place, line=node.lineno)
            case _:
                raise UserError(
                    f"{place}:{node.lineno}: a fault point needs a literal name, so that it can "
                    "be listed and armed"
                )


def _name(func: ast.expr) -> str | None:
    match func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return None


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the fault points, one per line or as JSON."""
    parser = argparse.ArgumentParser(prog="python -m ekiden.testing.faults", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print a JSON list")
    points = fault_points()
    if parser.parse_args(arguments).json:
        print(json.dumps([asdict(point) for point in points], indent=2))
        return 0
    width = max((len(point.name) for point in points), default=0)
    for point in points:
        print(f"{point.name:{width}}  {point.file}:{point.line}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
