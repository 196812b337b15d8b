"""An agent wants to delete a folder, and the person says no: nothing is run, and it goes on."""

from __future__ import annotations

import asyncio
import os
import pty
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

from ekiden.testing import call, say
from ekiden.testing.servers.openai import OpenAIServer
from tests.acceptance.conftest import COMMAND, Project, Ran
from tests.acceptance.test_asking_people import ended, waiting
from tests.support import forked
from tests.support.forked import ForkedPopen

DELETE = "rm -rf precious"
ANSWER = "I have left precious alone."
REQUEST = "@cleaner clear up, please"
PROGRAM = """
import asyncio, sys
from ekiden import Approval, RunConfig, Runner, load_project
from ekiden.project import open_store
from ekiden.sessions import Session

class Clerk:
    async def approve(self, request):
        assert request.tool == "shell" and "rm -rf precious" in request.prompt
        return Approval(approved=False, by="mira", reason="we need it")

async def main():
    async with load_project() as project, open_store(".ekiden/ekiden.db") as store:
        result = await Runner.run(
            project.team,
            "clear up, please",
            to="cleaner",
            session=Session("s1", store=store),
            run_config=RunConfig(approver=Clerk()),
        )
        print(result.final_output)

asyncio.run(main())
"""


class Desk:
    """A project whose agent `cleaner` may use `rm`, and the folder that it is after."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.begun = time.time()
        self.precious = project.folder / "precious"
        self.precious.mkdir()
        (self.precious / "diary.txt").write_text("日記")
        project.agent(
            "cleaner",
            "---\nname: cleaner\nmodel: openai:test\n"
            "tools: {allow: [shell], confirmation: {timeout: 600}}\n---\nYou clear up.\n",
        )
        project.settings('{"tools": {"shell": {"allow": ["rm"]}}}')

    def connect(self, server: OpenAIServer) -> None:
        """Let the model be the one at `server`."""
        self.project.ekiden.env.update(OPENAI_BASE_URL=server.base_url, OPENAI_API_KEY="any")

    @property
    def is_whole(self) -> bool:
        return (self.precious / "diary.txt").read_text() == "日記"

    def decision(self) -> dict[str, Any]:
        """The one decision in the audit, which must be unbroken."""
        assert self.project("audit", "verify").code == 0
        (record,) = self.project(
            "audit", "list", "--session", "s1", "--type", "tool_confirmation", "--json"
        ).json
        return dict(record)


@pytest.fixture
def desk(project: Project) -> Desk:
    return Desk(project)


def steps() -> Iterator[Any]:
    yield call("shell", command=DELETE)
    yield say(ANSWER)


def told(server: OpenAIServer) -> str:
    """The result of its call that the model got."""
    (output,) = [
        item["output"]
        for item in server.requests[-1].body["input"]
        if item.get("type") == "function_call_output"
    ]
    return str(output)


def refused(desk: Desk, server: OpenAIServer, out: str, *, by: str, reason: str) -> None:
    """Nothing was run, the model knows why and went on, and the audit has who and when."""
    assert desk.is_whole
    assert out == f"{ANSWER}\n"
    assert "The tool was not run" in told(server)
    assert reason in told(server)
    record = desk.decision()
    assert (record["facts"]["approved"], record["actor"]["name"]) == (False, by)
    assert (record["from"], record["facts"]["tool"]) == ("cleaner", "shell")
    assert reason in record["reason"]
    assert desk.begun <= record["timestamp"] <= time.time()


async def test_a_deletion_rejected_in_the_inbox_of_another_terminal_is_not_run(desk: Desk) -> None:
    async with OpenAIServer(steps()) as server:
        desk.connect(server)
        process = desk.project.ekiden.start(
            "run", "--session", "s1", "--approve", "inbox", "--wait", REQUEST
        )
        item = await asyncio.to_thread(waiting, process)
        shown = desk.project("inbox", "show", item, "--json").json
        assert DELETE in shown["body"]
        assert desk.is_whole
        answer = ["inbox", "answer", item, "reject", "--by", "美咲", "--text", "大事です"]
        answered = await asyncio.to_thread(desk.project, *answer)
        assert answered.code == 0
        code, out = await asyncio.to_thread(ended, process)
    assert code == 0
    refused(desk, server, out, by="美咲", reason="大事です")
    again = desk.project("inbox", "answer", item, "approve", "--by", "ken")
    assert (again.code, "美咲" in again.err) == (1, True)
    assert desk.is_whole


def at_a_terminal(desk: Desk, answer: bytes) -> tuple[int, str, bytes]:
    """Run the command for a person who types `answer` when asked."""
    mine, theirs = pty.openpty()
    running = ForkedPopen(
        [*COMMAND, "run", "--session", "s1", REQUEST],
        cwd=desk.project.folder,
        env=desk.project.ekiden.env,
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=theirs,
    )
    os.close(theirs)
    asked = b""
    while b"[y]es, [n]o" not in asked:
        asked += os.read(mine, 4096)
    for line in answer.splitlines(keepends=True):
        while not asked.rstrip().endswith(b":"):
            asked += os.read(mine, 4096)
        os.write(mine, line)
        asked += os.read(mine, 4096)
    out, _ = running.communicate(timeout=60)
    os.close(mine)
    return running.returncode, out.decode(), asked


@pytest.mark.slow
async def test_a_deletion_rejected_at_the_terminal_is_not_run(desk: Desk) -> None:
    async with OpenAIServer(steps()) as server:
        desk.connect(server)
        code, out, asked = await asyncio.to_thread(at_a_terminal, desk, b"n\n")
    assert code == 0
    assert DELETE.encode() in asked
    refused(desk, server, out, by="terminal", reason="the person declined")


@pytest.mark.slow
async def test_an_approved_deletion_is_run(desk: Desk) -> None:
    async with OpenAIServer(steps()) as server:
        desk.connect(server)
        code, _, _ = await asyncio.to_thread(at_a_terminal, desk, b"y\n")
    assert code == 0
    assert not desk.precious.exists()
    assert desk.decision()["facts"]["approved"] is True


@pytest.mark.slow
async def test_a_person_may_edit_the_command_that_deletes(desk: Desk) -> None:
    (desk.project.folder / "rubbish").mkdir()
    async with OpenAIServer(steps()) as server:
        desk.connect(server)
        typed = b'e\n{"command": "rm -rf rubbish"}\n'
        code, _, _ = await asyncio.to_thread(at_a_terminal, desk, typed)
    assert code == 0
    assert desk.is_whole
    assert not (desk.project.folder / "rubbish").exists()
    assert 'The person changed the arguments to {"command": "rm -rf rubbish"}' in told(server)
    assert desk.decision()["facts"]["edited"] is True


@pytest.mark.slow
async def test_a_deletion_is_refused_where_approval_is_impossible(desk: Desk) -> None:
    async with OpenAIServer(steps()) as server:
        desk.connect(server)
        ran: Ran = await asyncio.to_thread(
            desk.project, "run", "--session", "s1", REQUEST, input=b"y\n"
        )
    assert ran.code == 0
    refused(desk, server, ran.out, by="nobody", reason="approval is not possible here")


@pytest.mark.slow
async def test_a_deletion_rejected_by_a_program_is_not_run(desk: Desk) -> None:
    (desk.project.folder / "program.py").write_text(PROGRAM)
    async with OpenAIServer(steps()) as server:
        desk.connect(server)
        ran = await asyncio.to_thread(
            forked.run,
            [sys.executable, "program.py"],
            cwd=desk.project.folder,
            env=desk.project.ekiden.env,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=60,
        )
    assert (ran.returncode, ran.stderr) == (0, "")
    refused(desk, server, ran.stdout, by="mira", reason="we need it")
