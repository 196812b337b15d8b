"""Rows, columns and widths."""

from __future__ import annotations

import io
import re
import sys

import pytest

from ekiden.cli.tables import plain_pairs, plain_table, print_pairs, print_table


class Terminal(io.StringIO):
    """Standard output with somebody in front of it."""

    def isatty(self) -> bool:
        return True

    def lines(self) -> list[str]:
        """What is on the screen, colours aside."""
        return re.sub(r"\x1b\[[0-9;]*m", "", self.getvalue()).splitlines()


def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """What a person sees from now on."""
    screen = Terminal()
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("TERM", "xterm")
    return screen


def test_columns_are_aligned_by_what_characters_take_on_the_screen() -> None:
    table = plain_table(("agent", "why"), [("訂單", "a"), ("orders", "b"), ("👋", "c")])
    assert table.splitlines() == ["agent   why", "訂單    a", "orders  b", "👋      c"]


def test_a_cell_is_one_line() -> None:
    assert plain_table(("why",), [("a\nb\tc",)]) == "why\na b c\n"


def test_pairs_indent_the_further_lines_of_a_text() -> None:
    assert plain_pairs([("user", "one\ntwo"), ("orders", "")]) == "user: one\n  two\norders:\n"


def test_what_would_move_the_cursor_is_spelled_out() -> None:
    assert plain_pairs([("us\x1b[2Jer", "\u202eevil\x07")]) == r"us\x1b[2Jer: \u202eevil\x07" + "\n"


def test_a_terminal_gets_a_table_that_keeps_wide_text_in_its_column(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    screen = terminal(monkeypatch)
    print_table(("agent", "why"), [("訂單", "[bold]not markup[/bold]"), ("orders", "b")])
    lines = screen.lines()
    assert any("訂單" in line and "[bold]not markup[/bold]" in line for line in lines)
    wide = next(line for line in lines if "訂單" in line)
    narrow = next(line for line in lines if "orders" in line)
    assert wide.index("[") + 2 == narrow.index("b"), "each wide character takes two columns"


def test_a_terminal_wraps_a_long_text_beside_its_label(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = terminal(monkeypatch)
    print_pairs([("orders", "數" * 30)])
    lines = screen.lines()
    assert lines[0].startswith("orders  數")
    assert lines[1].startswith("        數")
    assert sum(line.count("數") for line in lines) == 30


def test_a_pipe_gets_plain_text(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("a", "b"), [("1", "2")])
    print_pairs([("a", "1")])
    assert capsys.readouterr().out == "a  b\n1  2\na: 1\n"
