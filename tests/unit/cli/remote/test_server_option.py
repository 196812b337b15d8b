"""Which commands go to a server, and which options make no sense there."""

from __future__ import annotations

import inspect
from importlib import import_module
from pathlib import Path

import pytest

from ekiden.cli.errors import UsageError
from ekiden.cli.main import LOCAL_ONLY, main, put_server
from ekiden.cli.parser.parser import _MODULES, COMMANDS, GROUPS
from ekiden.cli.place import AT_WORK, HERE, THE_TEAM, THIS_MACHINE, WITH_STORE
from tests.support.cases import each_case

OPTIONS = (HERE, THIS_MACHINE, THE_TEAM, AT_WORK, WITH_STORE)
URL = "http://127.0.0.1:1"
ALL = [
    *((name, _MODULES.get(name, name), name) for name in COMMANDS),
    *(
        (f"{group} {name}", _MODULES.get(group, group), f"{group}_{name}")
        for group, (_, members) in GROUPS.items()
        for name in members
    ),
]


@each_case(("command", "module", "function"), ALL, ids=[each[0] for each in ALL])
def test_every_command_is_remote_or_says_why_not(command: str, module: str, function: str) -> None:
    if command in LOCAL_ONLY:
        assert LOCAL_ONLY[command]
        return
    found = getattr(import_module(f"ekiden.cli.commands.{module}"), function)
    assert inspect.signature(found).parameters["place"].default in OPTIONS


def test_nothing_that_is_for_this_machine_only_is_unknown() -> None:
    assert set(LOCAL_ONLY) <= {command for command, _, _ in ALL}


@pytest.mark.parametrize("command", sorted(LOCAL_ONLY))
def test_a_command_about_this_machine_refuses_a_server(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command.split(), "--server", URL]) == 2
    assert LOCAL_ONLY[command] in capsys.readouterr().err


@pytest.mark.parametrize(
    "option", ["--store=x.db", "--team=a:b", "--model=x:y", "--keep-going", "--allow=*"]
)
def test_what_is_decided_at_the_server_is_refused(
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
def test_the_option_may_stand_anywhere_before_two_dashes(words: list[str], left: list[str]) -> None:
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
def test_an_option_without_one_address_is_a_mistake(words: list[str]) -> None:
    with pytest.raises(UsageError, match="--server needs"):
        put_server(words, GROUPS)


def test_the_environment_names_a_server_for_what_can_be_remote(
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


def test_a_server_that_is_not_there_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["session", "list", "--json", "--server", "ftp://x"]) == 2
    assert "client.misconfigured" in capsys.readouterr().err
