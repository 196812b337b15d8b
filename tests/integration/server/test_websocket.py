"""Events over a real WebSocket."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from ekiden.core.errors.server import Unauthenticated
from ekiden.server import ServerConfig
from ekiden.server.access import LOCAL, Caller
from ekiden.server.streams.live import MOST_SUBSCRIPTIONS
from tests.support.relay_team import relay_team
from tests.support.serving import application, served


class Place:
    """A server, and how to call it."""

    def __init__(self, url: str, client: httpx2.AsyncClient, app: Any) -> None:
        self.url, self.client, self.app = url, client, app

    def connect(self, query: str = "") -> connect:
        return connect(f"{self.url.replace('http', 'ws')}/api/v1/events{query}")

    async def say(self, text: str, session: str) -> dict[str, Any]:
        answer = await self.client.post("/api/v1/runs", json={"input": text, "session_id": session})
        record: dict[str, Any] = answer.json()
        return record


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    config = ServerConfig(heartbeat_s=0.5)
    async with (
        application(
            tmp_path, team=relay_team(), store=str(tmp_path / "s.db"), config=config
        ) as app,
        served(app) as url,
        httpx2.AsyncClient(base_url=url, timeout=60) as client,
    ):
        yield Place(url, client, app)


async def told(socket: ClientConnection) -> dict[str, Any]:
    """The next message that is no heartbeat."""
    while True:
        message: dict[str, Any] = json.loads(await socket.recv())
        if message["type"] != "heartbeat":
            return message


async def send(socket: ClientConnection, **message: Any) -> dict[str, Any]:
    await socket.send(json.dumps(message))
    return await told(socket)


@pytest.mark.slow
async def test_a_finished_subscription_frees_its_place(place: Place) -> None:
    async with place.connect() as socket:
        for number in range(MOST_SUBSCRIPTIONS + 2):
            wanted = {"type": "subscribe", "id": str(number), "after": "", "follow": False}
            assert (await send(socket, **wanted))["type"] == "subscribed"
            assert (await told(socket))["type"] == "done"
        again = await send(socket, type="subscribe", id="0", after="", follow=False)
        assert again["type"] == "subscribed"


async def until_done(socket: ClientConnection) -> list[dict[str, Any]]:
    found = []
    while True:
        found.append(await told(socket))
        if found[-1]["data"]["event_type"] == "agent_complete":
            return found


async def test_a_subscription_receives_events_of_its_session_only(place: Place) -> None:
    async with place.connect() as socket:
        assert (await send(socket, type="subscribe", id="one", sessions=["a"]))["type"] == (
            "subscribed"
        )
        await place.say("hello", "b")
        await place.say("hello", "a")
        found = await until_done(socket)
    assert {each["subscription"] for each in found} == {"one"}
    assert [each["data"]["seq"] for each in found] == list(range(1, len(found) + 1))
    assert {each["data"]["session_id"] for each in found} == {"a"}


async def test_a_subscription_resumes_after_the_last_id_without_gap_or_repeat(place: Place) -> None:
    async with place.connect("?sessions=a") as socket:
        await told(socket)
        await place.say("one", "a")
        first = await until_done(socket)
    await place.say("two", "a")
    for cut, event in enumerate(first):
        async with place.connect(f"?sessions=a&after={event['id']}") as socket:
            await told(socket)
            rest = await until_done(socket)
            if cut + 1 < len(first):
                rest += await until_done(socket)
        seen = [each["data"]["seq"] for each in first[: cut + 1] + rest]
        assert seen == list(range(1, len(seen) + 1))


async def test_a_subscription_by_agent_receives_the_agents_events(place: Place) -> None:
    async with place.connect("?agents=desk&types=handoff") as socket:
        await told(socket)
        await place.say("hello", "a")
        event = await told(socket)
    assert (event["type"], event["data"]["event_type"]) == ("event", "handoff")
    assert event["data"]["details"]["to"] == "desk"


async def test_a_new_inbox_item_is_pushed_in_the_specified_form(place: Place) -> None:
    async with place.connect("?inbox=true") as socket:
        await told(socket)
        run = await place.say("please refund it", "a")
        new = await told(socket)
        assert new["type"] == "inbox.new_item"
        assert set(new["data"]) == {"id", "from", "subject", "payload", "priority", "created_at"}
        assert (new["data"]["id"], new["data"]["from"]) == (run["questions"][0], "desk")
        desk = await place.app.state.service.tenant_service()
        await desk.inbox.answer(new["data"]["id"], choice="approve", by="kim", via="http")
        answered = await told(socket)
        assert (answered["type"], answered["data"]["by"]) == ("inbox.answered", "kim")
        taken = await told(socket)
        assert (taken["type"], taken["data"]["details"]["status"]) == ("event", "answered")


@pytest.mark.parametrize(
    "message",
    [
        "",
        "nope",
        "[]",
        '"subscribe"',
        "{}",
        '{"type":"subscribe","types":["nope"]}',
        '{"type":"subscribe","sessions":"a"}',
        '{"type":"subscribe","what":1}',
        '{"type":"subscribe","after":"not an id"}',
        '{"type":"unsubscribe","id":"x"}',
        "[" * 5000,
    ],
)
async def test_an_invalid_message_is_answered_with_an_error(place: Place, message: str) -> None:
    async with place.connect() as socket:
        await socket.send(message)
        answer = await told(socket)
        assert answer["type"] == "error"
        assert answer["code"] in ("request.invalid", "user.error")
        assert (await send(socket, type="ping"))["type"] == "pong"


async def test_an_invalid_subscription_is_refused_by_its_id(place: Place) -> None:
    async with place.connect() as socket:
        answer = await send(socket, type="subscribe", id="mine", after="no place at all")
        assert answer["type"] == "error"
        assert answer["subscription"] == "mine"
        assert (await send(socket, type="subscribe", id="mine"))["type"] == "subscribed"


async def test_too_many_invalid_messages_close_the_connection(place: Place) -> None:
    async with place.connect() as socket:
        for _ in range(20):
            await socket.send("nope")
        with pytest.raises(ConnectionClosed) as closed:
            while True:
                await socket.recv()
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1008


async def test_subscriptions_can_be_replaced_and_removed(place: Place) -> None:
    async with place.connect() as socket:
        await send(socket, type="subscribe", id="x", sessions=["a"])
        again = await send(socket, type="subscribe", id="x")
        assert again["type"] == "error"
        gone = await send(socket, type="unsubscribe", id="x")
        assert gone["type"] == "unsubscribed"
        for each in range(64):
            assert (await send(socket, type="subscribe", id=str(each)))["type"] == "subscribed"
        assert (await send(socket, type="subscribe", id="64"))["type"] == "error"


async def test_a_silent_connection_sends_heartbeats(place: Place) -> None:
    async with place.connect() as socket:
        assert json.loads(await socket.recv()) == {"type": "heartbeat"}


async def test_a_stopping_server_closes_with_restart_and_the_position(place: Place) -> None:
    async with place.connect("?sessions=a") as socket:
        await told(socket)
        await place.app.state.service.end_streams()
        with pytest.raises(ConnectionClosed) as closed:
            while True:
                await told(socket)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1012


class Refusing:
    async def caller(self, connection: Any) -> Caller:
        raise Unauthenticated


class OnlyRuns:
    async def caller(self, connection: Any) -> Caller:
        return Caller(name="r", scopes=frozenset({"run"}))


@pytest.mark.parametrize(("gate", "status"), [(Refusing(), 401), (OnlyRuns(), 403)])
async def test_a_websocket_without_the_read_scope_is_refused_before_it_is_accepted(
    tmp_path: Path, gate: Any, status: int
) -> None:
    assert LOCAL.may("read")
    async with application(tmp_path, gate=gate) as app, served(app) as url:
        with pytest.raises(InvalidStatus) as refused:
            async with connect(f"{url.replace('http', 'ws')}/api/v1/events"):
                pass
    assert refused.value.response.status_code == status
