"""Models produce half characters now and then: whatever door they go out by, nothing breaks."""

from __future__ import annotations

from pathlib import Path

import httpx2
import pytest

from ekiden import Agent, Team
from ekiden.testing import ScriptedModel, say
from tests.support.serving import application, client_of

HALF = "half \ud83d of it"
CHAT = {"model": "parrot", "messages": [{"role": "user", "content": "hi"}]}
RESPONSE = {"model": "parrot", "input": "hi"}
DOORS = {
    "run": ("/api/v1/runs", {"input": "hi"}),
    "streamed run": ("/api/v1/runs", {"input": "hi", "stream": True}),
    "chat": ("/v1/chat/completions", CHAT),
    "streamed chat": ("/v1/chat/completions", {**CHAT, "stream": True}),
    "response": ("/v1/responses", RESPONSE),
    "streamed response": ("/v1/responses", {**RESPONSE, "stream": True}),
}


def said(answer: httpx2.Response) -> str:
    assert answer.status_code == 200, answer.text
    return answer.text


@pytest.mark.parametrize("door", DOORS)
async def test_an_answer_with_a_lone_surrogate_is_returned(tmp_path: Path, door: str) -> None:
    parrot = Agent("parrot", model=ScriptedModel([say(HALF)]))
    path, body = DOORS[door]
    async with (
        application(tmp_path, team=Team(parrot)) as app,
        client_of(app) as client,
    ):
        assert "\\ud83d" in said(await client.post(path, json=body))


async def test_a_run_with_a_lone_surrogate_in_its_answer_is_shown(tmp_path: Path) -> None:
    parrot = Agent("parrot", model=ScriptedModel([say(HALF)]))
    async with (
        application(tmp_path, team=Team(parrot)) as app,
        client_of(app) as client,
    ):
        run = (await client.post("/api/v1/runs", json={"input": "hi"})).json()
        assert run["output"] == HALF
        for path in ("/runs", f"/runs/{run['run_id']}", f"/runs/{run['run_id']}/events"):
            assert "half \\ud83d of it" in said(await client.get(f"/api/v1{path}"))
