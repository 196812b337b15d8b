"""What was typed is a message or a command."""

from __future__ import annotations

import pytest

from ekiden.cli.chat.catalogue import ALIASES, COMMANDS, find_command
from ekiden.cli.chat.loop import HANDLERS, LOCAL_HANDLERS
from ekiden.cli.chat.reader import TypedCommand, TypedMessage, read_input
from ekiden.cli.errors import UsageError
from tests.support.cases import each_case


@pytest.mark.parametrize("text", ["", "  ", "\n\n", "\t"])
def test_empty_input_is_ignored(text: str) -> None:
    assert read_input(text) is None


@each_case(
    ("text", "said"),
    [
        ("hello", "hello"),
        ("a\nb\n", "a\nb"),
        ("  indented", "  indented"),
        ("//etc/hosts is broken", "/etc/hosts is broken"),
        ("  //x", "/x"),
        ("@auto why", "@auto why"),
    ],
)
def test_text_is_a_message(text: str, said: str) -> None:
    assert read_input(text) == TypedMessage(text=said)


@pytest.mark.parametrize(("text", "line"), [("/help", "help"), ("  /a b  ", "a b"), ("/", "")])
def test_a_slash_begins_a_command(text: str, line: str) -> None:
    assert read_input(text) == TypedCommand(line=line)


@each_case(
    ("line", "name", "argument"),
    [
        ("agents", "agents", ""),
        ("AGENTS", "agents", ""),
        ("agents show billing", "agents show", "billing"),
        ("agents Route why does it crash", "agents route", "why does it crash"),
        ("agents  show  x", "agents show", "x"),
        ("session resume", "session resume", ""),
        ("rewind 3", "rewind", "3"),
        ("exit", "quit", ""),
        ("q", "quit", ""),
        ("?", "help", ""),
        ("help agents show", "help", "agents show"),
        ("new", "session new", ""),
    ],
)
def test_the_longest_matching_command_name_wins(line: str, name: str, argument: str) -> None:
    command, rest = find_command(line)
    assert (command.name, rest) == (name, argument)


@each_case(
    ("line", "hint"),
    [
        ("agnets", "did you mean /agents?"),
        ("sesion list", "did you mean /session?"),
        ("qiut", "did you mean /quit?"),
        ("usr/bin/env is missing", "To send a text that begins with a slash"),
        ("", "/help lists the commands"),
        ("agents shwo billing", "did you mean /agents show?"),
        ("session 中文", "there are: list, new, resume, show, export"),
        ("clear everything", "takes no arguments"),
        ("x" * 5000, "/help lists the commands"),
    ],
)
def test_an_unknown_command_is_refused_with_a_hint(line: str, hint: str) -> None:
    with pytest.raises(UsageError, match=hint.replace("?", r"\?")) as refused:
        find_command(line)
    assert len(str(refused.value)) < 200


def test_every_command_has_a_handler_and_a_help() -> None:
    assert {*HANDLERS, *LOCAL_HANDLERS} == {command.name for command in COMMANDS}
    assert set(ALIASES.values()) <= set(HANDLERS)
    assert all(command.help.endswith(".") for command in COMMANDS)
