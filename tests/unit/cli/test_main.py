"""The door: parsing, errors and exit codes, in this process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ekiden import __version__
from ekiden.cli.main import main, wants_json
from ekiden.cli.parser.parser import build

Captured = pytest.CaptureFixture[str]


def test_the_version_is_one_line(capsys: Captured) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"ekiden {__version__}\n"


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"]])
def test_help_lists_the_commands(arguments: list[str], capsys: Captured) -> None:
    assert main(arguments) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in ("run", "session", "chain", "doctor", "bench"))


@pytest.mark.parametrize("command", ["run", "chain", "doctor", "bench"])
def test_every_command_explains_itself_and_has_json(command: str, capsys: Captured) -> None:
    assert main([command, "--help"]) == 0
    assert "--json" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["list", "show", "resume", "export", "delete"])
def test_every_session_command_explains_itself_and_has_json(command: str, capsys: Captured) -> None:
    assert main(["session", command, "--help"]) == 0
    assert "--json" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments",
    [
        ["frobnicate"],
        ["run"],
        ["run", "hi", "--bogus"],
        ["run", "hi", "--max-turns", "0"],
        ["run", "hi", "--max-turns", "many"],
        ["session", "list", "--limit", "0"],
        ["session", "list", "--state", "asleep"],
        ["session", "show"],
        ["bench", "s9"],
    ],
)
def test_a_wrong_command_line_is_exit_2(arguments: list[str], capsys: Captured) -> None:
    assert main(arguments) == 2
    shown = capsys.readouterr()
    assert shown.err.startswith("error[cli.usage]: ")
    assert shown.out == ""


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["run", "hi", "--agent", "x"], "there is no option --agent. `ekiden run --help`"),
        (["run", "hi", "--sesion=x"], "no option --sesion. Did you mean --session? `ekiden run "),
        (["run"], "the argument TEXT is missing. `"),
        (["run", "hi", "--session"], "--session needs a value. `"),
        (["handoff", "start", "s"], "--to is missing. `ekiden handoff start --help`"),
        (["session", "resme"], "`ekiden session --help` lists the commands"),
        (["frobnicate"], "`ekiden --help` lists the commands"),
    ],
)
def test_a_wrong_argument_is_named(arguments: list[str], told: str, capsys: Captured) -> None:
    assert main(arguments) == 2
    assert told in capsys.readouterr().err


def test_surplus_arguments_are_named(capsys: Captured) -> None:
    assert main(["completion", "show", "bash"]) == 2
    told = capsys.readouterr().err
    assert told.startswith("error[cli.usage]: too many arguments: 'bash'. `ekiden completion show ")


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "--max-tokens", "1.5", "hello"],
        ["session", "list", "--limit=2.5"],
        ["message", "list", "--limit", "7."],
        ["state", "show", "s", "--at", "1.5"],
        ["worker", "--concurrency", "0.5"],
    ],
)
def test_a_fraction_is_not_a_whole_number(arguments: list[str], capsys: Captured) -> None:
    assert main(arguments) == 2
    assert "unable to convert" in capsys.readouterr().err


def test_errors_are_json_when_json_was_asked_for(capsys: Captured) -> None:
    assert main(["run", "--json"]) == 2
    error = json.loads(capsys.readouterr().err)["error"]
    assert error["code"] == "cli.usage"


def test_text_after_a_double_dash_is_not_an_option() -> None:
    assert not wants_json(["run", "--", "--json"])
    assert wants_json(["session", "list", "--json-lines"])


def test_an_internal_error_exits_with_70_without_a_traceback(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> None:
        raise RuntimeError("oh")

    monkeypatch.delenv("EKIDEN_DEBUG", raising=False)
    monkeypatch.setattr("ekiden.cli.main.build", broken)
    assert main(["doctor"]) == 70
    assert capsys.readouterr().err == (
        "error[cli.internal]: RuntimeError: oh (EKIDEN_DEBUG=1 shows where)\n"
    )


def test_debugging_shows_the_traceback(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EKIDEN_DEBUG", "1")
    assert main(["frobnicate"]) == 2
    assert "Traceback" in capsys.readouterr().err


def test_ctrl_c_at_the_start_exits_with_130(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("ekiden.cli.main.build", interrupted)
    assert main(["doctor"]) == 130
    assert capsys.readouterr().err == "error[cli.interrupted]: stopped\n"


def test_the_parser_has_the_name_of_the_command() -> None:
    assert build().name == ("ekiden",)


def test_help_and_version_load_no_command_and_nothing_heavy(tmp_path: Path) -> None:
    code = (
        "import sys; from ekiden.cli.main import main; main([sys.argv[1]]); "
        "heavy = ('pydantic', 'apsw', 'asyncpg', 'openai', 'ekiden.runtime', 'ekiden.project'); "
        "print([name for name in heavy if name in sys.modules], file=sys.stderr)"
    )
    for option in ("--help", "--version"):
        done = subprocess.run(
            [sys.executable, "-c", code, option],
            capture_output=True,
            check=True,
            cwd=tmp_path,
            text=True,
            env=dict(os.environ),
        )
        assert done.stderr.strip() == "[]"


@pytest.mark.parametrize(
    "words", [["session", "list", "--user", "a\udcff"], ["run", "hi", "--store=\udcff.db"]]
)
def test_arguments_that_are_not_utf_8_are_refused_before_any_effect(
    words: list[str],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    assert "cli.bad_input" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("closed", "code"), [(">&-", 0), ("2>&- <&- nope", 2), (">&- 2>&-", 0)])
def test_closed_standard_streams_do_not_fail_a_command(
    tmp_path: Path, closed: str, code: int
) -> None:
    command = f'"$0" -m ekiden.cli config path {closed}'
    done = subprocess.run(
        ["sh", "-c", command, sys.executable], capture_output=True, cwd=tmp_path, check=False
    )
    assert (done.returncode, done.stderr) == (code, b"")
