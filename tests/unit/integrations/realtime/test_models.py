"""The doors to realtime models: addresses, keys, and models of one's own."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest

from ekiden import UserError
from ekiden.integrations.realtime import (
    RealtimeAgent,
    RealtimeModel,
    RealtimeModelSettings,
    RealtimeRunConfig,
    RealtimeRunner,
    RealtimeSetup,
    RealtimeWebSocketModel,
)
from ekiden.integrations.realtime.items import (
    RealtimeModelAudioInterruptedEvent,
    RealtimeModelEvent,
    RealtimeModelToolCallEvent,
    RealtimeModelTurnEndedEvent,
    RealtimeModelTurnStartedEvent,
)
from tests.support.cases import each_case

DESK = RealtimeAgent("desk")


class Playback:
    """A model, and its own connection, that tells a list of events and then raises or waits."""

    def __init__(self, *events: RealtimeModelEvent, error: Exception | None = None) -> None:
        self.told = events
        self.error = error
        self.sent: list[Any] = []
        self.close_error: Exception | None = None

    async def connect(self, setup: RealtimeSetup, settings: RealtimeModelSettings) -> Playback:
        return self

    async def send(self, event: Any) -> None:
        self.sent.append(event)

    async def events(self) -> AsyncIterator[RealtimeModelEvent]:
        for event in self.told:
            yield event
        if self.error is not None:
            raise self.error
        await asyncio.Event().wait()

    async def close(self) -> None:
        if self.close_error is not None:
            raise self.close_error


@each_case(
    "url",
    [
        "https://host/v1",
        "wss://",
        "wss://host:x/",
        "wss://host:0",
        "wss://h/?a=b",
        "wss://h/#a",
        "",
    ],
)
def test_an_invalid_address_is_refused(url: str) -> None:
    with pytest.raises(UserError, match="must look like wss://"):
        RealtimeWebSocketModel(url=url)


def test_a_password_in_an_address_is_refused_and_not_shown() -> None:
    with pytest.raises(UserError, match="user name or password") as caught:
        RealtimeWebSocketModel(url="wss://me:secret@host/v1")
    assert "secret" not in str(caught.value)


def test_the_repr_hides_the_api_key() -> None:
    model = RealtimeWebSocketModel("m", url="wss://host:99/v1/", api_key="sk-secret")
    assert repr(model) == "<RealtimeWebSocketModel 'm' at host:99>"
    assert isinstance(model, RealtimeModel)


async def test_the_default_address_requires_an_api_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("EKIDEN_BLOCK_MODELS", raising=False)
    with pytest.raises(UserError, match="set OPENAI_API_KEY"):
        await RealtimeWebSocketModel().connect(RealtimeSetup(), RealtimeModelSettings())


def test_the_environment_key_is_sent_only_to_its_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-env")
    assert RealtimeWebSocketModel()._key() == "sk-env"
    assert RealtimeWebSocketModel(api_key="sk-own")._key() == "sk-own"
    assert RealtimeWebSocketModel(url="ws://localhost:1")._key() is None


async def test_a_missing_package_is_reported_with_the_install_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "websockets.asyncio.client", None)
    model = RealtimeWebSocketModel(url="ws://localhost:1")
    with pytest.raises(UserError, match=r"pip install 'ekiden\[realtime\]'"):
        await model.connect(RealtimeSetup(), RealtimeModelSettings())


def test_importing_the_package_loads_nothing_heavy() -> None:
    heavy = ("apsw", "asyncpg", "openai", "pydantic", "re2", "websockets")
    code = (
        f"import ekiden.integrations.realtime, sys; print([n for n in {heavy} if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"starting_agent": "desk"}, "must start with a RealtimeAgent"),
        ({"starting_agent": DESK, "model": "gpt-realtime"}, "model must be a RealtimeModel"),
        ({"starting_agent": DESK, "config": {"model_settings": {}}}, "config must be"),
    ],
)
def test_a_runner_refuses_invalid_options(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(UserError, match=problem):
        RealtimeRunner(**options)


async def test_a_runner_accepts_only_a_session() -> None:
    with pytest.raises(UserError, match="session must be Session"):
        await RealtimeRunner(DESK, model=Playback()).run(session="s1")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "options",
    [{"max_calls": 0}, {"max_handoffs": -1}, {"lease_s": 0}, {"model_settings": {"voice": "x"}}],
)
def test_invalid_run_settings_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(UserError, match="RealtimeRunConfig"):
        RealtimeRunConfig(**options)


async def test_an_error_of_a_custom_model_ends_the_session() -> None:
    model = Playback(error=RuntimeError("boom"))
    async with await RealtimeRunner(DESK, model=model).run() as session:
        event = await anext(session)
        assert (event.type, event.code) == ("error", "")
        with pytest.raises(RuntimeError, match="boom"):
            await anext(session)


async def test_a_connection_that_fails_to_close_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    model = Playback()
    model.close_error = RuntimeError("stuck")
    async with await RealtimeRunner(DESK, model=model).run():
        pass
    assert "could not be closed" in caplog.text


async def test_a_connection_that_fails_at_start_leaves_no_session() -> None:
    model = Playback()

    async def broken(event: Any) -> None:
        raise RuntimeError("cut")

    async def fails(ctx: Any, agent: Any) -> str:
        raise LookupError("no instructions today")

    model.send = broken  # type: ignore[method-assign]
    desk = RealtimeAgent("desk", instructions=fails)
    session = await RealtimeRunner(desk, model=model).run()
    with pytest.raises(LookupError):
        await session.enter()
    with pytest.raises(StopAsyncIteration):
        await anext(session)


async def test_an_interruption_reported_by_the_model_is_shown() -> None:
    model = Playback(RealtimeModelAudioInterruptedEvent(item_id="i1", content_index=2))
    async with await RealtimeRunner(DESK, model=model).run() as session:
        events = [await anext(session), await anext(session)]
    assert [event.type for event in events] == ["raw_model_event", "audio_interrupted"]


async def test_turns_that_never_end_are_dropped() -> None:
    started = [RealtimeModelTurnStartedEvent(response_id=f"r{n}") for n in range(40)]
    stale = RealtimeModelToolCallEvent(name="t", call_id="c", arguments="", response_id="r0")
    ended = RealtimeModelTurnEndedEvent(response_id="r39")
    model = Playback(stale, *started, ended)
    async with await RealtimeRunner(DESK, model=model).run() as session:
        async for event in session:
            if event.type == "agent_end":
                break
    assert model.sent == []
