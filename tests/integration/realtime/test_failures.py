"""What goes wrong between a live session and its model."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ekiden import UserError, function_tool
from ekiden.core.errors import ModelBehaviorError
from ekiden.integrations.realtime import (
    RealtimeAgent,
    RealtimeClosed,
    RealtimeDisconnected,
    RealtimeModelSettings,
    RealtimeRunner,
    RealtimeSetup,
    RealtimeUnavailable,
    RealtimeWebSocketModel,
)
from ekiden.integrations.realtime.model import RealtimeModelSendAudio
from ekiden.testing import RealtimeServer, call, hang, say, transfer
from ekiden.testing.servers.openai import cut
from ekiden.testing.servers.realtime import complain, fail_turn
from tests.integration.realtime.conftest import talking


async def test_a_server_error_is_shown_and_the_session_continues() -> None:
    steps = [complain("try later", code="rate_limit"), fail_turn("no GPU"), say("Now.")]
    async with talking(steps, RealtimeAgent("desk")) as (_, live):
        await live.session.send_message("Hi")
        first = await live.until_type("error")
        await live.session.send_message("Hi")
        second = await live.until_type("error")
        await live.until_type("agent_end")
        await live.session.send_message("Hi")
        await live.until_said("Now.")
    assert first.code == second.code == "realtime.server_error"
    assert "try later" in str(first.error)
    assert first.error.server_code == "rate_limit"
    assert "no GPU" in str(second.error)


@pytest.mark.parametrize(
    "frame",
    [
        "{",
        "[]",
        "null",
        '{"no": "type"}',
        '{"type": 5}',
        b"\x00\xff",
        "[" * 40_000,
        '{"type": "response.output_audio.delta", "delta": "***", "response_id": "r"}',
        '{"type": "conversation.item.added", "item": {"type": "message", "id": 7}}',
        '{"type": "conversation.item.added", "item": {"type": "message", "id": "a", "role": "x"}}',
        '{"type": "conversation.item.added", "item": {"type": "function_call", "id": "a"}}',
        '{"type": "conversation.item.added", "item": {"type": "message", "id": "a", "role": "user",'
        ' "status": "gone"}}',
        '{"type": "response.created", "response": "r1"}',
        '{"type": "response.done", "response": {}}',
        '{"type": "response.done", "response": {"id": "r", "status": "completed", "output": [5]}}',
        '{"type": "error", "error": "text"}',
    ],
)
async def test_an_unreadable_frame_is_an_error_and_the_session_continues(
    frame: str | bytes,
) -> None:
    async with talking([say("Still here.")], RealtimeAgent("desk")) as (server, live):
        await server.push(frame)
        error = await live.until_type("error")
        await live.session.send_message("Hello?")
        await live.until_said("Still here.")
    assert isinstance(error.error, ModelBehaviorError)
    assert error.code == "model.behavior"
    assert len(str(error.error)) < 1000


@pytest.mark.parametrize("how", ["drop", "hang up"])
async def test_a_broken_connection_ends_the_session_with_a_clear_error(how: str) -> None:
    step = cut(say("Half an answer."), after=4) if how == "drop" else hang()
    async with talking([step], RealtimeAgent("desk")) as (server, live):
        await live.session.send_message("Hi")
        await live.until_type("agent_start")
        if how == "hang up":
            await server.hang_up(1011, "out of order")
        with pytest.raises(RealtimeDisconnected) as caught:
            await live.rest()
        assert live.events[-1].type == "error"
        assert live.events[-1].code == "realtime.disconnected"
        assert caught.value.close_code == (None if how == "drop" else 1011)
        with pytest.raises(RealtimeDisconnected):
            await live.session.send_message("Hello?")
        with pytest.raises(RealtimeDisconnected):
            await anext(live.session)


async def test_a_disconnection_during_a_handoff_cancels_it() -> None:
    begun, cancelled = asyncio.Event(), asyncio.Event()

    @function_tool
    async def wait() -> str:
        """Wait."""
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise
        return "never"

    desk = RealtimeAgent("desk", tools=[wait], handoffs=[RealtimeAgent("other")])
    async with talking([[call("wait"), transfer("other")]], desk) as (server, live):
        await live.session.send_message("Hi")
        await begun.wait()
        server.drop()
        with pytest.raises(RealtimeDisconnected):
            await live.rest()
        await cancelled.wait()
        assert live.session.agent is desk


async def test_a_proper_close_by_the_server_ends_the_iteration() -> None:
    async with talking([say("Bye.")], RealtimeAgent("desk")) as (server, live):
        await live.session.send_message("Bye")
        await live.until_said("Bye.")
        await server.hang_up()
        await live.rest()
        assert live.of("error") == []
        with pytest.raises(RealtimeClosed):
            await live.session.send_audio(b"\x00")


async def test_a_frame_above_the_limit_ends_the_session_with_a_clear_error() -> None:
    async with talking([], RealtimeAgent("desk")) as (server, live):
        await server.push({"type": "other", "filler": "x" * 70_000})
        with pytest.raises(RealtimeDisconnected, match="above the limit of 65536 bytes"):
            await live.rest()


async def test_a_refused_connection_is_an_error_that_names_the_address(
    triage: RealtimeAgent[Any],
) -> None:
    async with RealtimeServer(api_key="right") as server:
        wrong = RealtimeWebSocketModel(url=server.url, api_key="sk-wrong")
        elsewhere = RealtimeWebSocketModel(url=server.url.replace("/v1/realtime", "/other"))
        for model, status in ((wrong, 401), (elsewhere, 404)):
            with pytest.raises(RealtimeUnavailable, match=f"answered {status}") as caught:
                async with await RealtimeRunner(triage, model=model).run():
                    pass
            assert caught.value.status == status
            assert "sk-wrong" not in str(caught.value)
        gone = server.url
    with pytest.raises(RealtimeUnavailable, match="127.0.0.1"):
        async with await RealtimeRunner(triage, model=RealtimeWebSocketModel(url=gone)).run():
            pass


async def test_a_real_provider_is_not_called_while_models_are_blocked(
    triage: RealtimeAgent[Any],
) -> None:
    with pytest.raises(UserError, match="EKIDEN_BLOCK_MODELS"):
        async with await RealtimeRunner(triage).run():
            pass


async def test_settings_that_are_not_json_leave_no_connection_open(
    triage: RealtimeAgent[Any],
) -> None:
    settings = RealtimeModelSettings(extra={"odd": object()})
    with pytest.raises(UserError, match="session.update cannot be sent, it is not JSON"):
        async with talking([], triage, settings=settings):
            pass


async def test_sending_on_a_closed_connection_raises_disconnected() -> None:
    async with RealtimeServer() as server:
        model = RealtimeWebSocketModel(url=server.url)
        connection = await model.connect(RealtimeSetup(), RealtimeModelSettings())
        await server.until("session.update")
        await server.hang_up(1001, "going away")
        assert [event.type async for event in connection.events()] == ["other", "other"]
        with pytest.raises(RealtimeDisconnected, match="1001 going away") as caught:
            await connection.send(RealtimeModelSendAudio(audio=b"\x00"))
        assert caught.value.code == "realtime.disconnected"
        await connection.close()
