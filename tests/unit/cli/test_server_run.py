"""Running a session of a server at a terminal."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from ekiden.cli.errors import Exit, Interrupted
from ekiden.cli.prompts import Question, TerminalApprover
from ekiden.cli.run_follow import RemoteResult, RunFollower, ServerRun, WaitPolicy
from ekiden.cli.run_observer import RunView, problem_of
from ekiden.client import AsyncClient
from ekiden.core.documents import from_json
from ekiden.core.errors import SessionBusy
from ekiden.core.errors.server import Forbidden
from ekiden.core.runs import Run
from tests.support.cases import each_case
from tests.support.gates import OpenGate
from tests.support.relay_team import relay_team
from tests.support.serving import application, served


def run(status: str, **more: Any) -> Run:
    told = {"run_id": "s:1", "session_id": "s", "status": status, **more}
    found: Run = from_json(Run, told)
    return found


FAILURE = {"code": "model.failed", "message": "no answer"}


@each_case(
    ("found", "told"),
    [
        (run("done", output="42"), None),
        (run("waiting", questions=["i"]), ("run.waiting", "the session waits for people")),
        (run("waiting"), ("run.waiting", "the session waits for other agents")),
        (run("refused", error=FAILURE), ("model.refused", "the model refused: no answer")),
        (run("failed", error=FAILURE), ("model.failed", "no answer")),
        (run("out_of_budget"), ("run.out_of_budget", "the run is out_of_budget")),
        (run("stopped"), ("run.stopped", "the run is stopped")),
    ],
)
def test_an_outcome_of_the_server_is_printed_with_its_words(
    found: Run, told: tuple[str, str] | None
) -> None:
    assert problem_of(RemoteResult(found).outcome) == told


Captured = pytest.CaptureFixture[str]


class Person:
    """A person who types these answers."""

    def __init__(self, *answers: str | None) -> None:
        self.answers = list(answers)
        self.asked: list[Question] = []

    async def ask(self, asked: Question) -> str | None:
        self.asked.append(asked)
        return self.answers.pop(0)


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[AsyncClient]:
    store = str(tmp_path / "s.db")
    async with (
        application(tmp_path, store=store, team=relay_team(), gate=OpenGate()) as app,
        served(app) as url,
        AsyncClient(url, retries=0) as client,
    ):
        yield client


async def watched(
    client: AsyncClient, person: Person | None, text: str = "refund please", **options: Any
) -> int:
    """The exit code of the run in the session `s`, watched by this person."""
    observer = RunView(as_json=False, stream=False, how_to_resume="")
    run = ServerRun(
        ekiden=client.ekiden,
        observer=observer,
        approver=None if person is None else TerminalApprover(ask=person.ask),
        session_id="s",
        start=lambda on_busy: client.runs.stream(text, session_id="s", on_busy=on_busy),
        **options,
    )
    async with asyncio.timeout(60):
        return await RunFollower(run=run, observer=observer).watch(WaitPolicy())


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        (["y"], "1042 is paid back"),
        (["what?", "a"], "1042 is paid back"),
        (["e", '{"order": "7"}'], "7 is paid back"),
    ],
)
async def test_the_local_user_is_asked_about_tools_of_the_server(
    client: AsyncClient, capsys: Captured, answers: list[str], said: str
) -> None:
    person = Person(*answers)
    assert await watched(client, person) == Exit.OK
    assert capsys.readouterr().out.endswith(f"{said}\n")
    first = person.asked[0]
    assert (first.heading, first.line) == (
        "desk wants to run refund:",
        "[y]es, [n]o, [a]lways, [s]ession, [e]dit: ",
    )
    [item] = [each async for each in client.inbox.list(status="any")]
    assert (item.status, item.closed_by) == ("answered", "local")


async def test_a_rejection_or_end_of_input_rejects_the_tool(client: AsyncClient) -> None:
    assert await watched(client, Person(None)) == Exit.OK
    [item] = [each async for each in client.inbox.list(status="any")]
    assert item.answer is not None
    assert (item.answer.choice, item.answer.text) == ("reject", "the person declined")


async def test_without_a_terminal_the_question_waits_in_the_inbox(
    client: AsyncClient, capsys: Captured
) -> None:
    assert await watched(client, None) == Exit.WAITING
    assert "answer with: ekiden inbox answer inb_" in capsys.readouterr().err


async def test_ctrl_c_at_the_question_leaves_the_session_waiting(client: AsyncClient) -> None:
    asked = asyncio.Event()

    class Thinking(Person):
        async def ask(self, asking: Question) -> str | None:
            asked.set()
            await asyncio.Event().wait()
            return None

    task = asyncio.create_task(watched(client, Thinking()))
    await asked.wait()
    task.cancel()
    with pytest.raises(Interrupted, match="the session still waits"):
        await task
    assert (await client.runs.get("s:1")).status == "waiting"


async def test_a_question_the_key_may_not_answer_waits_in_the_inbox(
    client: AsyncClient, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Refused:
        """An inbox that may be read only."""

        get = staticmethod(client.inbox.get)

        async def answer(self, *args: Any, **options: Any) -> None:
            raise Forbidden("answer")

    monkeypatch.setattr(client.ekiden, "inbox", Refused())
    assert await watched(client, Person("y")) == Exit.WAITING
    told = capsys.readouterr().err
    assert "it waits in the inbox" in told
    assert "answer with: ekiden inbox answer inb_" in told


async def test_a_session_running_elsewhere_is_waited_for(
    client: AsyncClient, capsys: Captured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RELAY_FOLDER", str(tmp_path))
    await client.runs.start("hold:go on", session_id="s")
    with pytest.raises(SessionBusy):
        await watched(client, None, "and me", waits=False)
    waiting = asyncio.create_task(watched(client, None, "and me"))
    err = ""
    while "waiting for session s, which another process runs" not in err:
        await asyncio.sleep(0.01)
        err += capsys.readouterr().err
    (tmp_path / "go").touch()
    assert await waiting == Exit.OK
    assert capsys.readouterr().out == "you said: and me\n"
