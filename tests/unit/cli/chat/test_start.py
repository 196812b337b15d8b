"""How a chat begins and ends."""

from __future__ import annotations

import asyncio
import io
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ekiden.cli.chat.reader import Interrupts, quiet_keys
from ekiden.cli.chat.start import Beginning, manner_here, open_chat, warm
from ekiden.cli.commands.run import chat
from ekiden.cli.errors import NoSessions, UsageError
from ekiden.cli.options import ChatFlags
from ekiden.core.agent import Agent
from ekiden.routing import Router
from tests.unit.cli.chat.doubles import chat_of


class Teletype(io.StringIO):
    """A stream that a person is at."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stdin", "stdout", "term", "as_json", "manner"),
    [
        (Teletype(), Teletype(), "xterm", False, "drawn"),
        (Teletype(), Teletype(), "dumb", False, "typed"),
        (Teletype(), Teletype(), "", False, "typed"),
        (Teletype(), Teletype(), None, False, "typed"),
        (io.StringIO(), Teletype(), "xterm", False, "piped"),
        (Teletype(), io.StringIO(), "xterm", False, "piped"),
        (Teletype(), Teletype(), "xterm", True, "json"),
    ],
)
def test_the_standard_streams_decide_the_kind_of_chat(
    monkeypatch: pytest.MonkeyPatch,
    stdin: Any,
    stdout: Any,
    term: str | None,
    as_json: bool,
    manner: str,
) -> None:
    monkeypatch.setattr(sys, "stdin", stdin)
    monkeypatch.setattr(sys, "stdout", stdout)
    if term is None:
        monkeypatch.delenv("TERM", raising=False)
    else:
        monkeypatch.setenv("TERM", term)
    assert manner_here(as_json=as_json) == manner


@pytest.mark.parametrize(
    "options",
    [
        {"session": ""},
        {"session": "s", "resume": True},
        {"resume": True, "newest": True},
        {"resume": True},
    ],
)
async def test_contradictory_options_are_refused(options: Any) -> None:
    with pytest.raises(UsageError):
        await chat(flags=ChatFlags(**options))


async def test_continuing_the_newest_session_without_sessions_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(NoSessions):
        await open_chat(ChatFlags(newest=True, as_json=True), store="memory:")


def test_slow_modules_are_loaded_after_the_prompt() -> None:
    script = (
        "import sys\n"
        "import ekiden.cli.chat.start\n"
        "import ekiden.cli.chat.prompt\n"
        "heavy = ('pydantic', 'rich', 'apsw', 'numpy', 'mcp', 'ekiden.runtime', 'ekiden.agents',"
        " 'ekiden.project.project', 'ekiden.storage')\n"
        "print([name for name in heavy if name in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "[]\n"


def test_the_prompt_shows_a_placeholder_before_the_chat_is_ready() -> None:
    beginning = Beginning()
    assert beginning.status().agent == "…"
    assert beginning.sources() is None


async def _ended_by(number: int, *, stops_turns: bool) -> tuple[Interrupts, bool]:
    """Send a signal to ourselves while something waits; whether that was cancelled."""
    interrupts = Interrupts(stops_turns=stops_turns)

    async def wait() -> None:
        with interrupts.installed():
            os.kill(os.getpid(), number)
            await asyncio.sleep(0)
            await asyncio.wait_for(asyncio.Event().wait(), 0.05)

    task = asyncio.create_task(wait())
    await asyncio.wait({task})
    if not task.cancelled():
        assert isinstance(task.exception(), TimeoutError)
    return interrupts, task.cancelled()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
async def test_a_termination_signal_cancels_the_chat(number: int) -> None:
    interrupts, cancelled = await _ended_by(number, stops_turns=True)
    assert cancelled
    assert interrupts.ended_by == number


async def test_ctrl_c_in_a_pipe_ends_the_chat() -> None:
    interrupts, cancelled = await _ended_by(signal.SIGINT, stops_turns=False)
    assert cancelled
    assert interrupts.ended_by == signal.SIGINT


async def test_ctrl_c_at_a_prompt_does_not_end_the_chat() -> None:
    interrupts, cancelled = await _ended_by(signal.SIGINT, stops_turns=True)
    assert not cancelled
    assert interrupts.ended_by is None


async def test_ctrl_c_at_a_prompt_calls_the_idle_handler() -> None:
    interrupts = Interrupts(stops_turns=True)
    told = asyncio.Event()
    interrupts.when_idle = told.set
    with interrupts.installed():
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.wait_for(told.wait(), 60)


async def test_ctrl_c_during_a_turn_cancels_the_turn_only() -> None:
    interrupts = Interrupts(stops_turns=True)
    turn = asyncio.create_task(asyncio.Event().wait())
    with interrupts.installed(), interrupts.stopping(turn):
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.wait({turn})
    assert turn.cancelled()
    interrupts.stop_turn()


def test_without_a_terminal_key_echo_is_not_changed(tmp_path: Path) -> None:
    with (tmp_path / "file").open("w") as file, quiet_keys(file.fileno()):
        pass


def test_key_echo_is_off_only_between_prompts() -> None:
    termios = pytest.importorskip("termios")
    leader, follower = os.openpty()
    try:
        before = termios.tcgetattr(follower)
        with quiet_keys(follower):
            during = termios.tcgetattr(follower)
            assert not during[3] & (termios.ECHO | termios.ICANON)
            assert during[3] & termios.ISIG
        assert termios.tcgetattr(follower) == before
    finally:
        os.close(follower)
        os.close(leader)


def test_a_closed_terminal_is_ignored() -> None:
    pytest.importorskip("termios")
    leader, follower = os.openpty()
    with quiet_keys(follower):
        os.close(leader)
        os.close(follower)


@pytest.mark.parametrize(
    ("routed", "strategy", "prepared"),
    [(True, "hybrid", 1), (True, "semantic", 1), (True, "rule", 0), (False, "hybrid", 0)],
)
async def test_the_router_is_prepared_while_the_user_types(
    monkeypatch: pytest.MonkeyPatch, routed: bool, strategy: str, prepared: int
) -> None:
    calls: list[Router] = []

    async def prepare(router: Router) -> str | None:
        calls.append(router)
        raise RuntimeError("whatever is wrong shows later")

    monkeypatch.setattr(Router, "prepare", prepare)
    monkeypatch.setenv("EKIDEN_ROUTING_STRATEGY", strategy)
    await warm(chat_of(Agent("clerk"), routed=routed))
    assert len(calls) == prepared
