"""The team as an A2A agent, spoken with by the official client over a real socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from a2a.client import Client, ClientConfig, ClientFactory
from a2a.helpers.proto_helpers import new_data_part, new_text_message
from a2a.types import (
    CancelTaskRequest,
    GetTaskRequest,
    ListTasksRequest,
    Message,
    Part,
    Role,
    SendMessageConfiguration,
    SendMessageRequest,
    StreamResponse,
    SubscribeToTaskRequest,
    Task,
    TaskPushNotificationConfig,
    TaskState,
)
from a2a.utils.errors import (
    A2AError,
    ContentTypeNotSupportedError,
    InvalidParamsError,
    PushNotificationNotSupportedError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnsupportedOperationError,
)
from fastapi import FastAPI

from ekiden import Agent, Team
from ekiden.core.current_agent import AGENT_HEADER
from ekiden.testing import ScriptedModel, fail, say
from tests.support.gates import TokenGate, caller
from tests.support.relay_team import relay_team
from tests.support.serving import application, served

GATE = TokenGate(
    all=caller("安娜", "read", "run", "answer"),
    asks=caller("asks", "read", "run"),
    reads=caller("reads", "read"),
    other=caller("other", "read", "run", "answer", tenant="other"),
)


@dataclass
class Served:
    url: str
    app: FastAPI
    folder: Path
    """Where the file is that lets a model go on which a message holds."""

    @asynccontextmanager
    async def client(
        self, token: str = "all", *, path: str = "", binding: str = "JSONRPC", **config: Any
    ) -> AsyncIterator[Client]:
        headers = {"Authorization": f"Bearer {token}", **config.pop("headers", {})}
        async with httpx.AsyncClient(headers=headers, timeout=60) as http:
            made = ClientConfig(
                httpx_client=http,
                supported_protocol_bindings=[binding],
                use_client_preference=True,
                **config,
            )
            yield await ClientFactory(made).create_from_url(self.url + path)


@pytest.fixture
async def team(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Served]:
    monkeypatch.setenv("RELAY_FOLDER", str(tmp_path))
    store = str(tmp_path / "s.db")
    async with (
        application(tmp_path, team=relay_team(), store=store, gate=GATE) as app,
        served(app) as url,
    ):
        yield Served(url, app, tmp_path)


def message(text: str, **fields: str) -> SendMessageRequest:
    made = new_text_message(text, role=Role.ROLE_USER)
    for name, value in fields.items():
        setattr(made, name, value)
    return SendMessageRequest(message=made)


async def sent(client: Client, request: SendMessageRequest) -> list[StreamResponse]:
    return [each async for each in client.send_message(request)]


async def followed(team: Served, client: Client, text: str, **fields: str) -> list[StreamResponse]:
    """What a stream shows of a run whose text has `hold:go`: models go on when the task was shown.

    A run that is over before the task is read has nothing else to show.
    """
    go = team.folder / "go"
    go.unlink(missing_ok=True)
    found = []
    async for each in client.send_message(message(text, **fields)):
        found.append(each)
        go.touch()
    return found


async def task_of(client: Client, request: SendMessageRequest) -> Task:
    """Sent without a stream."""
    [answer] = await sent(client, request)
    assert answer.HasField("task")
    return answer.task


def answer_of(task: Task) -> str:
    return "".join(part.text for artifact in task.artifacts for part in artifact.parts)


def texts(task: Task, name: str) -> list[str]:
    """A list in the metadata of a task."""
    return [each.string_value for each in task.metadata.fields[name].list_value.values]


def states(found: list[StreamResponse]) -> list[int]:
    return [each.status_update.status.state for each in found if each.HasField("status_update")]


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON"])
async def test_an_a2a_conversation_includes_a_handoff_and_an_approval(
    team: Served, binding: str
) -> None:
    async with team.client(binding=binding) as client:
        found = await followed(team, client, "please refund 1042 hold:go")
        task = found[0].task
        assert task.status.state in (
            TaskState.TASK_STATE_SUBMITTED,
            TaskState.TASK_STATE_WORKING,
        )
        told = [
            part.text
            for each in found
            if each.HasField("status_update")
            for part in each.status_update.status.message.parts
        ]
        assert "triage handed the conversation to desk" in told
        assert states(found)[-1] == TaskState.TASK_STATE_INPUT_REQUIRED
        [words, question] = found[-1].status_update.status.message.parts
        assert words.text.endswith("Options: approve, reject")
        asked = question.data.struct_value.fields["question"].struct_value.fields
        assert asked["tool"].string_value == "refund"
        found = await followed(team, client, "approve", task_id=task.id, context_id=task.context_id)
        assert states(found)[-1] == TaskState.TASK_STATE_COMPLETED
        done = await client.get_task(GetTaskRequest(id=task.id))
        assert answer_of(done) == "1042 is paid back"
        assert [part.text for each in done.history for part in each.parts] == [
            "please refund 1042 hold:go",
            "1042 is paid back",
        ]
        assert texts(done, "chain") == ["user", "triage", "desk"]


async def test_answer_chunks_are_streamed_and_replaced_by_the_whole(team: Served) -> None:
    async with team.client() as client:
        found = await followed(team, client, "hold:go grüße, 你好 🙂")
    pieces = [each.artifact_update for each in found if each.HasField("artifact_update")]
    texts = [each.artifact.parts[0].text for each in pieces]
    assert len(texts) > 2
    assert texts[-1] == "you said: hold:go grüße, 你好 🙂" == "".join(texts[:-1])
    assert [each.append for each in pieces] == [False, *[True] * (len(pieces) - 2), False]
    assert pieces[-1].last_chunk


async def test_an_inbox_answer_is_streamed_to_subscribers_of_the_task(team: Served) -> None:
    desk = await team.app.state.service.tenant_service()
    async with team.client("asks") as client:
        task = (await sent(client, message("please refund 1042")))[0].task
        stream = client.subscribe(SubscribeToTaskRequest(id=task.id))
        first = await anext(stream)
        assert first.task.status.state == TaskState.TASK_STATE_INPUT_REQUIRED
        [item] = texts(first.task, "questions")
        await desk.inbox.answer(item, choice="approve", by="安娜")
        rest = [each async for each in stream]
    assert states(rest)[-1] == TaskState.TASK_STATE_COMPLETED


async def test_answering_needs_the_scope_and_is_refused_to_agents(team: Served) -> None:
    async with team.client("asks", streaming=False) as client:
        task = await task_of(client, message("please refund 1042"))
        with pytest.raises(UnsupportedOperationError, match="answer"):
            await sent(client, message("approve", task_id=task.id))
    async with team.client(streaming=False, headers={AGENT_HEADER: "1"}) as client:
        with pytest.raises(UnsupportedOperationError, match="answer"):
            await sent(client, message("approve", task_id=task.id))
    async with team.client(streaming=False) as client:
        with pytest.raises(InvalidParamsError, match="approve, reject"):
            await sent(client, message("perhaps", task_id=task.id))
        decided = message("", task_id=task.id)
        decided.message.parts[0].CopyFrom(new_data_part({"choice": "reject", "text": "too late"}))
        done = await task_of(client, decided)
    assert done.status.state == TaskState.TASK_STATE_COMPLETED
    desk = await team.app.state.service.tenant_service()
    [item] = texts(task, "questions")
    answer = (await desk.inbox.get(item)).answer
    assert (answer.by, answer.choice, answer.text) == ("安娜", "reject", "too late")


@pytest.mark.parametrize(("said", "result"), [("yes", "1042 is paid back"), ("REJECT", "")])
async def test_approvals_and_rejections_in_plain_words_are_understood(
    team: Served, said: str, result: str
) -> None:
    async with team.client(streaming=False) as client:
        task = await task_of(client, message("please refund 1042"))
        done = await task_of(client, message(said, task_id=task.id))
    assert done.status.state == TaskState.TASK_STATE_COMPLETED
    assert answer_of(done).startswith(result)


async def test_a_repeated_message_starts_no_second_task(team: Served) -> None:
    request = message("hello", message_id="m-1")
    async with team.client(streaming=False) as client:
        tasks = await asyncio.gather(*(task_of(client, request) for _ in range(4)))
        assert len({task.id for task in tasks}) == 1
        with pytest.raises(InvalidParamsError, match="another message"):
            await sent(client, message("good bye", message_id="m-1"))
    async with team.client("asks", streaming=False) as client:
        assert (await task_of(client, request)).id != tasks[0].id


async def test_a_context_is_a_session(team: Served) -> None:
    async with team.client(streaming=False) as client:
        first = await task_of(client, message("one", context_id="chosen-by-client"))
        assert (first.context_id, first.id) == ("chosen-by-client", "chosen-by-client:1")
        second = await task_of(client, message("two", context_id="chosen-by-client"))
        assert second.id == "chosen-by-client:2"
        assert answer_of(second) == "you said: two"
        listed = await client.list_tasks(
            ListTasksRequest(context_id="chosen-by-client", page_size=1, include_artifacts=True)
        )
        assert [task.id for task in listed.tasks] == [second.id]
        assert answer_of(listed.tasks[0]) == "you said: two"
        rest = await client.list_tasks(
            ListTasksRequest(
                context_id="chosen-by-client", page_size=1, page_token=listed.next_page_token
            )
        )
        assert [task.id for task in rest.tasks] == [first.id]
        assert not rest.tasks[0].artifacts
        done = ListTasksRequest(status=TaskState.TASK_STATE_COMPLETED, history_length=0)
        everything = await client.list_tasks(done)
        assert [task.id for task in everything.tasks] == [second.id]
        assert not everything.tasks[0].history
        failed = ListTasksRequest(status=TaskState.TASK_STATE_FAILED)
        assert not (await client.list_tasks(failed)).tasks
        for wrong in ({"page_size": 101}, {"context_id": second.context_id, "page_token": "x"}):
            with pytest.raises(InvalidParamsError):
                await client.list_tasks(ListTasksRequest(**wrong))


async def test_a_task_is_cancelled_unless_it_is_finished(team: Served, tmp_path: Path) -> None:
    async with team.client(streaming=False) as client:
        request = message("hold:gate")
        request.configuration.CopyFrom(SendMessageConfiguration(return_immediately=True))
        task = await task_of(client, request)
        assert task.status.state in (
            TaskState.TASK_STATE_SUBMITTED,
            TaskState.TASK_STATE_WORKING,
        )
        with pytest.raises(UnsupportedOperationError, match="in progress"):
            await sent(client, message("more", task_id=task.id))
        stopped = await client.cancel_task(CancelTaskRequest(id=task.id))
        assert stopped.status.state == TaskState.TASK_STATE_CANCELED
        with pytest.raises(UnsupportedOperationError, match="is over"):
            await sent(client, message("more", task_id=task.id))
        waits = await task_of(client, message("please refund 1042"))
        stopped = await client.cancel_task(CancelTaskRequest(id=waits.id))
        assert stopped.status.state == TaskState.TASK_STATE_CANCELED
        done = await task_of(client, message("hello"))
        with pytest.raises(TaskNotCancelableError, match="is over"):
            await client.cancel_task(CancelTaskRequest(id=done.id))


async def test_a_tenant_sees_only_its_own_tasks(team: Served) -> None:
    async with team.client(streaming=False) as client:
        task = await task_of(client, message("hello"))
    async with team.client("other", streaming=False) as client:
        with pytest.raises(TaskNotFoundError):
            await client.get_task(GetTaskRequest(id=task.id))
        with pytest.raises(TaskNotFoundError):
            await sent(client, message("hello", task_id=task.id))
        assert not (await client.list_tasks(ListTasksRequest())).tasks


async def test_a2a_requests_need_keys_and_scopes(team: Served) -> None:
    async with httpx.AsyncClient(base_url=team.url, timeout=60) as http:
        card = await http.get("/.well-known/agent-card.json")
        assert card.status_code == 200
        assert (await http.post("/a2a", json={})).status_code == 401
        reads = {"Authorization": "Bearer reads", "A2A-Version": "1.0"}
        body = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "SendMessage",
            "params": {"message": {"messageId": "1", "role": "ROLE_USER", "parts": []}},
        }
        refused = await http.post("/a2a", json=body, headers=reads)
        assert refused.status_code == 403
        assert refused.json()["code"] == "auth.scope"
        rest = await http.post("/a2a/message:send", json={}, headers=reads)
        assert rest.status_code == 403
        body["method"] = "GetTask"
        body["params"] = {"id": "nobody:1"}
        found = await http.post("/a2a", json=body, headers=reads)
        assert found.json()["error"]["code"] == -32001


@pytest.mark.parametrize(
    "body", [b"{", b"[]", b"\xff", b'{"jsonrpc":"2.0","id":1}', b"null", b"[" * 5000]
)
async def test_invalid_requests_get_protocol_errors(team: Served, body: bytes) -> None:
    headers = {"Authorization": "Bearer all", "A2A-Version": "1.0"}
    async with httpx.AsyncClient(base_url=team.url, headers=headers, timeout=60) as http:
        answer = await http.post("/a2a", content=body)
    assert answer.status_code in (200, 400, 422)
    if answer.status_code == 200:
        assert answer.json()["error"]["code"] in (-32700, -32600, -32601, -32603)


async def test_invalid_messages_are_refused(team: Served) -> None:
    async with team.client(streaming=False) as client:
        for request, error in (
            (message("  "), InvalidParamsError),
            (message("x", message_id="m" * 2000), InvalidParamsError),
            (message("x", context_id="no spaces please"), InvalidParamsError),
            (message("x", task_id="nobody:1"), TaskNotFoundError),
            (message("x", task_id="nonsense"), TaskNotFoundError),
        ):
            with pytest.raises(error):
                await sent(client, request)
        file = SendMessageRequest(
            message=Message(
                message_id="f", role=Role.ROLE_USER, parts=[Part(raw=b"\x89PNG", filename="a.png")]
            )
        )
        with pytest.raises(ContentTypeNotSupportedError):
            await sent(client, file)
        agent = new_text_message("x", role=Role.ROLE_AGENT)
        with pytest.raises(InvalidParamsError, match="ROLE_USER"):
            await sent(client, SendMessageRequest(message=agent))
        task = await task_of(client, message("hello"))
        with pytest.raises(InvalidParamsError, match="not of context"):
            await sent(client, message("x", task_id=task.id, context_id="another"))
        with pytest.raises(PushNotificationNotSupportedError):
            await client.create_task_push_notification_config(
                TaskPushNotificationConfig(task_id=task.id, url="https://x.example")
            )
    async with team.client() as client:
        with pytest.raises(A2AError):
            [each async for each in client.subscribe(SubscribeToTaskRequest(id=task.id))]


async def test_data_parts_reach_the_team_as_json(team: Served) -> None:
    request = SendMessageRequest(
        message=Message(message_id="d", role=Role.ROLE_USER, parts=[new_data_part({"order": "七"})])
    )
    async with team.client(streaming=False) as client:
        task = await task_of(client, request)
    assert answer_of(task) == 'you said: {"order":"七"}'


async def test_each_agent_has_its_own_card_and_endpoint(team: Served) -> None:
    async with team.client(path="/a2a/desk", streaming=False) as client:
        task = await task_of(client, message("hello"))
        assert texts(task, "chain") == ["user", "desk"]
    async with httpx.AsyncClient(base_url=team.url, timeout=60) as http:
        headers = {"Authorization": "Bearer reads"}
        card = (await http.get("/.well-known/agent-card.json")).json()
        assert [skill["id"] for skill in card["skills"]] == ["triage", "desk"]
        assert card["capabilities"] == {"streaming": True, "pushNotifications": False}
        path = "/a2a/nobody/.well-known/agent-card.json"
        assert (await http.get(path, headers=headers)).status_code == 404
        assert (await http.get(path)).status_code == 401


async def test_clients_of_the_previous_protocol_version_are_served(team: Served) -> None:
    body = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "message/send",
        "params": {
            "message": {
                "kind": "message",
                "messageId": "old",
                "role": "user",
                "parts": [{"kind": "text", "text": "hello"}],
            }
        },
    }
    async with httpx.AsyncClient(base_url=team.url, timeout=60) as http:
        headers = {"Authorization": "Bearer all"}
        answer = (await http.post("/a2a", json=body, headers=headers)).json()
    assert answer["result"]["status"]["state"] == "completed"
    assert answer["result"]["artifacts"][0]["parts"][0]["text"] == "you said: hello"


@pytest.mark.parametrize(
    ("step", "state"),
    [
        (fail(RuntimeError("the model is ill")), TaskState.TASK_STATE_FAILED),
        (say("fine"), TaskState.TASK_STATE_COMPLETED),
    ],
)
async def test_each_run_outcome_has_its_task_state(tmp_path: Path, step: Any, state: int) -> None:
    solo = Team(Agent("solo", model=ScriptedModel([step]), description="Alone."))
    async with (
        application(tmp_path, team=solo, gate=GATE) as app,
        served(app) as url,
        Served(url, app, tmp_path).client(streaming=False) as client,
    ):
        task = await task_of(client, message("hello"))
    assert task.status.state == state


async def test_tasks_survive_a_restart(tmp_path: Path) -> None:
    store = str(tmp_path / "s.db")
    async with (
        application(tmp_path, team=relay_team(), store=store, gate=GATE) as app,
        served(app) as url,
        Served(url, app, tmp_path).client(streaming=False) as client,
    ):
        task = await task_of(client, message("please refund 1042"))
    async with (
        application(tmp_path, team=relay_team(), store=store, gate=GATE) as app,
        served(app) as url,
        Served(url, app, tmp_path).client(streaming=False) as client,
    ):
        found = await client.get_task(GetTaskRequest(id=task.id))
        assert found.status.state == TaskState.TASK_STATE_INPUT_REQUIRED
        done = await task_of(client, message("approve", task_id=task.id))
    assert answer_of(done) == "1042 is paid back"
