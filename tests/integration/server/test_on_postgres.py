"""The server on PostgreSQL, all the way, for two tenants that know nothing of each other."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from ekiden.server import ServerConfig
from tests.support.relay_team import relay_team
from tests.support.serving import application, served
from tests.support.sse import Sent, sent
from tests.unit.server.keyed import bearer, is_problem, make_key

API = "/api/v1"
WORD = "marmalade"
SESSION = "case"


class Tenant:
    """A client with the key of one tenant."""

    def __init__(self, client: httpx2.AsyncClient, key: str) -> None:
        self.client = client
        self.headers = bearer(key)

    async def ask(self, method: str, path: str, body: Any = None, **query: Any) -> httpx2.Response:
        """One request."""
        return await self.client.request(
            method, f"{API}{path}", json=body, params=query, headers=self.headers
        )

    async def told(self, method: str, path: str, body: Any = None, **query: Any) -> Any:
        """What a request that is fine is answered with."""
        found = await self.ask(method, path, body, **query)
        assert found.is_success, (path, found.text)
        return found.json()

    async def watch(self, run: str, last: str | None = None) -> list[Sent]:
        """A run's events, after the last that is known."""
        headers = {**self.headers, **({} if last is None else {"Last-Event-ID": last})}
        url = f"{API}/runs/{run}/events"
        async with self.client.stream("GET", url, headers=headers) as response:
            assert response.status_code == 200
            return [each async for each in sent(response)]


@pytest.fixture
async def tenants(tmp_path: Path, postgres_url: str) -> AsyncIterator[tuple[Tenant, Tenant]]:
    config = ServerConfig(rate=0)
    async with (
        application(tmp_path, team=relay_team(), store=postgres_url, config=config) as app,
        served(app) as url,
        httpx2.AsyncClient(base_url=url, timeout=60) as client,
    ):
        keys = [await make_key(app, "admin", tenant=name, name=name) for name in ("acme", "beta")]
        acme, beta = (Tenant(client, key.text) for key in keys)
        yield acme, beta


def ids(found: list[Sent]) -> list[int]:
    return [int(each.id) for each in found if each.id is not None]


async def test_a_run_is_handed_off_approved_streamed_found_audited_and_remembered(
    tenants: tuple[Tenant, Tenant],
) -> None:
    acme, _ = tenants
    run = await acme.told(
        "POST", "/runs", {"input": f"a refund please, {WORD}", "session_id": SESSION}
    )
    assert (run["status"], run["agent"]) == ("waiting", "desk")
    handoff = await acme.told("GET", f"/handoff/{run['handoffs'][0]}")
    assert handoff["status"] == "completed"

    before = await acme.watch(run["run_id"])
    item = await acme.told("GET", f"/inbox/{run['questions'][0]}")
    await acme.told("POST", f"/inbox/{item['id']}/answer", {"choice": "approve"})
    done = await acme.told("GET", f"/runs/{run['run_id']}", wait_s=20)
    assert (done["status"], done["output"]) == ("done", "1042 is paid back")
    after = await acme.watch(run["run_id"], last=str(ids(before)[-1]))
    whole = await acme.watch(run["run_id"])
    assert ids(before) + ids(after) == ids(whole) == list(range(1, len(ids(whole)) + 1))
    assert after[-1].event == "end"

    found = await acme.told("GET", "/sessions/search", q=WORD)
    assert {hit["session_id"] for hit in found["items"]} == {SESSION}
    records = await acme.told("GET", "/audit/records", session=SESSION)
    assert records["items"]
    assert (await acme.told("POST", "/audit/verify", {}))["ok"]
    entry = {"key": "colour", "content": f"{WORD} orange"}
    assert (await acme.ask("POST", "/memory", entry, user="ada")).status_code == 201
    recalled = await acme.told("GET", "/memory/search", q=WORD, user="ada")
    assert [each["key"] for each in recalled["items"]] == ["colour"]


async def test_tenants_with_the_same_session_id_are_separate(
    tenants: tuple[Tenant, Tenant],
) -> None:
    acme, beta = tenants
    run = await acme.told(
        "POST", "/runs", {"input": f"a refund please, {WORD}", "session_id": SESSION}
    )
    await acme.told("POST", "/memory", {"key": "colour", "content": WORD}, shared="true")
    [question], [handoff] = run["questions"], run["handoffs"]
    for path in (
        f"/sessions/{SESSION}",
        f"/runs/{run['run_id']}",
        f"/runs/{run['run_id']}/events",
        f"/handoff/{handoff}",
        f"/traces/{SESSION}",
    ):
        assert (await beta.ask("GET", path)).status_code == 404, path
    answered = await beta.ask("POST", f"/inbox/{question}/answer", {"choice": "approve"})
    assert is_problem(answered, 404, "inbox.not_found")
    for path in ("/sessions", "/inbox", "/handoff", "/audit/records", "/messages", "/runs"):
        assert (await beta.told("GET", path))["items"] == [], path
    assert (await beta.told("GET", "/sessions/search", q=WORD))["items"] == []
    assert (await beta.told("GET", "/memory", shared="true"))["items"] == []

    own = await beta.told("POST", "/runs", {"input": "hello", "session_id": SESSION})
    assert own["output"] == "you said: hello"
    assert (await acme.told("GET", f"/sessions/{SESSION}"))["status"] == "waiting"


NASTY = ("", "\0", "\N{GRINNING FACE}" * 60, "%", "'; drop table x; --")


async def test_invalid_text_is_refused_without_a_server_error(
    tenants: tuple[Tenant, Tenant],
) -> None:
    acme, _ = tenants
    for text in NASTY:
        for path, query in (
            ("/sessions", {"agent": text, "user": text}),
            ("/runs", {"agent": text, "user": text}),
            ("/inbox", {"text": text, "role": text}),
            ("/handoff", {"task": text, "by": text}),
            ("/memory", {"user": text, "cursor": text}),
            ("/memory/search", {"user": "ada", "q": text}),
            ("/sessions/search", {"q": text}),
            ("/audit/records", {"cursor": text}),
            ("/collaborations", {"agent": text, "cursor": text}),
        ):
            found = await acme.ask("GET", path, **query)
            assert found.status_code in (200, 422), (path, text, found.text)
        body = {"input": text or " ", "title": text, "user_id": text or None}
        found = await acme.ask("POST", "/runs", body)
        assert found.status_code in (200, 422), (text, found.text)
