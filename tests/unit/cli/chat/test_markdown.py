"""Answers on a terminal: drawn while they grow, and never obeyed."""

from __future__ import annotations

import io
import random
import re

import pytest
from hypothesis import given, settings, strategies as st
from rich.console import Console

from ekiden.cli.chat.rich_screen import (
    StreamedAnswer,
    blocks,
    clean,
    finished_part,
    print_text,
    tail,
)
from tests.support.cases import each_case
from tests.support.examples import examples

ANSWER = """# A heading

Some *emphasis*, `code`, <b>html</b>, a [link](https://example.org/x) and
a second line with 中文字符 and 🏃‍♀️.

```python
def f(x):

    return x + 1
```

- one

- two

  still two
  - nested

1. first
2. second

| a | b |
|---|---|
| 1 | 二 |

> a quotation
> goes on

[1]: https://example.org/definition

Setext
======

    indented code

***

The end."""

ESCAPE = "\x1b"


def _console(width: int = 60, height: int = 12) -> Console:
    return Console(
        file=io.StringIO(),
        width=width,
        height=height,
        force_terminal=True,
        color_system="standard",
        highlight=False,
        _environ={},
    )


def _text(console: Console) -> str:
    file = console.file
    assert isinstance(file, io.StringIO)
    return file.getvalue()


def _plain(console: Console) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", _text(console))


def _whole(text: str, width: int = 60) -> str:
    console = _console(width)
    print_text(console, clean(text))
    return _text(console)


def _lasting(console: Console) -> list[str]:
    """The lines that a terminal would show in the end: cursor movements are followed."""
    lines: list[str] = [""]
    row = 0
    for part in re.split(r"(\x1b\[[0-9;?]*[A-Za-z]|\r|\n)", _text(console)):
        if part == "\n":
            row += 1
            if row == len(lines):
                lines.append("")
        elif part == "\r":
            continue
        elif match := re.fullmatch(r"\x1b\[(\d*)A", part):
            row -= int(match[1] or 1)
        elif part == "\x1b[2K":
            lines[row] = ""
        elif not part.startswith(ESCAPE):
            lines[row] += part
    while lines and not lines[-1].strip():
        lines.pop()
    return [line.rstrip() for line in lines]


@each_case("seed", range(12))
def test_the_final_screen_does_not_depend_on_the_size_of_the_deltas(seed: int) -> None:
    chance = random.Random(seed)
    console = _console()
    answer = StreamedAnswer(console)
    at = 0
    while at < len(ANSWER):
        size = chance.randint(1, 12)
        answer.feed(ANSWER[at : at + size])
        at += size
        if chance.random() < 0.5:
            answer.draw()
    answer.finish()
    whole = _console()
    print_text(whole, ANSWER)
    assert _lasting(console) == _lasting(whole)
    assert answer.text == ANSWER


def test_every_kind_of_markdown_block_is_drawn() -> None:
    shown = re.sub(r"\x1b\[[0-9;]*m", "", _whole(ANSWER))
    for text in ("A heading", "<b>html</b>", "中文字符", "return x + 1", "still two", "nested"):
        assert text in shown
    for text in ("二", "a quotation", "https://example.org/definition", "Setext", "The end."):
        assert text in shown
    assert "link (https://example.org/x)" in " ".join(shown.split())


def test_line_breaks_are_kept() -> None:
    assert [line.rstrip() for line in _whole("one\ntwo\nthree").splitlines()] == [
        "one",
        "two",
        "three",
    ]


@each_case(
    "text",
    [
        "\x1b[31mred\x1b[0m",
        "\x1b]0;title\x07",
        "\x1b]8;;https://evil.example\x1b\\click\x1b]8;;\x1b\\",
        "```\n\x1b[2J\x1b[H\n```",
        "bell \x07 back \x08 delete \x7f",
        "c1 \x9b31m",
        "right to left \u202egnp.exe",
        "[x](https://e.x/\x1b[31m)",
        "| \x1b[31m |\n|---|\n| \x1b[0m |",
    ],
)
def test_control_characters_never_reach_the_terminal(text: str) -> None:
    console = _console()
    answer = StreamedAnswer(console)
    for character in text:
        answer.feed(character)
        answer.draw()
    answer.finish()
    shown = re.sub(r"\x1b\[[0-9;?]*[mAKhl]", "", _text(console))
    assert not re.search(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e]", shown)


@each_case(
    "text", ["[red]danger[/red]", "[bold]", "[/]", "[link=https://x]y[/link]", ":smile:", "[[x]]"]
)
def test_rich_markup_is_printed_as_text(text: str) -> None:
    console = _console()
    print_text(console, clean(text))
    assert _plain(console).strip() == text


def test_no_terminal_hyperlink_is_made() -> None:
    assert "\x1b]8" not in _whole("[here](https://example.org) and <https://example.org>")


def test_a_windows_line_end_split_over_two_deltas_is_one_line_end() -> None:
    console = _console()
    answer = StreamedAnswer(console)
    for piece in ("one\r", "\ntwo\r\n", "three\r"):
        answer.feed(piece)
    answer.finish()
    assert _plain(console).split() == ["one", "two", "three\\r"]


def test_a_growing_block_never_exceeds_the_screen() -> None:
    console = _console(height=10)
    answer = StreamedAnswer(console)
    answer.feed("```python\n")
    for number in range(100):
        answer.feed(f"line {number}\n")
        answer.draw()
    ups = [int(up or 1) for up in re.findall(r"\x1b\[(\d*)A", _text(console))]
    assert sum(ups) <= 100 * 10
    answer.feed("```\n")
    answer.finish()
    lasting = _lasting(console)
    assert [line.strip() for line in lasting] == [f"line {number}" for number in range(100)]


def test_long_lines_and_wide_characters_are_wrapped() -> None:
    shown = _whole("宽" * 100 + "x" * 100, width=21)
    from rich.cells import cell_len

    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in shown.splitlines()]
    assert max(map(cell_len, lines)) <= 21
    assert "".join(line.strip() for line in lines) == "宽" * 100 + "x" * 100


def test_without_markdown_the_text_is_printed_unchanged() -> None:
    console = _console()
    answer = StreamedAnswer(console, markdown=False)
    answer.feed("# not a heading\n")
    answer.draw()
    answer.feed("* not a list\n")
    answer.finish()
    assert _lasting(console) == ["# not a heading", "* not a list"]


def test_text_that_cannot_be_drawn_is_printed_unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("a bug in the library")

    monkeypatch.setattr("ekiden.cli.chat.rich_screen.drawn", fail)
    console = _console()
    print_text(console, "# heading")
    assert "# heading" in _plain(console)


def test_drawing_pauses_grow_with_the_drawing_time() -> None:
    answer = StreamedAnswer(_console())
    answer.feed("x")
    answer.draw()
    assert answer.pause_s >= 0.05


@each_case(
    ("text", "finished"),
    [
        ("", ""),
        ("one line", ""),
        ("a\n\nb", ""),
        ("a\n\nb\n", "a\n\n"),
        ("- a\n\n- b\n", ""),
        ("- a\n\nb\n", "- a\n\n"),
        ("```\na\n\nb\n", ""),
        ("```\na\n```\nb\n", "```\na\n```\n"),
        ("1. a\n\n2", ""),
    ],
)
def test_only_completed_blocks_are_finished(text: str, finished: str) -> None:
    assert text[: finished_part(text)] == finished


def test_the_tail_of_a_code_block_keeps_its_opening_line() -> None:
    assert tail("```py\n1\n2\n3", 2) == "```py\n2\n3"
    assert tail("1\n2\n3", 2) == "2\n3"
    assert tail("1\n2", 5) == "1\n2"


@settings(max_examples=examples(60), deadline=None)
@given(st.text(alphabet=st.sampled_from("ab \n#*_-`~|>[]()!<&\\1.:\t中\x1b\r"), max_size=120))
def test_any_text_is_drawn_without_loss(text: str) -> None:
    kept = "\n".join(block.text for block in blocks(clean(text)))
    assert "".join(kept.split()) == "".join(clean(text).split())
    console = _console()
    answer = StreamedAnswer(console)
    answer.feed(text)
    answer.draw()
    answer.finish()
