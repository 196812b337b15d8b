"""The page about chat has every command and key."""

from __future__ import annotations

import pytest

from ekiden.cli.chat.catalogue import COMMANDS, Command
from ekiden.cli.chat.loop import KEYS
from tests.docs.pages import page

PAGE = page("chat.md").text


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_every_command_has_a_row(command: Command) -> None:
    assert f"\n| `{command.line}` |" in PAGE


@pytest.mark.parametrize(("key", "meaning"), KEYS)
def test_every_key_has_a_row(key: str, meaning: str) -> None:
    assert f"\n| {key} | {meaning} |" in PAGE
