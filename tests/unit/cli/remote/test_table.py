"""Which commands go to a server, and which options make no sense there."""

from __future__ import annotations

import inspect
from importlib import import_module

import pytest

from ekiden.cli.errors import UsageError
from ekiden.cli.main import _COMMANDS, _GROUPS, main
from ekiden.cli.place import HERE, THIS_MACHINE
from ekiden.cli.remote.likeness import LOCAL_OPTIONS
from ekiden.cli.remote.table import LOCAL_ONLY, WRITTEN_ONCE, take_server
from tests.support.cases import each_case

URL = "http://127.0.0.1:1"
ALL = [
    *((name, name, name) for name in _COMMANDS),
    *(
        (f"{group} {name}", group, f"{group}_{name}")
        for group, (_, members) in _GROUPS.items()
        for name in members
    ),
]


@each_case(("command", "module", "function"), ALL, ids=[each[0] for each in ALL])
def test_every_command_is_remote_or_says_why_not(command: str, module: str, function: str) -> None:
    if command in LOCAL_ONLY:
        assert LOCAL_ONLY[command]
        return
    local = getattr(import_module(f"ekiden.cli.commands.{module}"), function)
    if command in WRITTEN_ONCE:
        assert inspect.signature(local).parameters["place"].default in (HERE, THIS_MACHINE)
        return
    remote = getattr(import_module(f"ekiden.cli.remote.{module}"), function)
    wanted = [name for name in inspect.signature(local).parameters if name not in LOCAL_OPTIONS]
    assert list(inspect.signature(remote).parameters) == wanted
    assert inspect.iscoroutinefunction(remote)


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
    ("words", "left", "url"),
    [
        (["run", "hi", "--server", URL], ["run", "hi"], URL),
        (["--server", URL, "run", "hi"], ["run", "hi"], URL),
        (["run", f"--server={URL}", "hi"], ["run", "hi"], URL),
        (["run", "--", "--server", URL], ["run", "--", "--server", URL], None),
        (["run", "hi"], ["run", "hi"], None),
    ],
)
def test_the_option_may_stand_anywhere_before_two_dashes(
    words: list[str], left: list[str], url: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("EKIDEN_SERVER", raising=False)
    assert take_server(words, _GROUPS) == url
    assert words == left


@pytest.mark.parametrize(
    "words",
    [
        ["run", "hi", "--server"],
        ["run", "hi", "--server="],
        ["run", "--server", "--", "hi"],
        ["run", "--server", URL, "--server", URL],
    ],
)
def test_an_option_without_one_address_is_a_mistake(words: list[str]) -> None:
    with pytest.raises(UsageError, match="--server needs"):
        take_server(words, _GROUPS)


def test_the_environment_names_a_server_for_what_can_be_remote(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("EKIDEN_SERVER", URL)
    assert take_server(["session", "list"], _GROUPS) == URL
    assert take_server(["config", "path"], _GROUPS) is None
    assert take_server(["session", "list", "--store", "x"], _GROUPS) is None
    with pytest.raises(UsageError, match="EKIDEN_SERVER"):
        take_server(["run", "hi", "--model", "x:y"], _GROUPS)


def test_a_server_that_is_not_there_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["session", "list", "--json", "--server", "ftp://x"]) == 2
    assert "client.misconfigured" in capsys.readouterr().err
