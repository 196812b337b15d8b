"""`ekiden serve` as a process: signals, restarts, kills."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.support import forked
from tests.support.forked import ForkedPopen

ROOT = Path(__file__).parents[2]


class Served:
    """A server process with the relay team, in a folder of its own."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder = folder
        command = [sys.executable, "-m", "ekiden.cli", "serve", "--port", "0", "--json"]
        command += ["--team", "tests.support.relay_team:team", "--log", "none", *options]
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "RELAY_FOLDER": str(folder),
            "EKIDEN_STORE": str(folder / "s.db"),
        }
        self.process = ForkedPopen(
            command,
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.process.stderr and self.process.stderr.read()
        self.told = json.loads(line)
        headers = {"Authorization": f"Bearer {self.told['person_token']}"}
        self.client = httpx2.Client(base_url=self.told["url"], headers=headers, timeout=60)

    def post(self, path: str, **body: Any) -> httpx2.Response:
        return self.client.post(f"/api/v1{path}", json=body)

    def run(self, run_id: str, wait_s: float = 15) -> dict[str, Any]:
        answer = self.client.get(f"/api/v1/runs/{run_id}", params={"wait_s": wait_s})
        record: dict[str, Any] = answer.json()
        return record

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.client.close()
        self.process.send_signal(number)
        return self.process.wait(timeout=60)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Any]:
    servers: list[Served] = []

    def make(*options: str) -> Served:
        servers.append(Served(tmp_path, *options))
        return servers[-1]

    yield make
    for server in servers:
        server.client.close()
        if server.process.poll() is None:
            server.process.kill()
            server.process.wait()
        for pipe in (server.process.stdout, server.process.stderr):
            if pipe is not None:
                pipe.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_serve_runs_until_a_signal_stops_it(start: Any, number: int) -> None:
    server = start()
    assert server.client.get("/readyz").json()["status"] == "ok"
    assert server.post("/runs", input="hello", session_id="a").json()["status"] == "done"
    assert server.stop(number) == 0


@pytest.mark.slow
def test_a_run_in_progress_at_shutdown_is_continued_by_the_next_server(
    start: Any, tmp_path: Path
) -> None:
    first = start()
    begun = first.post("/runs", input="hello hold:go", session_id="a", background=True)
    assert begun.status_code == 202
    assert first.stop() == 0
    (tmp_path / "go").touch()
    record = start().run("a:1")
    assert (record["status"], record["output"]) == ("done", "you said: hello hold:go")


def test_a_run_in_progress_at_a_kill_is_continued_by_the_next_server(
    start: Any, tmp_path: Path
) -> None:
    first = start()
    begun = first.post("/runs", input="please refund it", session_id="a")
    [question] = begun.json()["questions"]
    first.stop(signal.SIGKILL)
    second = start()
    assert second.run("a:1", wait_s=0)["status"] == "waiting"
    answered = second.post(f"/inbox/{question}/answer", choice="approve")
    assert answered.status_code == 200, answered.text
    assert second.run("a:1")["output"] == "1042 is paid back"
    assert (tmp_path / "refunds.log").read_text() == "1042\n"


@pytest.mark.slow
def test_a_stream_ends_at_shutdown_and_resumes_at_the_next_server(
    start: Any, tmp_path: Path
) -> None:
    first = start()
    body = {"input": "hello hold:go", "stream": True, "session_id": "a"}
    seen: list[int] = []
    with first.client.stream("POST", "/api/v1/runs", json=body) as response:
        for line in response.iter_lines():
            if line.startswith("id: "):
                seen.append(int(line[4:]))
            if len(seen) == 2 and first.process.poll() is None:
                first.process.send_signal(signal.SIGTERM)
                seen.append(0)
            assert not line.startswith("event: end")
    seen.remove(0)
    assert first.process.wait(timeout=60) == 0
    (tmp_path / "go").touch()
    second = start()
    headers = {"Last-Event-ID": str(seen[-1])}
    with second.client.stream("GET", "/api/v1/runs/a:1/events", headers=headers) as response:
        lines = list(response.iter_lines())
    seen += [int(line[4:]) for line in lines if line.startswith("id: ")]
    assert seen == list(range(1, len(seen) + 1))
    assert "event: end" in lines


@pytest.mark.slow
def test_a_server_without_workers_leaves_runs_to_other_workers(start: Any) -> None:
    lazy = start("--workers", "0")
    assert lazy.post("/runs", input="hello", session_id="a", background=True).status_code == 202
    assert lazy.run("a:1", wait_s=0.2)["status"] == "queued"
    assert start().run("a:1")["status"] == "done"
    assert lazy.run("a:1", wait_s=5)["status"] == "done"


def test_a_port_in_use_is_reported(start: Any, tmp_path: Path) -> None:
    port = start().told["url"].rpartition(":")[2]
    again = forked.run(
        [sys.executable, "-m", "ekiden.cli", "serve", "--port", port, "--json"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert again.returncode == 2
    assert "cannot listen" in json.loads(again.stderr)["error"]["message"]


@pytest.mark.slow
def test_with_reload_the_server_restarts_when_an_agent_file_changes(tmp_path: Path) -> None:
    agents = tmp_path / ".ekiden" / "agents"
    agents.mkdir(parents=True)
    file = agents / "helper.md"
    file.write_text("---\nname: helper\ndescription: Helps.\nmodel: demo:offline\n---\nHelp.\n")
    command = [sys.executable, "-m", "ekiden.cli", "serve", "--port", "0", "--json", "--reload"]
    command += ["--log", "none"]
    process = ForkedPopen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        url = json.loads(process.stdout.readline())["url"]
        with httpx2.Client(base_url=url, timeout=60) as client:
            assert client.post(
                "/api/v1/runs", json={"input": "x", "agent": "other"}
            ).status_code == (404)
            file.with_name("other.md").write_text(
                "---\nname: other\ndescription: Another.\nmodel: demo:offline\n---\nHelp.\n"
            )
            assert json.loads(process.stdout.readline())["url"] == url
            answer = client.post("/api/v1/runs", json={"input": "x", "agent": "other"})
            assert answer.status_code == 200, answer.text
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 0
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()
