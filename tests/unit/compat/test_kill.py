"""A program of the other SDK is killed in the middle, started again, and goes on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

_PROGRAM = """
import json, os, signal
from pathlib import Path
from ekiden.compat.agents import Agent, Runner, function_tool
from ekiden.compat.agents.testing import ModelStep, ScriptedModel, assistant_message, function_call

@function_tool
def charge(cents: int) -> str:
    with open("effects.txt", "a") as file:
        file.write(f"{cents}\\n")
    return "charged"

def think(call):
    last = call.input[-1]
    if last.get("type") != "function_call_output":
        return [function_call("charge", {"cents": 1250}, call_id="c1")]
    if not Path("killed").exists():
        Path("killed").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return [assistant_message(f"It is {last['output']}.")]

model = ScriptedModel([ModelStep.respond(think), ModelStep.respond(think)])
desk = Agent(name="Desk", tools=[charge], model=model)

class FileSession:
    session_id, db_path = "customer-42", "shop.db"

    async def get_items(self, limit=None):
        file = Path(self.db_path)
        return json.loads(file.read_text()) if file.exists() else []

    async def add_items(self, items):
        Path(self.db_path).write_text(json.dumps([*await self.get_items(), *items]))

session = FileSession()
print(Runner.run_sync(desk, "Charge 12.50", session=session).final_output)
"""


@pytest.mark.slow
def test_a_restarted_program_resumes_its_run_and_charges_once(tmp_path: Path) -> None:
    def start() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", _PROGRAM],
            cwd=tmp_path,
            env=os.environ,
            capture_output=True,
            text=True,
            check=False,
        )

    assert start().returncode == -signal.SIGKILL
    again = start()
    assert (again.stdout, again.returncode) == ("It is charged.\n", 0), again.stderr
    assert (tmp_path / "effects.txt").read_text() == "1250\n"
    said = json.loads((tmp_path / "shop.db").read_text())
    assert [item.get("type", "message") for item in said] == [
        "message",
        "function_call",
        "function_call_output",
        "message",
    ]
