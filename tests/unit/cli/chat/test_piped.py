"""What is said line by line."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator

import pytest

from ekiden.cli.chat.reader import LineReader, Status, TypedLines
from ekiden.cli.errors import BadInput


class Pipe:
    """Two ends."""

    def __init__(self) -> None:
        self.reading, self._writing = os.pipe()

    def write(self, data: bytes) -> None:
        os.write(self._writing, data)

    def end(self) -> None:
        if self._writing >= 0:
            os.close(self._writing)
            self._writing = -1


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    made = Pipe()
    yield made
    made.end()
    # A task that still reads must be through before the number means another pipe.
    for thread in threading.enumerate():
        if thread.name == "ekiden-chat-input":
            thread.join()
    os.close(made.reading)


async def _all(reader: LineReader) -> list[str]:
    read: list[str] = []
    while True:
        try:
            text = await reader.read()
        except BadInput as exc:
            read.append(f"! {exc}")
            continue
        if text is None:
            return read
        read.append(text)


async def test_each_line_is_an_input(pipe: Pipe) -> None:
    pipe.write("one\r\n\n二 🏃\nlast without an end".encode())
    pipe.end()
    assert await _all(LineReader(pipe.reading)) == ["one", "", "二 🏃", "last without an end"]


async def test_an_empty_pipe_ends_the_input(pipe: Pipe) -> None:
    pipe.end()
    assert await _all(LineReader(pipe.reading)) == []


async def test_a_line_that_is_not_utf_8_is_skipped(pipe: Pipe) -> None:
    pipe.write(b"good\n\xff\xfe bad\nagain\n")
    pipe.end()
    good, bad, again = await _all(LineReader(pipe.reading))
    assert (good, again) == ("good", "again")
    assert "not UTF-8" in bad


async def test_a_line_that_is_too_long_is_skipped(
    pipe: Pipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ekiden.cli.chat.reader._LONGEST", 1000)
    monkeypatch.setattr("ekiden.cli.chat.reader._CHUNK", 100)
    pipe.write(b"x" * 5000 + b"\nshort\n" + b"y" * 1050 + b"\n")
    pipe.end()
    first, short, last = await _all(LineReader(pipe.reading))
    assert short == "short"
    assert "more than 1,000 bytes" in first
    assert "more than 1,000 bytes" in last


async def test_a_line_is_read_before_the_pipe_ends(pipe: Pipe) -> None:
    pipe.write(b"one\n")
    assert await LineReader(pipe.reading).read() == "one"


async def test_a_cancelled_read_does_not_wait_for_a_silent_pipe(pipe: Pipe) -> None:
    reader = LineReader(pipe.reading)
    reading = asyncio.create_task(reader.read())
    await asyncio.sleep(0)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    pipe.write(b"late\n")
    assert await reader.ask("may I?") is None
    assert await reader.choose("which?", ["a"]) is None
    assert not reader.can_choose


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ('"a\\nb"', "a\nb"),
        ('{"text": "hello", "other": 1}', "hello"),
        ("plain text", "plain text"),
        ("/agents", "/agents"),
        ('"/quit"', "/quit"),
    ],
)
async def test_json_lines_can_be_texts_or_objects(pipe: Pipe, line: str, text: str) -> None:
    pipe.write(f"{line}\n".encode())
    assert await LineReader(pipe.reading, as_json=True).read() == text


@pytest.mark.parametrize("line", ["{hello", '"open', "{}", '{"text": 1}', "{" * 50_000])
async def test_an_invalid_json_line_is_refused(pipe: Pipe, line: str) -> None:
    pipe.write(f"{line}\n".encode())
    with pytest.raises(BadInput):
        await LineReader(pipe.reading, as_json=True).read()


async def test_without_json_mode_a_brace_is_plain_text(pipe: Pipe) -> None:
    pipe.write(b"{hello\n")
    assert await LineReader(pipe.reading).read() == "{hello"


def _typed(pipe: Pipe) -> TypedLines:
    return TypedLines(lambda: Status(agent="clerk", session_id="s"), pipe.reading)


async def test_a_simple_terminal_gets_a_simple_prompt(
    pipe: Pipe, capsys: pytest.CaptureFixture[str]
) -> None:
    pipe.write(b"hello\n")
    reader = _typed(pipe)
    assert await reader.read() == "hello"
    pipe.end()
    assert await reader.read() is None
    assert capsys.readouterr().out == "clerk> clerk> \n"


async def test_two_ctrl_c_at_a_simple_terminal_end_the_chat(
    pipe: Pipe, capsys: pytest.CaptureFixture[str]
) -> None:
    reader = _typed(pipe)
    reading = asyncio.create_task(reader.read())
    await asyncio.sleep(0)
    reader.interrupted()
    assert "Ctrl-C again leaves" in capsys.readouterr().out
    reader.interrupted()
    assert await reading is None
    reader.interrupted()


async def test_input_between_two_ctrl_c_resets_the_count(pipe: Pipe) -> None:
    reader = _typed(pipe)
    reading = asyncio.create_task(reader.read())
    await asyncio.sleep(0)
    reader.interrupted()
    pipe.write(b"hello\n")
    assert await reading == "hello"
    reading = asyncio.create_task(reader.read())
    await asyncio.sleep(0)
    reader.interrupted()
    assert not reading.done()
    pipe.write(b"again\n")
    assert await reading == "again"


async def test_output_beside_a_simple_prompt_gets_its_own_lines(
    pipe: Pipe, capsys: pytest.CaptureFixture[str]
) -> None:
    reader = _typed(pipe)
    async with reader.aside():
        print("before")
    reading = asyncio.create_task(reader.read())
    await asyncio.sleep(0)
    async with reader.aside():
        print("beside")
    pipe.write(b"hello\n")
    assert await asyncio.wait_for(reading, 60) == "hello"
    assert capsys.readouterr().out == "before\nclerk> \nbeside\nclerk> "


async def test_a_question_beside_a_simple_prompt_reads_the_next_line(
    pipe: Pipe, capsys: pytest.CaptureFixture[str]
) -> None:
    reader = _typed(pipe)
    reading = asyncio.create_task(reader.read())
    await asyncio.sleep(0)
    async with reader.aside():
        asking = asyncio.create_task(reader.ask("may it? "))
        await asyncio.sleep(0)
        pipe.write(b"yes\n")
        assert await asyncio.wait_for(asking, 60) == "yes"
        impatient = asyncio.create_task(reader.ask("and this? "))
        await asyncio.sleep(0)
        impatient.cancel()
        await asyncio.wait({impatient})
    pipe.write(b"hello\n")
    assert await asyncio.wait_for(reading, 60) == "hello"
    assert capsys.readouterr().err == "may it? and this? "


async def test_a_pipe_needs_no_prompt_handling(pipe: Pipe) -> None:
    reader = LineReader(pipe.reading)
    reading = asyncio.create_task(reader.read())
    async with reader.aside():
        pipe.write(b"hello\n")
    assert await asyncio.wait_for(reading, 60) == "hello"
