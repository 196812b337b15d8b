"""A server without keys: programs on this machine may run agents, and only people answer."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest

from ekiden.server import ServerConfig
from tests.support.relay_team import relay_team
from tests.support.serving import application, client_of

TOKEN = "t0ken-of-the-people-of-this-machine"
PERSON = {"Authorization": f"Bearer {TOKEN}"}
CONFIG = ServerConfig(person_token=TOKEN)


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[httpx2.AsyncClient]:
    async with (
        application(tmp_path, team=relay_team(), config=CONFIG) as app,
        client_of(app) as client,
    ):
        yield client


async def asked(client: httpx2.AsyncClient) -> str:
    """The path of a question that a run asks."""
    run = await client.post("/api/v1/runs", json={"input": "please refund it"})
    [item] = run.json()["questions"]
    return f"/api/v1/inbox/{item}/answer"


@pytest.mark.parametrize(
    "headers", [{}, {"Authorization": "Bearer none"}, {"Cookie": "ekiden_login=x"}]
)
async def test_a_caller_without_the_token_cannot_answer(
    client: httpx2.AsyncClient, headers: dict[str, str]
) -> None:
    path = await asked(client)
    refused = await client.post(path, json={"choice": "approve"}, headers=headers)
    assert (refused.status_code, refused.json()["code"]) == (403, "auth.scope")
    assert "token that it printed" in refused.json()["detail"]


async def test_a_caller_without_the_token_cannot_create_a_key(client: httpx2.AsyncClient) -> None:
    body = {"name": "mine", "scopes": ["answer"]}
    assert (await client.post("/api/v1/keys", json=body)).status_code == 403


async def test_a_person_with_the_token_answers(client: httpx2.AsyncClient) -> None:
    path = await asked(client)
    answered = await client.post(path, json={"choice": "approve"}, headers=PERSON)
    assert answered.json()["answer"]["by"] == "local"


async def test_an_agent_with_the_token_cannot_answer(client: httpx2.AsyncClient) -> None:
    path = await asked(client)
    headers = {**PERSON, "X-Ekiden-Agent": "1"}
    assert (await client.post(path, json={"choice": "approve"}, headers=headers)).status_code == 403


async def test_the_address_of_the_console_logs_a_person_in(client: httpx2.AsyncClient) -> None:
    path = await asked(client)
    page = await client.get("/", params={"token": TOKEN})
    assert (page.status_code, page.headers["location"]) == (303, "/")
    assert "HttpOnly" in page.headers["set-cookie"]
    assert (await client.get("/")).status_code == 200
    me = (await client.get("/api/v1/me")).json()
    assert "answer" in me["scopes"]
    forged = await client.post(path, json={"choice": "approve"})
    assert forged.json()["code"] == "auth.csrf"
    headers = {"X-CSRF-Token": me["csrf_token"]}
    assert (await client.post(path, json={"choice": "approve"}, headers=headers)).status_code == 200


async def test_a_wrong_token_in_the_address_logs_nobody_in(client: httpx2.AsyncClient) -> None:
    page = await client.get("/", params={"token": "wrong"})
    assert (page.status_code, "set-cookie" in page.headers) == (303, False)
    assert (await client.get("/api/v1/me")).json()["scopes"] == ["history", "read", "run"]
