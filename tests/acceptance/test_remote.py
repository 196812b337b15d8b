"""The command against a server, both as processes."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.conftest import Ekiden
from tests.support.forked import ForkedPopen

ROOT = Path(__file__).parents[2]


class Server:
    """`ekiden serve` with the relay team, in a folder of its own."""

    def __init__(self, folder: Path, *, env: dict[str, str] | None = None) -> None:
        self.folder = folder
        command = [sys.executable, "-m", "ekiden.cli", "serve", "--port", "0", "--json"]
        command += ["--team", "tests.support.relay_team:team", "--log", "none"]
        self.env = {
            **{name: value for name, value in os.environ.items() if name != "EKIDEN_SERVER"},
            "PYTHONPATH": str(ROOT),
            "RELAY_FOLDER": str(folder),
            "EKIDEN_STORE": str(folder / "s.db"),
            **(env or {}),
        }
        self.process = ForkedPopen(
            command,
            cwd=folder,
            env=self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.process.stderr and self.process.stderr.read()
        told = json.loads(line)
        self.url: str = told["url"]
        self.token: str = told["person_token"]

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(timeout=60)
        for stream in (self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()
        return code


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("server"))
    yield server
    assert server.stop() == 0


@pytest.fixture
def remote(ekiden: Ekiden, server: Server) -> Ekiden:
    """The command in an empty folder, which knows the server by its environment."""
    ekiden.env["EKIDEN_SERVER"] = server.url
    ekiden.env["EKIDEN_API_KEY"] = server.token
    return ekiden


def test_a_session_is_run_shown_and_removed(remote: Ekiden) -> None:
    told = remote("run", "hello there", "--session", "a", "--json")
    assert told.code == 0, told.err
    assert told.json["output"] == "you said: hello there"
    assert [each["session_id"] for each in remote("session", "list", "--json").json] == ["a"]
    assert "desk: you said: hello there" in remote("session", "show", "a").out
    assert remote("chain", "a").out.startswith("a: user → triage → desk")
    assert "transfer" in remote("trace", "a").out or "triage" in remote("trace", "a").out
    assert remote("session", "delete", "a", "--yes").code == 0
    assert remote("session", "show", "a").code == 5
    assert not list(remote.folder.iterdir()), "nothing is stored here"


@pytest.mark.slow
def test_the_installed_program_streams_a_run(remote: Ekiden) -> None:
    told = remote.really("run", "hello there", "--stream", "--json")
    lines = [json.loads(line) for line in told.out.splitlines()]
    assert "".join(line["delta"]["text"] for line in lines if "delta" in line) == (
        "you said: hello there"
    )
    numbers = [line["event"]["seq"] for line in lines if "event" in line]
    assert numbers == list(range(1, len(numbers) + 1))
    assert lines[-1]["result"]["outcome"] == "done"


def test_a_question_is_answered_from_another_terminal(remote: Ekiden) -> None:
    waiting = remote.start("run", "refund please", "--session", "q", "--wait", "--json")
    assert waiting.stderr is not None
    asked = json.loads(waiting.stderr.readline())["waiting"]["waiting_for"][0]
    assert remote("inbox", "answer", asked["id"], asked["options"][0]).code == 0
    out, err = waiting.communicate(timeout=60)
    assert waiting.returncode == 0, err
    assert json.loads(out)["output"] == "1042 is paid back"


def test_ctrl_c_stops_the_run_and_its_session_can_be_resumed(
    remote: Ekiden, server: Server
) -> None:
    running = remote.start("run", "hold:later", "--session", "held", "--stream", "--json")
    assert running.stdout is not None
    assert json.loads(running.stdout.readline())["event"]["seq"] == 1
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=60)
    assert running.returncode == 130
    assert "ekiden session resume held" in err
    found = remote("session", "show", "held", "--json").json
    assert (found["status"], found["owner"]) == ("idle", None)
    (server.folder / "later").touch()
    told = remote("session", "resume", "held", "--json")
    assert told.code == 0, told.err
    assert told.json["output"] == "you said: hold:later"


@pytest.mark.slow
def test_events_are_watched_until_ctrl_c(remote: Ekiden) -> None:
    watching = remote.start("watch", "--session", "seen", "--json")
    assert watching.stderr is not None
    assert watching.stdout is not None
    assert "watching" in json.loads(watching.stderr.readline())
    remote("run", "hi", "--session", "seen")
    first = json.loads(watching.stdout.readline())
    assert (first["session_id"], first["seq"]) == ("seen", 1)
    watching.send_signal(signal.SIGINT)
    _, err = watching.communicate(timeout=60)
    assert watching.returncode == 130
    assert json.loads(err.splitlines()[-1])["after"]


@pytest.mark.slow
def test_chat_works_through_a_pipe(remote: Ekiden) -> None:
    told = remote("chat", "--session", "piped", input=b"hello\n/agents\nagain\n")
    assert told.code == 0, told.err
    assert "you said: hello" in told.out
    assert "triage" in told.out
    assert "you said: again" in told.out


@pytest.mark.slow
def test_chat_at_a_terminal_shows_questions_to_people(remote: Ekiden) -> None:
    chat = Terminal(remote)
    chat.until("/help")
    chat.type("refund please")
    chat.until("(nothing: later):")
    chat.type("approve")
    chat.until("1042 is paid back")
    chat.type("/quit")
    assert chat.end() == 0


@pytest.mark.slow
def test_an_unreachable_server_is_an_error(ekiden: Ekiden) -> None:
    told = ekiden("session", "list", "--json", "--server", "http://127.0.0.1:1")
    assert told.code == 7
    assert told.error["code"] == "client.unavailable"


def test_a_server_with_keys_requires_a_key(ekiden: Ekiden, tmp_path: Path) -> None:
    folder = tmp_path / "locked"
    folder.mkdir()
    store = str(folder / "s.db")
    key = ekiden("keys", "create", "me", "--scope", "read", "--store", store, "--json").json["key"]
    server = Server(folder)
    try:
        told = ekiden("session", "list", "--json", "--server", server.url)
        assert told.code != 0
        assert told.error["code"] == "auth.required"
        told = ekiden("session", "list", "--server", server.url, EKIDEN_API_KEY=key)
        assert (told.code, told.out) == (0, "no sessions\n")
        (tmp_path / "key").write_text(key)
        file = str(tmp_path / "key")
        told = ekiden("run", "hi", "--server", server.url, EKIDEN_API_KEY_FILE=file)
        assert "error[auth.scope]" in told.err
        assert key not in told.err
    finally:
        assert server.stop() == 0


class Terminal:
    """A chat at a terminal that can only print."""

    def __init__(self, ekiden: Ekiden) -> None:
        self._master, slave = pty.openpty()
        self._process = ForkedPopen(
            [sys.executable, "-m", "ekiden.cli", "chat"],
            cwd=ekiden.folder,
            env={**ekiden.env, "TERM": "dumb", "HOME": str(ekiden.folder)},
            stdin=slave,
            stdout=slave,
            stderr=slave,
        )
        os.close(slave)
        self._seen = b""

    def type(self, text: str) -> None:
        os.write(self._master, f"{text}\n".encode())

    def until(self, text: str) -> None:
        while text.encode() not in self._seen:
            ready, _, _ = select.select([self._master], [], [], 30)
            assert ready, self._seen.decode()
            self._seen += os.read(self._master, 65536)
        self._seen = self._seen.partition(text.encode())[2]

    def end(self) -> int:
        while True:
            try:
                if not os.read(self._master, 65536):
                    break
            except OSError:
                break
        os.close(self._master)
        return self._process.wait(timeout=60)
