"""The page about the command says what the command does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ekiden.cli import errors
from ekiden.cli.exits import Exit
from ekiden.cli.parser import build
from ekiden.core.errors import EkidenError

PAGE = (Path(__file__).parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")

EVERYWHERE = {
    *("--json", "--json-lines", "--server", "--store"),
    *("--limit", "--cursor", "--wide", "--yes"),
}
"""Options that the page explains once for all commands."""


def test_the_exit_codes_on_the_page_are_those_of_the_code() -> None:
    table = re.findall(r"^\| (\d+) \| (.+) \|$", PAGE, re.MULTILINE)
    assert [(int(code), meaning) for code, meaning in table] == [
        (code.value, code.meaning) for code in Exit
    ]


def commands() -> list[str]:
    """Every command, as it is typed."""
    app = build()
    found: list[str] = []
    for name in (name for name in app if not name.startswith("-")):
        below = [each for each in app[name] if not each.startswith("-")]
        found.extend(f"{name} {each}" for each in below)
        if not below:
            found.append(name)
    return found


def test_every_command_has_a_heading() -> None:
    assert not [command for command in commands() if f"\n## ekiden {command}\n" not in PAGE]


@pytest.mark.parametrize("command", commands())
def test_every_option_is_in_the_section_of_its_command(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    build()([*command.split(), "--help"])
    options = set(re.findall(r"^ +(--[a-z-]+)", capsys.readouterr().out, re.MULTILINE))
    assert options, "help lists options"
    section = PAGE.partition(f"\n## ekiden {command}\n")[2].partition("\n## ")[0]
    assert not {option for option in options if option not in section} - EVERYWHERE


@pytest.mark.parametrize(
    "error",
    [
        errors.UsageError,
        errors.BadInput,
        errors.Interrupted,
        errors.NobodyCapable,
        errors.NotConfirmed,
        errors.NoRecord,
    ],
)
def test_every_error_of_the_command_is_on_the_page(error: type[EkidenError]) -> None:
    assert f"`{error.code}`" in PAGE
