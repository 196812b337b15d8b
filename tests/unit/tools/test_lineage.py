"""Whose a program is: it cannot shake off the agent that started it by what it does with its
environment."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from ekiden.core.current_agent import (
    AGENT_VARIABLE,
    acting_as,
    inherited_agent,
    lineage_agent,
    lineage_mark,
)
from ekiden.tools.builtin.shell import ShellPrograms
from ekiden.tools.settings import ShellToolSettings

pytestmark = pytest.mark.skipif(
    not hasattr(os, "memfd_create") or not Path("/proc/self/environ").exists(),
    reason="the system does not tell about processes",
)

ASKS = f"""
import sys
sys.path[:0] = {sys.path!r}
from ekiden.core.current_agent import inherited_agent
print(ascii(inherited_agent()))
"""
STARTS_WITHOUT_FILES = """
import subprocess, sys
subprocess.run([sys.executable, "asks.py"], env={}, close_fds=True)
"""


async def asked(root: Path, *command: str) -> str:
    """What a program started by a tool finds out about who it comes from."""
    (root / "asks.py").write_text(ASKS)
    (root / "starts.py").write_text(STARTS_WITHOUT_FILES)
    settings = ShellToolSettings(allow=(sys.executable, "env", "setsid"), timeout=30)
    shown = await ShellPrograms(root, settings).shell(" ".join(command))
    return shown.splitlines()[0]


@pytest.mark.parametrize(
    "command",
    [
        (sys.executable, "asks.py"),
        ("env", "-u", AGENT_VARIABLE, sys.executable, "asks.py"),
        ("env", "-i", sys.executable, "asks.py"),
        ("setsid", "--wait", "env", "-i", sys.executable, "asks.py"),
        (sys.executable, "starts.py"),
    ],
)
@pytest.mark.parametrize("agent", ["sales", "販売"])
async def test_a_process_started_by_an_agent_is_recognized(
    tmp_path: Path, agent: str, command: tuple[str, ...]
) -> None:
    with acting_as(agent):
        assert await asked(tmp_path, *command) == ascii(agent)


async def test_a_process_without_an_agent_has_none(tmp_path: Path) -> None:
    assert await asked(tmp_path, sys.executable, "asks.py") == "None"


def test_the_marking_process_itself_is_not_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(AGENT_VARIABLE, raising=False)
    with lineage_mark("sales") as marks:
        assert len(marks) == 1
        lineage_agent.cache_clear()
        assert inherited_agent() is None
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(marks[0])


def test_an_agent_name_too_long_or_malformed_for_the_system_is_marked() -> None:
    for name in ("販売" * 500, "a\ud800b"):
        with lineage_mark(name) as marks:
            assert len(marks) == 1


def test_without_system_support_the_environment_variable_is_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def missing(*args: object) -> object:
        raise FileNotFoundError

    monkeypatch.delattr(os, "memfd_create")
    monkeypatch.setattr("builtins.open", missing)
    monkeypatch.setattr(os, "listdir", missing)
    lineage_agent.cache_clear()
    with lineage_mark("sales") as marks:
        assert marks == ()
    monkeypatch.delenv(AGENT_VARIABLE, raising=False)
    assert inherited_agent() is None
    monkeypatch.setenv(AGENT_VARIABLE, "sales")
    assert inherited_agent() == "sales"
