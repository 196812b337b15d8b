"""Keys at the prompt, pressed through a pipe."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import to_plain_text
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.output import DummyOutput

from ekiden.cli.chat.catalogue import PickerList, Sources
from ekiden.cli.chat.prompt import LEAVE_HINT, ChatCompleter, TerminalReader, choose
from ekiden.cli.chat.reader import Status
from tests.faults.waiting import until
from tests.unit.cli.chat.test_completion import Given

ALT_ENTER = "\x1b\r"
CTRL_C, CTRL_D, CTRL_J, CTRL_R, ENTER, TAB, UP = "\x03", "\x04", "\n", "\x12", "\r", "\t", "\x1b[A"
PASTE, PASTE_END = "\x1b[200~", "\x1b[201~"
DOWN, PAGE_DOWN, END, HOME, ESCAPE = "\x1b[B", "\x1b[6~", "\x1b[F", "\x1b[H", "\x1b"


@pytest.fixture
def keys() -> Iterator[PipeInput]:
    with create_pipe_input() as pipe, create_app_session(input=pipe, output=DummyOutput()):
        yield pipe


def _reader(
    keys: PipeInput,
    *,
    earlier: Sequence[str] = (),
    sources: Callable[[], Sources | None] = Given,
    stop_turn: Callable[[], None] = lambda: None,
) -> TerminalReader:
    return TerminalReader(
        lambda: Status(agent="cl\x1berk", session_id="s", details="/resume"),
        sources,
        history=InMemoryHistory(list(earlier)),
        stop_turn=stop_turn,
        input=keys,
        output=DummyOutput(),
    )


@pytest.mark.parametrize(
    ("pressed", "text"),
    [
        (f"hello{ENTER}", "hello"),
        (f"a{ALT_ENTER}b{CTRL_J}c{ENTER}", "a\nb\nc"),
        (f"{PASTE}one\r\ntwo\rthree{PASTE_END}{ENTER}", "one\ntwo\nthree"),
        (f"中文 🏃{ENTER}", "中文 🏃"),
        (f"wrong{CTRL_C}right{ENTER}", "right"),
        (f"{CTRL_C}stays{ENTER}", "stays"),
        (ENTER, ""),
        (CTRL_D, None),
        (f"{CTRL_C}{CTRL_C}", None),
        (f"{CTRL_C}x{CTRL_C}{CTRL_C}y{ENTER}", "y"),
        (f"{UP}{ENTER}", "later"),
        (f"{UP}{UP}{ENTER}", "earlier"),
        (f"{CTRL_R}earl{ENTER}{ENTER}", "earlier"),
    ],
)
async def test_editing_keys_work(keys: PipeInput, pressed: str, text: str | None) -> None:
    reader = _reader(keys, earlier=["earlier", "later"])
    keys.send_text(pressed)
    assert await asyncio.wait_for(reader.read(), 60) == text


async def test_enter_accepts_a_completion_and_a_second_enter_sends(keys: PipeInput) -> None:
    reader = _reader(keys)
    keys.send_text("@bill")
    reading = asyncio.create_task(reader.read())
    buffer = reader._session.default_buffer
    await until(lambda: buffer.complete_state is not None, "something is offered")
    keys.send_text(f"{TAB}{ENTER}")
    await until(lambda: buffer.complete_state is None, "it is taken")
    assert not reading.done()
    keys.send_text(f"pay{ENTER}")
    assert await asyncio.wait_for(reading, 60) == "@billing pay"


async def test_the_prompt_shows_the_agent_and_the_session(keys: PipeInput) -> None:
    reader = _reader(keys)
    assert to_plain_text(reader._message()) == "cl\\x1berk › "
    assert to_plain_text(reader._toolbar()) == " s  ·  /resume"
    keys.send_text(CTRL_C)
    reading = asyncio.create_task(reader.read())
    await until(lambda: LEAVE_HINT in to_plain_text(reader._toolbar()), "the hint is there")
    keys.send_text(CTRL_D)
    assert await reading is None


async def test_text_typed_during_loading_is_read_later(keys: PipeInput) -> None:
    reader = _reader(keys, sources=lambda: None)
    await reader.begin()
    keys.send_text(f"early{ENTER}late{ENTER}")
    reader.refresh()
    assert await reader.read() == "early"
    await reader.abandon()
    assert await reader.read() == "late"


async def test_an_abandoned_prompt_is_closed(keys: PipeInput) -> None:
    reader = _reader(keys)
    await reader.begin()
    await asyncio.wait_for(reader.abandon(), 60)
    keys.send_text(f"hello{ENTER}")
    assert await asyncio.wait_for(reader.read(), 60) == "hello"


async def test_closing_an_ended_prompt_is_harmless(keys: PipeInput) -> None:
    reader = _reader(keys)
    keys.send_text(CTRL_D)
    await reader.begin()
    await asyncio.wait_for(reader.abandon(), 60)


async def test_completion_is_empty_before_its_sources_are_loaded() -> None:
    document = Document("@bil")
    for sources, expected in ((lambda: None, []), (Given, ["billing "])):
        completer = ChatCompleter(sources)
        assert list(completer.get_completions(document, CompleteEvent())) == []
        found = completer.get_completions_async(document, CompleteEvent())
        assert [each.text async for each in found] == expected


async def _asked(keys: PipeInput, reader: TerminalReader, pressed: str) -> str | None:
    """The answer to a question, `pressed` once it is there."""
    asking = asyncio.create_task(reader.ask("may I?"))
    await asyncio.sleep(0)
    keys.send_text(pressed)
    return await asyncio.wait_for(asking, 60)


@pytest.mark.parametrize(
    ("pressed", "answer", "stops"),
    [(f"yes{ENTER}", "yes", 0), (CTRL_D, None, 0), (CTRL_C, None, 1)],
)
async def test_a_question_is_answered_and_ctrl_c_stops_the_turn(
    keys: PipeInput, pressed: str, answer: str | None, stops: int
) -> None:
    stopped: list[int] = []
    reader = _reader(keys, stop_turn=lambda: stopped.append(1))
    assert await _asked(keys, reader, pressed) == answer
    assert len(stopped) == stops


async def test_keys_typed_before_a_question_do_not_answer_it(keys: PipeInput) -> None:
    reader = _reader(keys)
    keys.send_text(f"hello{ENTER}y{ENTER}")
    assert await asyncio.wait_for(reader.read(), 60) == "hello"
    keys.send_text(f"{'y' * 5000}{ENTER}\x1b")
    assert await _asked(keys, reader, f"n{ENTER}next{ENTER}") == "n"
    assert await asyncio.wait_for(reader.read(), 60) == "next"


async def test_a_cancelled_question_is_closed(keys: PipeInput) -> None:
    reader = _reader(keys)
    asking = asyncio.create_task(reader.ask("may I?"))
    await asyncio.sleep(0)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    keys.send_text(f"hello{ENTER}")
    assert await asyncio.wait_for(reader.read(), 60) == "hello"


@pytest.mark.parametrize(
    ("pressed", "place"),
    [
        (ENTER, 1),
        (f"{DOWN}{ENTER}", 2),
        (f"{UP}{UP}{UP}{ENTER}", 0),
        (f"{END}{ENTER}", 29),
        (f"{END}{DOWN}{ENTER}", 29),
        (f"{HOME}{ENTER}", 0),
        (f"{PAGE_DOWN}{ENTER}", 13),
        (f"jk{ENTER}", 1),
        ("q", None),
        (CTRL_C, None),
        (ESCAPE, None),
    ],
)
async def test_arrow_keys_and_enter_pick_an_option(
    keys: PipeInput, pressed: str, place: int | None
) -> None:
    reader = _reader(keys)
    keys.send_text(pressed)
    options = [f"option {number}\nwith lines \x1b[31m" for number in range(30)]
    chosen = await asyncio.wait_for(reader.choose("which?", options, start=1), 60)
    assert chosen == place


async def test_choosing_works_without_a_reader(keys: PipeInput) -> None:
    keys.send_text(ENTER)
    assert await choose("which?", ["only"], input=keys, output=DummyOutput()) == 0


def test_the_lines_around_the_selected_one_are_shown() -> None:
    choice = PickerList([str(number) for number in range(10)], start=5, height=4)
    assert choice.shown() == [(False, "3"), (False, "4"), (True, "5"), (False, "6")]
    choice.move(100)
    assert choice.shown()[-1] == (True, "9")
    choice.move(-100)
    assert choice.shown()[0] == (True, "0")
    assert PickerList(["a"], start=7, height=0).shown() == [(True, "a")]


async def test_typed_text_is_restored_after_other_output(
    keys: PipeInput,
) -> None:
    reader = _reader(keys)
    reading = asyncio.create_task(reader.read())
    buffer = reader._session.default_buffer
    keys.send_text("half a\x1b[D")
    await until(lambda: buffer.document.cursor_position == 5, "it is typed")
    for _ in range(2):
        async with asyncio.timeout(60), reader.aside():
            assert not reader._session.app.is_running
            assert not reading.done()
        await until(lambda: reader._session.app.is_running, "the prompt is back")
        assert (buffer.text, buffer.document.cursor_position) == ("half a", 5)
    keys.send_text(f"n {ENTER}")
    assert await asyncio.wait_for(reading, 60) == "half n a"
    assert not reader._session.app.erase_when_done


async def test_without_a_prompt_no_text_is_set_aside(keys: PipeInput) -> None:
    reader = _reader(keys)
    async with asyncio.timeout(60), reader.aside():
        pass
    keys.send_text(f"hello{ENTER}")
    assert await asyncio.wait_for(reader.read(), 60) == "hello"
