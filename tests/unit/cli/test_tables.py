"""Rows, columns and widths."""

from __future__ import annotations

import io
import re
import sys
import time

import pytest
from rich.cells import cell_len

from ekiden.cli.output import (
    Extra,
    Id,
    TimeCell,
    Whole,
    narrow_table,
    plain_pairs,
    plain_table,
    print_pairs,
    print_table,
    short_ids,
)
from ekiden.core.values import new_id
from tests.support.cases import each_case


class Terminal(io.StringIO):
    """Standard output that is a terminal."""

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


def test_control_characters_in_tables_are_escaped() -> None:
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


def test_a_row_of_a_list_is_one_line_of_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = terminal(monkeypatch)
    rows = [("訂單" * 9, "👨‍👩‍👧 " + "long " * 30, "1"), ("orders", "b", "2")]
    print_table(("agent", "why", Extra("number")), rows, wide=False)
    header, wide, narrow = screen.lines()
    assert header.split() == ["agent", "why"], "the number is for --wide"
    assert cell_len(wide) <= 40
    assert cell_len(wide.partition("👨")[0]) == narrow.index("b")
    assert wide.endswith("…")


def test_wide_prints_the_same_on_a_terminal_as_in_a_pipe(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    screen = terminal(monkeypatch)
    table = (("session", Extra("why")), [(Id(new_id("ses")), "word " * 30)])
    print_table(*table, wide=True)
    assert screen.getvalue() == plain_table(*table)


def test_times_are_relative_on_a_terminal_and_absolute_in_a_pipe() -> None:
    moment = TimeCell(time.time() - 7300)
    assert narrow_table(("time",), [(moment,)], width=80) == "time\n2h ago\n"
    assert re.fullmatch(
        r"time\n\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\n", plain_table(("time",), [(moment,)])
    )


def test_ids_are_shortened_to_unique_prefixes() -> None:
    made = "ses_06gys83gccfsxnhty551"
    near = "ses_06gys83gccfsxnhtz000"
    assert short_ids([made, f"{made}.h1"]) == ["ses_06gys83gccfs", "ses_06gys83gccfs.h1"]
    assert short_ids([made, near]) == ["ses_06gys83gccfsxnhty", "ses_06gys83gccfsxnhtz"]
    assert short_ids(["web-1", "web-2"]) == ["web-1", "web-2"]
    assert short_ids(["customer-42-of-the-shop-in-Kyoto"]) == ["customer-42-of-the-s"]
    assert short_ids(["customer-42-of-the-shop/10"]) == ["customer-42-of-the-shop/10"]


@each_case("width", [40, 60, 80])
def test_long_names_never_make_a_row_wider_than_the_terminal(width: int) -> None:
    name = "customer-relations-and-billing-department-for-europe"
    rows = [
        (TimeCell(time.time()), Id(f"{name}-in-osaka/{place}"), Whole(name), "客户要求退款" * 9)
        for place in (1, 10)
    ]
    lines = narrow_table(("time", "record", "agent", "why"), rows, width=width).splitlines()
    assert {line.split()[0] for line in lines[1:]} == {"0s"}, "a time is not cut"
    assert all(cell_len(line) <= width for line in lines)
    assert [line.split()[2][-3:] for line in lines[1:]] == ["a/1", "/10"], "ends differ"


def test_in_a_complete_table_long_words_are_wrapped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    screen = terminal(monkeypatch)
    folder = "/home/" + "folder/" * 12
    print_table(("folder", "state"), [(folder, "missing")])
    shown = "".join(screen.getvalue().split())
    assert "missing" in shown
    assert folder in shown.replace("missing", "")
