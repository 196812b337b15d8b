"""Runs as streams, over a real socket: cut anywhere, and resumed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from ekiden import Agent, Team
from ekiden.server import ServerConfig
from ekiden.testing import ScriptedModel, call, say
from tests.support.relay_team import relay_team
from tests.support.serving import application, served
from tests.support.sse import Sent, sent


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[httpx2.AsyncClient]:
    async with (
        application(tmp_path, team=relay_team(), store=str(tmp_path / "s.db")) as app,
        served(app) as url,
        httpx2.AsyncClient(base_url=url, timeout=60) as client,
    ):
        yield client


async def started(client: httpx2.AsyncClient, text: str, **more: Any) -> list[Sent]:
    body = {"input": text, "stream": True, **more}
    async with client.stream("POST", "/api/v1/runs", json=body) as response:
        assert response.status_code == 200, await response.aread()
        return [each async for each in sent(response)]


async def watched(
    client: httpx2.AsyncClient, run: str, last: str | None = None, **query: str
) -> list[Sent]:
    headers = {} if last is None else {"Last-Event-ID": last}
    url = f"/api/v1/runs/{run}/events"
    async with client.stream("GET", url, headers=headers, params=query) as response:
        assert response.status_code == 200, await response.aread()
        return [each async for each in sent(response)]


def ids(found: list[Sent]) -> list[int]:
    return [int(each.id) for each in found if each.id is not None]


async def test_a_run_is_streamed_live_and_ends_with_its_status(
    client: httpx2.AsyncClient,
) -> None:
    found = await started(client, "hello there", session_id="a")
    assert ids(found) == list(range(1, len(ids(found)) + 1))
    assert "".join(each.data["text"] for each in found if each.event == "delta") == (
        "you said: hello there"
    )
    assert [each.event for each in found].count("end") == 1
    end = found[-1]
    assert end.event == "end"
    assert (end.data["status"], end.data["output"]) == ("done", "you said: hello there")
    assert end.data["chain"] == ["user", "triage", "desk"]


async def test_deltas_come_before_the_message_they_belong_to(
    client: httpx2.AsyncClient,
) -> None:
    found = await started(client, "hello there", session_id="a")
    kinds = [each.event for each in found]
    answer = max(place for place, kind in enumerate(kinds) if kind == "llm_call")
    deltas = [place for place, kind in enumerate(kinds) if kind == "delta"]
    assert deltas == list(range(answer - len(deltas), answer))


async def test_a_stream_resumes_after_any_event_without_gap_or_repeat(
    client: httpx2.AsyncClient,
) -> None:
    whole = ids(await started(client, "hello", session_id="a"))
    for last in range(len(whole) + 1):
        rest = await watched(client, "a:1", None if last == 0 else str(last))
        assert ids(rest) == whole[last:]
        assert rest[-1].event == "end"


async def test_a_stream_cut_during_the_run_can_be_resumed(
    client: httpx2.AsyncClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RELAY_FOLDER", str(tmp_path))
    for cut in range(1, 8):
        name = f"c{cut}"
        seen: list[Sent] = []
        body = {"input": f"hello hold:{name}", "stream": True, "session_id": name}
        if cut > 2:  # The model holds the run after the second event.
            (tmp_path / name).touch()
        async with client.stream("POST", "/api/v1/runs", json=body) as response:
            async for each in sent(response):
                seen.append(each)
                if len(ids(seen)) == cut:
                    break
        (tmp_path / name).touch()
        rest = await watched(client, f"{name}:1", str(ids(seen)[-1]))
        together = ids(seen) + ids(rest)
        assert together == list(range(1, len(together) + 1))
        assert rest[-1].data["status"] == "done"


async def test_a_client_that_disconnects_does_not_stop_the_run(
    client: httpx2.AsyncClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RELAY_FOLDER", str(tmp_path))
    body = {"input": "hello hold:go", "stream": True, "session_id": "a"}
    async with client.stream("POST", "/api/v1/runs", json=body) as response:
        await anext(sent(response))
    (tmp_path / "go").touch()
    record = (await client.get("/api/v1/runs/a:1", params={"wait_s": 10})).json()
    assert record["status"] == "done"


async def test_a_stream_pauses_for_a_question_and_continues_after_the_answer(
    client: httpx2.AsyncClient,
) -> None:
    found = await started(client, "please refund it", session_id="a")
    assert found[-1].data["status"] == "waiting"
    [question] = found[-1].data["questions"]
    waiting = asyncio.create_task(watched(client, "a:1", str(ids(found)[-1]), until="outcome"))
    answer = await client.post(f"/api/v1/inbox/{question}/answer", json={"choice": "approve"})
    assert answer.status_code == 200, answer.text
    rest = await waiting
    assert ids(found) + ids(rest) == list(range(1, ids(rest)[-1] + 1))
    assert rest[-1].data["status"] == "done"
    assert rest[-1].data["output"] == "1042 is paid back"


async def test_cancelling_a_run_ends_its_stream_and_allows_a_resume(
    client: httpx2.AsyncClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RELAY_FOLDER", str(tmp_path))
    body = {"input": "hello hold:go", "session_id": "a", "background": True}
    begun = await client.post("/api/v1/runs", json=body)
    assert (begun.status_code, begun.headers["location"]) == (202, "/api/v1/runs/a:1")
    watching = asyncio.create_task(watched(client, "a:1"))
    stopped = await client.post("/api/v1/runs/a:1/cancel")
    assert stopped.json()["status"] == "stopped"
    assert (await watching)[-1].data["status"] == "stopped"
    (tmp_path / "go").touch()
    resumed = await client.post("/api/v1/sessions/a/resume", json={})
    assert resumed.json()["status"] == "done"
    again = await client.post("/api/v1/runs/a:1/cancel")
    assert (again.status_code, again.json()["status"]) == (200, "done")


async def test_a_stream_of_an_earlier_run_omits_later_runs(
    client: httpx2.AsyncClient,
) -> None:
    first = await started(client, "one", session_id="a")
    second = await started(client, "two", session_id="a")
    assert ids(await watched(client, "a:1")) == ids(first)
    assert ids(await watched(client, "a:2")) == ids(second)
    assert (await client.get("/api/v1/runs/a:1")).json()["output"] == "you said: one"
    assert (await client.get("/api/v1/runs/a:2")).json()["output"] == "you said: two"


async def test_a_session_stream_continues_across_runs(client: httpx2.AsyncClient) -> None:
    await started(client, "one", session_id="a")
    seen: list[int] = []
    async with client.stream("GET", "/api/v1/sessions/a/stream") as response:
        stream = sent(response)
        async for each in stream:
            seen.extend(ids([each]))
            if each.event == "agent_complete":
                break
        await client.post("/api/v1/runs", json={"input": "two", "session_id": "a"})
        async for each in stream:
            seen.extend(ids([each]))
            if each.event == "agent_complete":
                break
    assert seen == list(range(1, seen[-1] + 1))
    assert seen[-1] > 10


@pytest.mark.parametrize("last", ["x", "a/b", "-1", "1.5", "９", "9" * 30])
async def test_an_invalid_last_event_id_is_refused(client: httpx2.AsyncClient, last: str) -> None:
    await client.post("/api/v1/runs", json={"input": "one", "session_id": "a"})
    answer = await client.get("/api/v1/runs/a:1/events", headers={"Last-Event-ID": last.encode()})
    assert (answer.status_code, answer.json()["code"]) == (422, "request.invalid")


@pytest.mark.parametrize("run", ["a:2", "b:1", "a:x", "a", "a:0", ":1"])
async def test_an_unknown_run_is_not_found(client: httpx2.AsyncClient, run: str) -> None:
    await client.post("/api/v1/runs", json={"input": "one", "session_id": "a"})
    for url in (f"/api/v1/runs/{run}", f"/api/v1/runs/{run}/events"):
        assert (await client.get(url)).status_code in (404, 422)


async def test_a_second_message_during_a_run_is_refused_or_waits(
    client: httpx2.AsyncClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RELAY_FOLDER", str(tmp_path))
    body = {"input": "hello hold:go", "session_id": "a", "background": True}
    await client.post("/api/v1/runs", json=body)
    refused = await client.post("/api/v1/runs", json={"input": "two", "session_id": "a"})
    assert (refused.status_code, refused.json()["code"]) == (409, "session.busy")
    assert int(refused.headers["retry-after"]) >= 1
    waits = asyncio.create_task(
        client.post("/api/v1/runs", json={"input": "two", "session_id": "a", "on_busy": "wait"})
    )
    (tmp_path / "go").touch()
    assert (await waits).json()["output"] == "you said: two"


async def test_too_many_streams_are_refused_and_streams_send_heartbeats(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RELAY_FOLDER", str(tmp_path))
    config = ServerConfig(max_streams=1, heartbeat_s=0.02)
    async with (
        application(tmp_path, team=relay_team(), config=config) as app,
        served(app) as url,
        httpx2.AsyncClient(base_url=url, timeout=60) as client,
    ):
        body = {"input": "hello hold:go", "stream": True, "session_id": "a"}
        async with client.stream("POST", "/api/v1/runs", json=body) as response:
            lines = response.aiter_lines()
            async for line in lines:
                if line.startswith(":"):
                    break
            second = await client.get("/api/v1/runs/a:1/events")
            assert (second.status_code, second.json()["code"]) == (429, "request.too_many")
            (tmp_path / "go").touch()
            assert any([line == "event: end" async for line in lines])
        assert (await watched(client, "a:1"))[-1].event == "end"


async def test_runs_beyond_the_servers_capacity_wait_for_a_worker(
    tmp_path: Path,
) -> None:
    async with (
        application(tmp_path, team=relay_team(), workers=1) as app,
        served(app) as url,
        httpx2.AsyncClient(base_url=url, timeout=60) as client,
    ):
        found = await asyncio.gather(
            *(started(client, f"hello {each}", session_id=f"s{each}") for each in range(20))
        )
    assert [each[-1].data["output"] for each in found] == [
        f"you said: hello {each}" for each in range(20)
    ]


async def test_a_run_can_be_streamed_in_the_agui_format(client: httpx2.AsyncClient) -> None:
    await started(client, "hello", session_id="a")
    url = "/api/v1/runs/a:1/events?format=agui"
    async with client.stream("GET", url) as response:
        kinds = [each.data["type"] async for each in sent(response)]
    assert (kinds[0], kinds[-1]) == ("RUN_STARTED", "RUN_FINISHED")
    assert "TEXT_MESSAGE_CONTENT" in kinds


async def test_a_stream_with_children_marks_events_of_agent_tools(tmp_path: Path) -> None:
    till = Agent("till", model=ScriptedModel([say("5 yen")]))
    office = Agent(
        "office",
        model=ScriptedModel([call("till", input="?"), say("it is 5")]),
        tools=[till.as_tool()],
    )
    desk = Agent(
        "desk",
        model=ScriptedModel([call("office", input="?"), say("5 yen")]),
        tools=[office.as_tool()],
    )
    async with (
        application(tmp_path, team=Team(desk), store=str(tmp_path / "s.db")) as app,
        served(app) as url,
        httpx2.AsyncClient(base_url=url, timeout=60) as client,
    ):
        own = await started(client, "how much?", session_id="a")
        found = await watched(client, "a:1", children="true")
        rest = await watched(client, "a:1", str(ids(own)[-2]), children="true")
    assert ids(found) == ids(own)
    assert [each.event for each in rest] == ["agent_complete", "end"]
    inner = [each for each in found if "depth" in each.data]
    assert [each.id for each in inner] == [None] * len(inner)
    said = [each.data for each in inner if each.event == "llm_call"]
    assert sorted((each["depth"], each["agent_name"]) for each in said) == [
        (1, "office"),
        (1, "office"),
        (2, "till"),
    ]
    assert found[-1].event == "end"
