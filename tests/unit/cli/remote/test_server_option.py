"""Which commands go to a server, and which options make no sense there."""

from __future__ import annotations

from pathlib import Path

import pytest

from ekiden.cli.errors import UsageError
from ekiden.cli.main import LOCAL_ONLY, main, put_server
from ekiden.cli.parser.parser import COMMANDS, GROUPS, build

URL = "http://127.0.0.1:1"
ALL = [
    *COMMANDS,
    *(f"{group} {name}" for group, (_, members) in GROUPS.items() for name in members),
]


@pytest.mark.parametrize("command", ALL)
def test_every_command_is_remote_or_gives_a_reason(command: str) -> None:
    app = build()
    for word in command.split():
        app = app[word]
    names = {name for each in app.assemble_argument_collection() for name in each.names}
    assert LOCAL_ONLY.get(command, "--server" in names)


def test_every_local_only_command_exists() -> None:
    assert set(LOCAL_ONLY) <= set(ALL)


@pytest.mark.parametrize("command", sorted(LOCAL_ONLY))
def test_a_command_about_this_machine_refuses_a_server(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command.split(), "--server", URL]) == 2
    assert LOCAL_ONLY[command] in capsys.readouterr().err


@pytest.mark.parametrize(
    "option", ["--store=x.db", "--team=a:b", "--model=x:y", "--keep-going", "--allow=*"]
)
def test_options_decided_by_the_server_are_refused_before_connecting(
    option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "hi", option, "--server", URL]) == 2
    assert option.partition("=")[0] in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "left"),
    [
        (["route", "hi", "--server", URL], ["route", "hi", "--server", URL]),
        (["--server", URL, "route", "hi"], ["route", "hi", "--server", URL]),
        (["route", f"--server={URL}", "hi"], ["route", "hi", "--server", URL]),
        (["route", "--", "--server", URL], ["route", "--", "--server", URL]),
        (["run", f"--server={URL}", "--", "-1"], ["run", "--server", URL, "--", "-1"]),
        (["run", "hi"], ["run", "hi"]),
    ],
)
def test_the_server_option_may_stand_anywhere_before_a_double_dash(
    words: list[str], left: list[str]
) -> None:
    put_server(words, GROUPS)
    assert words == left


@pytest.mark.parametrize(
    "words",
    [
        ["route", "hi", "--server"],
        ["route", "hi", "--server="],
        ["route", "--server", "--", "hi"],
        ["route", "--server", URL, "--server", URL],
    ],
)
def test_the_server_option_needs_exactly_one_address(words: list[str]) -> None:
    with pytest.raises(UsageError, match="--server needs"):
        put_server(words, GROUPS)


def test_the_environment_names_a_server_for_commands_that_can_be_remote(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EKIDEN_SERVER", "ftp://x")
    assert main(["session", "list"]) == 2
    assert "ftp://x" in capsys.readouterr().err
    assert main(["config", "path"]) == 0
    assert main(["session", "list", "--store", "memory:"]) == 0
    capsys.readouterr()
    assert main(["chat", "--model", "x:y"]) == 2
    assert "EKIDEN_SERVER" in capsys.readouterr().err


def test_an_unreachable_server_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["session", "list", "--json", "--server", "ftp://x"]) == 2
    assert "client.misconfigured" in capsys.readouterr().err
