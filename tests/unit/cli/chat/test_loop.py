"""A chat reads, answers, and reads on."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ekiden.cli.chat.local import LocalChat, News
from ekiden.cli.errors import BadInput, Exit
from ekiden.core.agent import Agent
from ekiden.core.conversation.model import ModelDelta
from ekiden.core.errors import StoreUnavailable
from ekiden.core.events import Event
from ekiden.core.profile import Triggers
from ekiden.storage.memory import MemoryStore
from ekiden.testing import ScriptedModel, fail, hang, transfer
from tests.unit.cli.chat.doubles import KeptScreen, chat_of, screen_of, talk


def _two() -> tuple[Agent[Any], Agent[Any]]:
    billing = Agent(
        "billing",
        model=ScriptedModel(respond=lambda _: "billing here"),
        triggers=Triggers(keywords=("refund",), priority=100),
    )
    triage = Agent("triage", model=ScriptedModel(respond=lambda _: "triage here"))
    return triage, billing


async def test_messages_are_answered_in_order() -> None:
    chat = chat_of(Agent("clerk", model=ScriptedModel(["one", "two"])))
    assert await talk(chat, "a", "", "b") == Exit.OK
    assert screen_of(chat).outputs == ["one", "two"]


async def test_the_active_agent_keeps_the_conversation() -> None:
    chat = chat_of(*_two())
    assert chat.active == "triage"
    await talk(chat, "hi", "@billing hi", "and again", "@triage hi", "and again")
    assert screen_of(chat).outputs == [
        "triage here",
        "billing here",
        "billing here",
        "triage here",
        "triage here",
    ]
    assert chat.active == "triage"


async def test_auto_lets_the_router_choose() -> None:
    chat = chat_of(*_two())
    await talk(chat, "@auto --strategy=rule a refund please")
    assert screen_of(chat).outputs == ["billing here"]
    assert [details["agent"] for details in _details(chat, "route")] == ["billing"]


async def test_a_team_with_a_router_begins_with_it() -> None:
    chat = chat_of(*_two(), routed=True)
    assert chat.active == "auto"
    await talk(chat, "refund")
    assert chat.active == "billing"


async def test_a_name_alone_addresses_the_next_message() -> None:
    chat = chat_of(*_two())
    await talk(chat, "@billing", "hello", "@auto", "/agents", "refund")
    assert screen_of(chat).notes == [
        "the next message goes to @billing",
        "the next message goes to @auto",
    ]
    assert screen_of(chat).outputs == ["billing here", "billing here"]


async def test_an_unknown_agent_or_strategy_is_an_error_and_no_message_is_sent() -> None:
    chat = chat_of(*_two())
    code = await talk(chat, "@biling hi", "@auto --strategy=magic hi", "@nobody")
    assert code == Exit.NOT_FOUND
    assert [code for code, _ in screen_of(chat).errors] == [
        "agent.unknown",
        "user.error",
        "agent.unknown",
    ]
    assert chat.row is None


async def test_the_exit_code_is_that_of_the_last_failed_input() -> None:
    model = ScriptedModel([fail(RuntimeError("no line")), "fine"])
    chat = chat_of(Agent("clerk", model=model))
    assert await talk(chat, "/nonsense", "a", "b") == Exit.FAILED
    codes = [code for code, _ in screen_of(chat).errors]
    assert codes == ["cli.usage", "run.failed"]
    assert "/resume" in screen_of(chat).errors[-1][1]
    assert screen_of(chat).outputs == [None, "fine"]


async def test_an_invalid_line_is_reported_and_the_next_one_is_read() -> None:
    chat = chat_of(Agent("clerk", model=ScriptedModel(["fine"])))
    assert await talk(chat, BadInput("not UTF-8"), "hello") == Exit.USAGE
    assert screen_of(chat).outputs == ["fine"]


async def test_quit_ignores_the_remaining_input() -> None:
    chat = chat_of(Agent("clerk", model=ScriptedModel([])))
    assert await talk(chat, "/quit", "never said") == Exit.OK
    assert screen_of(chat).shown == []


async def test_answers_are_streamed() -> None:
    chat = chat_of(Agent("clerk", model=ScriptedModel(["a longer answer"])))
    await talk(chat, "hi")
    pieces = [each.text for each in screen_of(chat).shown if isinstance(each, ModelDelta)]
    assert "".join(pieces) == "a longer answer"
    assert len(pieces) > 1


async def test_the_first_message_is_the_title_of_the_session() -> None:
    chat = chat_of(Agent("clerk", model=ScriptedModel(["a", "b"])))
    await talk(chat, "why  does\nit " + "x" * 100, "more")
    assert chat.row is not None
    title = chat.row.meta["title"]
    assert title.startswith("why does it xxx")
    assert len(title) == 60


async def test_an_agent_without_a_model_is_an_error_with_a_code() -> None:
    chat = chat_of(Agent("clerk"))
    code = await talk(chat, "hi")
    assert code in (Exit.FAILED, Exit.USAGE)
    assert screen_of(chat).errors[0][0] == "user.error"


async def test_a_store_failure_is_reported_and_the_chat_continues() -> None:
    class Broken(MemoryStore):
        async def claim(self, *args: Any, **options: Any) -> Any:
            raise StoreUnavailable("the disk is full")

    chat = chat_of(Agent("clerk", model=ScriptedModel([])), store=Broken())
    assert await talk(chat, "hi", "/session") == Exit.STORE
    assert screen_of(chat).errors == [("store.unavailable", "the disk is full")]
    assert screen_of(chat).broken_off == 1
    assert len(screen_of(chat).replies) == 1


async def test_an_internal_error_does_not_end_the_chat(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Odd(MemoryStore):
        async def claim(self, *args: Any, **options: Any) -> Any:
            raise ZeroDivisionError("oops")

    monkeypatch.setenv("EKIDEN_DEBUG", "1")
    chat = chat_of(Agent("clerk", model=ScriptedModel([])), store=Odd())
    assert await talk(chat, "hi") == Exit.INTERNAL
    assert screen_of(chat).errors[0][0] == "cli.internal"
    assert "ZeroDivisionError" in capsys.readouterr().err


async def test_ctrl_c_stops_the_turn_which_can_be_resumed() -> None:
    model = ScriptedModel([hang(), "there you are"])
    chat = chat_of(Agent("clerk", model=model))
    talking = asyncio.create_task(talk(chat, "hi"))
    await model.until_called(1)
    chat.interrupts.stop_turn()
    assert await talking == Exit.INTERRUPTED
    assert screen_of(chat).broken_off == 1
    assert "/resume" in screen_of(chat).text
    assert chat.is_unfinished
    assert "/resume" in chat.status().details
    assert await talk(chat, "/resume") == Exit.OK
    assert screen_of(chat).outputs == ["there you are"]
    assert not chat.is_unfinished


async def test_after_ctrl_c_another_message_can_be_sent() -> None:
    model = ScriptedModel([hang(), "fine"])
    chat = chat_of(Agent("clerk", model=model))
    talking = asyncio.create_task(talk(chat, "hi"))
    await model.until_called(1)
    chat.interrupts.stop_turn()
    await talking
    assert await talk(chat, "something else") == Exit.OK
    assert screen_of(chat).outputs == ["fine"]


async def test_ctrl_c_before_the_first_commit_says_that_nothing_was_stored() -> None:
    waiting = asyncio.Event()

    class Slow(MemoryStore):
        async def claim(self, *args: Any, **options: Any) -> Any:
            waiting.set()
            await asyncio.Event().wait()

    chat = chat_of(Agent("clerk", model=ScriptedModel([])), store=Slow())
    talking = asyncio.create_task(talk(chat, "hi"))
    await waiting.wait()
    chat.interrupts.stop_turn()
    assert await talking == Exit.INTERRUPTED
    assert "nothing was kept" in screen_of(chat).text


async def test_ending_the_chat_during_a_turn_suspends_its_run() -> None:
    model = ScriptedModel([hang(), "afterwards"])
    agent = Agent("clerk", model=model)
    chat = chat_of(agent)
    talking = asyncio.create_task(talk(chat, "hi"))
    await model.until_called(1)
    talking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await talking
    row = await chat.store.get("s")
    assert (row.owner, row.status) == (None, "idle")
    assert await talk(chat, "/resume") == Exit.OK


async def test_resuming_without_an_unfinished_run_is_an_error() -> None:
    chat = chat_of(Agent("clerk", model=ScriptedModel(["a"])))
    assert await talk(chat, "/resume", "hi", "/resume") == Exit.USAGE
    assert len(screen_of(chat).errors) == 2


async def test_a_busy_session_is_waited_for_with_a_notice() -> None:
    store = MemoryStore()
    model = ScriptedModel(["first", "second"])
    chat = chat_of(Agent("clerk", model=model), store=store)
    await talk(chat, "hi")
    claim, _ = await store.claim("s", owner="another process", lease_s=30)
    talking = asyncio.create_task(talk(chat, "again"))
    while not screen_of(chat).notes:
        await store.wait_for_change(0.01)
    assert "held by another process" in screen_of(chat).notes[0]
    await store.release(claim)
    assert await talking == Exit.OK
    assert screen_of(chat).outputs == ["first", "second"]


async def test_changed_files_are_reported_before_the_next_message() -> None:
    class Changes:
        def __init__(self) -> None:
            self.news = [News(problems=["bad.md:1:1: error"]), None]

        def look(self) -> News | None:
            return self.news.pop(0)

    model = ScriptedModel(["a", "b"])
    chat = chat_of(Agent("clerk", model=model), watcher=Changes())
    await talk(chat, "one", "two")
    assert screen_of(chat).notes == ["bad.md:1:1: error"]


async def test_a_handoff_moves_the_prompt_to_the_new_agent() -> None:
    clerk = Agent("clerk", model=ScriptedModel(["sold"]))
    door = Agent(
        "door", model=ScriptedModel([transfer("clerk", reason="tickets")]), handoffs=[clerk]
    )
    chat = chat_of(door)
    await talk(chat, "a ticket")
    assert chat.status().agent == "clerk"
    assert _details(chat, "handoff")[0]["reason"] == "tickets"


def _details(chat: LocalChat, type: str) -> list[dict[str, Any]]:
    shown = screen_of(chat).shown
    return [each.details or {} for each in shown if isinstance(each, Event) and each.type == type]


async def test_ctrl_c_stops_a_long_command() -> None:
    asked = asyncio.Event()

    class Slow(MemoryStore):
        async def list(self, *args: Any, **options: Any) -> Any:
            asked.set()
            await asyncio.Event().wait()

    chat = chat_of(Agent("clerk", model=ScriptedModel(["fine"])), store=Slow())
    talking = asyncio.create_task(talk(chat, "/session list", "hello"))
    await asked.wait()
    chat.interrupts.stop_turn()
    assert await talking == Exit.INTERRUPTED
    assert screen_of(chat).notes == ["stopped"]
    assert screen_of(chat).outputs == ["fine"]


async def test_a_broken_pipe_ends_the_chat_and_suspends_the_run() -> None:
    class Broken(KeptScreen):
        def show(self, shown: Event | ModelDelta) -> None:
            raise BrokenPipeError

    chat = chat_of(Agent("clerk", model=ScriptedModel(["fine"])))
    chat.screen = Broken()
    with pytest.raises(BrokenPipeError):
        await talk(chat, "hello")
    assert (await chat.store.get("s")).owner is None


async def test_an_internal_error_in_a_command_does_not_end_the_chat() -> None:
    class Odd(MemoryStore):
        async def list(self, *args: Any, **options: Any) -> Any:
            raise ZeroDivisionError("oops")

    chat = chat_of(Agent("clerk", model=ScriptedModel(["fine"])), store=Odd())
    assert await talk(chat, "/session list", "hello") == Exit.INTERNAL
    assert screen_of(chat).errors[0][0] == "cli.internal"
    assert screen_of(chat).outputs == ["fine"]
