"""A person's answer outlives the process that asked for it."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support import forked
from tests.support.sqlite import LEASES_RUN_OUT, execute

CHILD = """
import asyncio, json, sys
from ekiden import Agent, RunConfig, Runner, Session, SqliteStore, function_tool
from ekiden.core.roles import Approval
from ekiden.testing import ScriptedModel, call, say

approved, kind, path = sys.argv[1] == "yes", sys.argv[2], sys.argv[3]
done = {"asked": 0, "paid": []}

class Person:
    async def approve(self, request):
        done["asked"] += 1
        return Approval(approved=approved, by="ada", arguments='{"cents": 5}' if approved else None)

@function_tool(confirmation=True)
async def pay(cents: int) -> str:
    done["paid"].append(cents)
    return "paid"

async def code(ctx):
    return str(await ctx.call("pay", cents=7))

def answer(request):
    return say("ok") if "output" in request.input[-1] else call("pay", cents=7)

async def main():
    async with SqliteStore(path) as store:
        session = Session("s", store=store)
        agent = Agent("a", model=ScriptedModel(respond=answer), tools=[pay])
        if kind == "code":
            agent = Agent("a", run=code, tools=[pay])
        config = RunConfig(approver=Person())
        try:
            await store.get("s")
        except Exception:
            await Runner.run(agent, "Pay.", session=session, run_config=config)
        else:
            await Runner.resume(agent, session=session, run_config=config)
        done["events"] = [event.type for event in await session.events()]
    print(json.dumps(done))

asyncio.run(main())
"""


def run(*arguments: str, fault: str = "") -> tuple[int, dict[str, Any]]:
    environment = {**os.environ, "EKIDEN_TESTING": "1", "EKIDEN_FAULT": fault}
    done = forked.run(
        [sys.executable, "-c", CHILD, *arguments],
        env=environment, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    return done.returncode, json.loads(done.stdout or "{}")


@pytest.mark.parametrize(
    ("kind", "point"), [("model", "turn.tool.before_call"), ("code", "code.tool.before_call")]
)
def test_an_approval_is_asked_once_despite_a_kill_before_the_call(
    tmp_path: Path, kind: str, point: str
) -> None:
    store = tmp_path / "s.db"
    killed, _ = run("yes", kind, str(store), fault=point)
    assert killed == -9
    execute(store, LEASES_RUN_OUT)
    # The second one would say no, if it were asked.
    code, done = run("no", kind, str(store))
    assert code == 0
    assert (done["asked"], done["paid"]) == (0, [5])
    assert done["events"].count("tool_confirmation") == 1


def test_a_rejection_survives_a_kill(tmp_path: Path) -> None:
    store = tmp_path / "s.db"
    killed, _ = run("no", "model", str(store), fault="turn.tools.before_commit")
    assert killed == -9
    execute(store, LEASES_RUN_OUT)
    code, done = run("yes", "model", str(store))
    assert code == 0
    assert (done["asked"], done["paid"]) == (0, [])
