"""A process that dies around `remember` leaves the memory once, and the back end hears of it."""

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

from ekiden import Agent, Runner, Session
from ekiden.core.profile import MemorySettings
from ekiden.memory import Memory
from ekiden.runtime import RunConfig
from ekiden.storage.sqlite import SqliteStore
from ekiden.testing import ScriptedModel, call, say

def answer(request):
    done = [i for i in request.input if i.get("type") == "function_call_output"]
    if len(done) == 0:
        return call("remember", content="She likes blue.")
    if len(done) == 1:
        return call("recall", query="blue")
    return say(done[-1]["output"])

async def main():
    async with SqliteStore(sys.argv[1]) as store:
        session = Session("s", store=store, user_id="anna")
        agent = Agent("a", model=ScriptedModel(respond=answer), memory=MemorySettings())
        config = RunConfig(app="shop")
        try:
            await store.get("s")
        except Exception:
            result = await Runner.run(agent, "Hello.", session=session, run_config=config)
        else:
            result = await Runner.resume(agent, session=session, run_config=config)
        kept = await Memory(store, user="anna", app="shop").list()
        print(json.dumps({"said": result.final_output, "kept": [each.content for each in kept]}))

asyncio.run(main())
"""


def run(path: Path, fault: str = "") -> tuple[int, dict[str, Any]]:
    environment = {**os.environ, "EKIDEN_TESTING": "1", "EKIDEN_FAULT": fault}
    done = forked.run(
        [sys.executable, "-c", CHILD, str(path)],
        env=environment, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    return done.returncode, json.loads(done.stdout or "{}")


@pytest.mark.parametrize(
    "point", ["turn.tool.before_call", "turn.tools.before_commit", "turn.tools.after_commit"]
)
@pytest.mark.parametrize("visit", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_a_memory_is_stored_once_despite_a_kill(tmp_path: Path, point: str, visit: int) -> None:
    store = tmp_path / "s.db"
    killed, _ = run(store, f"{point}:{visit}")
    assert killed == -9
    execute(store, LEASES_RUN_OUT)
    code, done = run(store)
    assert code == 0
    assert done["kept"] == ["She likes blue."]
    assert done["said"].count("She likes blue.") == 1
