"""The path of a run through the source: short enough to read, and as ARCHITECTURE.md tells it."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import ekiden
from ekiden import Agent, Runner
from ekiden.testing import ScriptedModel, call, say

SOURCE = Path(ekiden.__file__).parent
ARCHITECTURE = SOURCE.parents[1] / "ARCHITECTURE.md"


async def plain() -> None:
    await Runner.run(Agent("a", model=ScriptedModel([say("hello")])), "hi")


async def with_a_handoff() -> None:
    b = Agent("b", model=ScriptedModel([say("hello")]))
    await Runner.run(Agent("a", model=ScriptedModel([call("transfer_to_b")]), handoffs=[b]), "hi")


def files_of(run: Callable[[], Any]) -> set[str]:
    """The same in a process of its own, where nothing else is registered."""
    program = f"from {__name__} import called_files, {run.__name__} as run; called_files(run)"
    done = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, check=True)
    return set(json.loads(done.stdout))


def called_files(run: Callable[[], Any]) -> None:
    """Print the files of the source, without test doubles, whose functions a second run calls."""
    files: set[str] = set()

    def note(frame: FrameType, what: str, _: object) -> None:
        if what == "call" and frame.f_code.co_name != "<module>":
            files.add(frame.f_code.co_filename)

    asyncio.run(run())
    before = sys.getprofile()
    sys.setprofile(note)
    try:
        asyncio.run(run())
    finally:
        sys.setprofile(before)
    inside = {Path(file) for file in files if file.startswith(f"{SOURCE}/")}
    names = {path.relative_to(SOURCE).as_posix() for path in inside}
    print(json.dumps([name for name in names if not name.startswith("testing/")]))


@pytest.mark.parametrize(("run", "most"), [(plain, 31), (with_a_handoff, 41)])
def test_a_run_uses_at_most_a_given_number_of_source_files(
    run: Callable[[], Any], most: int
) -> None:
    files = files_of(run)
    assert len(files) <= most, sorted(files)


def test_every_file_named_in_the_described_path_exists() -> None:
    text = ARCHITECTURE.read_text()
    path = text[text.index("## The path of a run") : text.index("## Steps")]
    named = set(re.findall(r"`((?!tests/)[a-z_/]+\.py)`", path))
    assert named
    assert [name for name in sorted(named) if not (SOURCE / name).exists()] == []
    # This handoff needs no acceptance, nobody else wants the lease, and records are plain values.
    assert named - files_of(with_a_handoff) <= {
        "runtime/handoff/acceptance.py",
        "runtime/state/leases.py",
        "storage/base.py",
    }
