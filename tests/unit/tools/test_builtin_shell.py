"""`shell`: one allowed program at a time, in the project's folder, and nothing of it stays."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from ekiden.core.errors import ToolError
from ekiden.tools.builtin import builtin_tools
from ekiden.tools.builtin.shell import ShellPrograms, scrubbed_environment, split_command
from ekiden.tools.settings import ShellToolSettings, ToolSettings
from tests.unit.tools.conftest import Run


def programs(root: Path, *allow: str, timeout: float = 30, max_bytes: int = 1000) -> ShellPrograms:
    settings = ShellToolSettings(allow=allow, timeout=timeout, max_bytes=max_bytes)
    return ShellPrograms(root, settings)


def script(root: Path, text: str) -> str:
    """A command that runs a piece of Python."""
    (root / "script.py").write_text(text)
    return f"{sys.executable} script.py"


def is_alive(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return status.rpartition(")")[2].split()[0] not in ("Z", "X")


async def until_dead(pid: int) -> None:
    async with asyncio.timeout(60):
        while is_alive(pid):  # noqa: ASYNC110 - another process tells nobody
            await asyncio.sleep(0.01)


class TestRunning:
    async def test_output_and_exit_code_are_returned(self, tmp_path: Path) -> None:
        shell = programs(tmp_path, "echo", "false").shell
        assert await shell("echo 'a  b' \"c;d\" e\\ f") == "a  b c;d e f\n[exit code 0]"
        assert await shell("false") == "[exit code 1]"

    async def test_stdout_and_stderr_keep_their_order(self, tmp_path: Path) -> None:
        command = script(
            tmp_path,
            "import os\nfor n in range(6): os.write(1 + n % 2, b'%d ' % n)\nraise SystemExit(3)",
        )
        shown = await programs(tmp_path, sys.executable).shell(command)
        assert shown == "0 1 2 3 4 5 \n[exit code 3]"

    async def test_a_program_runs_in_the_project_folder_without_input(self, tmp_path: Path) -> None:
        command = script(tmp_path, "import os, sys\nprint(os.getcwd(), repr(sys.stdin.read()))")
        shown = await programs(tmp_path, sys.executable).shell(command)
        assert shown.startswith(f"{os.path.realpath(tmp_path)} ''")

    async def test_long_output_keeps_its_beginning_and_its_end(self, tmp_path: Path) -> None:
        command = script(tmp_path, "print('a' * 5000 + 'é' * 5000 + 'z' * 100)")
        shown = await programs(tmp_path, sys.executable, max_bytes=100).shell(command)
        head, note, tail = shown.split("\n")[:3]
        assert head == "a" * 50
        assert note == "[… 15,001 bytes left out …]"
        assert tail == "z" * 49

    async def test_undecodable_output_is_escaped(self, tmp_path: Path) -> None:
        command = script(tmp_path, "import os\nos.write(1, b'\\xff\\x00ok')")
        assert "ok" in await programs(tmp_path, sys.executable).shell(command)

    async def test_a_killed_program_reports_its_signal(self, tmp_path: Path) -> None:
        command = script(tmp_path, "import os\nos.kill(os.getpid(), 11)")
        shown = await programs(tmp_path, sys.executable).shell(command)
        assert shown == "[ended by SIGSEGV]"
        command = script(tmp_path, "import os\nos.kill(os.getpid(), 40)")
        assert await programs(tmp_path, sys.executable).shell(command) == "[ended by signal 40]"

    async def test_a_program_path_is_relative_to_the_project(self, tmp_path: Path) -> None:
        (tmp_path / "run.sh").write_text("#!/bin/sh\necho here")
        (tmp_path / "run.sh").chmod(0o755)
        assert await programs(tmp_path, "./run.sh").shell("./run.sh") == "here\n[exit code 0]"


class TestStopping:
    WAIT = "import signal\n{ignore}\nprint('up', flush=True)\nsignal.pause()"

    async def test_a_timeout_stops_the_whole_process_group(self, tmp_path: Path) -> None:
        (tmp_path / "script.sh").write_text("sleep 600 & echo $!; wait")
        with pytest.raises(ToolError, match="took longer than 2 s; it had written") as stopped:
            await programs(tmp_path, "sh", timeout=2).shell("sh script.sh")
        await until_dead(int(str(stopped.value).split()[-1]))

    async def test_a_program_that_ignores_sigterm_is_killed(self, tmp_path: Path) -> None:
        ignore = "signal.signal(signal.SIGTERM, signal.SIG_IGN)"
        command = script(tmp_path, self.WAIT.format(ignore=ignore))
        with pytest.raises(ToolError, match="took longer"):
            await programs(tmp_path, sys.executable, timeout=0.3).shell(command)

    async def test_cancelling_the_call_stops_the_program(self, tmp_path: Path) -> None:
        command = script(
            tmp_path,
            "import os, time\nopen('pid.new', 'w').write(str(os.getpid()))\n"
            "os.rename('pid.new', 'pid')\ntime.sleep(600)",
        )
        task = asyncio.create_task(programs(tmp_path, sys.executable).shell(command))
        async with asyncio.timeout(60):
            while not (tmp_path / "pid").exists():  # noqa: ASYNC110 - a file tells nobody
                await asyncio.sleep(0.01)
        pid = int((tmp_path / "pid").read_text())
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not is_alive(pid)

    async def test_processes_left_by_a_program_are_stopped_and_not_waited_for(
        self, tmp_path: Path
    ) -> None:
        command = script(
            tmp_path,
            "import subprocess, sys\n"
            "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
            "print(child.pid)",
        )
        async with asyncio.timeout(60):
            shown = await programs(tmp_path, sys.executable).shell(command)
        await until_dead(int(shown.split()[0]))

    async def test_a_daemon_that_keeps_the_pipe_open_is_not_waited_for(
        self, tmp_path: Path
    ) -> None:
        command = script(
            tmp_path,
            "import subprocess, sys\n"
            "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'],\n"
            "    start_new_session=True)\n"
            "print(child.pid)",
        )
        async with asyncio.timeout(60):
            shown = await programs(tmp_path, sys.executable).shell(command)
        os.kill(int(shown.split()[0]), 9)


class TestRefusing:
    async def test_an_empty_allow_list_allows_nothing_and_the_error_has_advice(
        self, tmp_path: Path, run: Run
    ) -> None:
        result = await run(builtin_tools(tmp_path, ToolSettings())["shell"], command="git status")
        assert result.output == (
            "Error: 'git' is not among the programs that may be run (none so far); a person can "
            "allow it: ekiden config set tools.shell.allow '[\"git\"]'"
        )

    @pytest.mark.parametrize(
        "command", ["rm -rf .", "/usr/bin/git status", "./git", "GIT status", "A=1 git status"]
    )
    async def test_only_the_listed_programs_are_run(self, tmp_path: Path, command: str) -> None:
        with pytest.raises(ToolError, match="is not among the programs that may be run"):
            await programs(tmp_path, "git").shell(command)

    @pytest.mark.parametrize(
        ("command", "found"),
        [
            ("git log | head", "'|'"),
            ("git log > x", "'>'"),
            ("git log < x", "'<'"),
            ("git log; rm x", "';'"),
            ("git log && rm x", "'&'"),
            ("git log &", "'&'"),
            ("git log `id`", "'`'"),
            ('git log "`id`"', "'`'"),
            ("git log $(id)", r"a variable or $(…)"),
            ('git log "$HOME"', "a variable"),
            ("git log ${HOME}", "a variable"),
            ("(git log)", "'('"),
            ("git log\nrm x", "a line break"),
        ],
    )
    def test_shell_syntax_is_refused(self, command: str, found: str) -> None:
        with pytest.raises(ToolError) as refused:
            split_command(command)
        assert f"no shell here for {found}" in str(refused.value)

    @pytest.mark.parametrize(
        ("command", "arguments"),
        [
            ("git grep 'a|b; $(x) `y`'", ["git", "grep", "a|b; $(x) `y`"]),
            ('git grep "a|b; c > d"', ["git", "grep", "a|b; c > d"]),
            (r"git grep a\;b", ["git", "grep", "a;b"]),
            ("git commit -m 'costs $5'\n", ["git", "commit", "-m", "costs $5"]),
            ('echo "it\'s" $5 #x *.py', ["echo", "it's", "$5", "#x", "*.py"]),
            ("git add 日本語.md", ["git", "add", "日本語.md"]),
        ],
    )
    def test_quoted_arguments_are_taken_literally(self, command: str, arguments: list[str]) -> None:
        assert split_command(command) == arguments

    @pytest.mark.parametrize("command", ["", "   ", "''", "git 'log", "git \0", "x" * 30_000])
    def test_an_invalid_command_is_refused(self, command: str) -> None:
        with pytest.raises(ToolError):
            split_command(command)

    async def test_a_program_that_cannot_be_started_is_reported(self, tmp_path: Path) -> None:
        shell = programs(tmp_path, "no-such-program", "./plain.txt").shell
        with pytest.raises(ToolError, match="may be run, but is not installed"):
            await shell("no-such-program")
        (tmp_path / "plain.txt").write_text("x")
        with pytest.raises(ToolError, match="cannot be run"):
            await shell("./plain.txt")
        with pytest.raises(ToolError, match="cannot be run"):
            await programs(tmp_path / "gone", "echo").shell("echo")

    async def test_a_project_program_does_not_replace_an_installed_one(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "echo").write_text("#!/bin/sh\nprintf wrong")
        (tmp_path / "echo").chmod(0o755)
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("PATH", os.pathsep.join([".", "", os.environ["PATH"]]))
        assert await programs(tmp_path, "echo").shell("echo right") == "right\n[exit code 0]"


def test_a_program_gets_no_environment_variable_with_a_secret() -> None:
    given = {
        "PATH": f"/bin{os.pathsep}.{os.pathsep}",
        "HOME": "/home/ada",
        "LC_ALL": "C.UTF-8",
        "OPENAI_API_KEY": "secret",
        "MY_PATH": "x",
        "AWS_SESSION_TOKEN": "secret",
        "LD_PRELOAD": "evil.so",
        "SSH_AUTH_SOCK": "/run/agent",
    }
    kept = scrubbed_environment(given)
    assert kept == {
        "PATH": "/bin",
        "HOME": "/home/ada",
        "LC_ALL": "C.UTF-8",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_PAGER": "cat",
        "PAGER": "cat",
    }
