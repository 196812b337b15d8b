"""A payment of a killed process is not denied after a deployment."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ekiden import Agent, Inbox, Runner, Session, function_tool
from ekiden.core.errors import CallChanged
from ekiden.project import open_store
from ekiden.testing import ScriptedModel, say
from tests.faults.processes import ROOT, environment
from tests.faults.waiting import DEADLINE_S


def exit_code(*arguments: str) -> int:
    """The exit code of the program that pays."""
    command = [sys.executable, "-m", "tests.faults.payer", *arguments]
    return subprocess.run(
        command, cwd=ROOT, env=environment(), timeout=DEADLINE_S, check=False
    ).returncode


async def test_a_deployment_after_a_kill_does_not_pay_twice(tmp_path: Path) -> None:
    url, paid = str(tmp_path / "ekiden.db"), tmp_path / "paid"
    assert await asyncio.to_thread(exit_code, url, str(paid)) == -signal.SIGKILL
    key, _ = paid.read_text().split()

    @function_tool
    def pay(cents: int, reason: str) -> str:
        raise AssertionError("it was paid before")

    model = ScriptedModel([say("It is paid.")])
    agent = Agent("till", model=model, tools=[pay])
    async with open_store(url) as store:
        session = Session("s", store=store)
        with pytest.raises(CallChanged):
            await Runner.resume(agent, session)
        assert len(model.calls) == 0
        [item] = (await Inbox(store).list()).items
        assert item.context["idempotency_key"] == key
        await Inbox(store).answer(item.id, choice="enter a result", text="paid", by="anna")
        assert (await Runner.resume(agent, session)).final_output == "It is paid."
    assert model.calls[0].input[-1]["output"] == "paid"
