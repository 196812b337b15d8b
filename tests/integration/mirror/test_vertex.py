"""What arrives in Vertex AI Sessions, over its real wire format."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ekiden import Agent, Runner, Session, handoff
from ekiden.core.errors import UserError
from ekiden.core.errors.stored_data import ReplicaRefused, ReplicaUnavailable
from ekiden.integrations import vertex as module
from ekiden.integrations.vertex import VertexReplica, wire_events
from ekiden.sessions.replica import ReplicatedEvent, ReplicatedSession
from ekiden.sessions.replica_feed import replicate_sessions
from ekiden.storage.memory import MemoryStore
from ekiden.testing import ScriptedModel, call, say, transfer
from tests.integration.mirror.conftest import vertex
from tests.integration.mirror.talking import talk
from tests.support.vendor import DROP, GARBLED, HANG, LOST, Trouble, status
from tests.support.vertex_server import PARENT, POISON, VertexServer, service_account

HELLO: dict[str, Any] = {"role": "user", "content": "hello"}


def session(**more: Any) -> ReplicatedSession:
    return ReplicatedSession(**{"id": "s1", "user_id": "ada", "created_at_us": 1, **more})


def event(seq: int = 1, *, items: Any = (HELLO,), **more: Any) -> ReplicatedEvent:
    return ReplicatedEvent(
        id=f"s1/{seq}",
        seq=seq,
        at_us=1_700_000_000_000_000 + seq,
        agent="desk",
        items=items,
        **more,
    )


async def test_a_conversation_arrives_with_its_authors(
    store: MemoryStore, server: VertexServer, mirror: VertexReplica
) -> None:
    await talk(store, "s1", "Where is 7?", answers=[[call("lookup", order=7), say("On its way.")]])
    report = await replicate_sessions(store, mirror, once=True)
    assert (report.sent, report.waiting, report.problem) == (4, 0, None)
    [(name, made)] = server.sessions.items()
    assert made["userId"] == "ada"
    assert made["displayName"] == "s1"
    asked, called, looked_up, answered = server.events[name]
    assert asked["author"] == "user"
    assert asked["content"] == {"role": "user", "parts": [{"text": "Where is 7?"}]}
    assert called["author"] == answered["author"] == looked_up["author"] == "desk"
    [part] = called["content"]["parts"]
    assert called["content"]["role"] == "model"
    assert part["functionCall"]["name"] == "lookup"
    assert part["functionCall"]["args"] == {"order": 7}
    [answer] = looked_up["content"]["parts"]
    assert answer["functionResponse"]["name"] == "lookup"
    assert answer["functionResponse"]["id"] == part["functionCall"]["id"]
    assert json.loads(answer["functionResponse"]["response"]["output"])["state"] == "on its way"
    assert answered["content"] == {"role": "model", "parts": [{"text": "On its way."}]}
    assert [each["invocationId"] for each in server.events[name]] == [
        "s1/1",
        "s1/3",
        "s1/4",
        "s1/5",
    ]
    times = [each["timestamp"] for each in server.events[name]]
    assert times == sorted(set(times))


async def test_a_handoff_changes_the_author(
    store: MemoryStore, server: VertexServer, mirror: VertexReplica
) -> None:
    billing = Agent("billing", model=ScriptedModel([say("Paid.")]))
    desk = Agent("desk", model=ScriptedModel([transfer("billing")]), handoffs=[handoff(billing)])
    await Runner.run(desk, "My bill", session=Session("s1", store=store))
    await replicate_sessions(store, mirror, once=True)
    [events] = server.events.values()
    authors = [each["author"] for each in events]
    assert authors[0] == "user"
    assert authors[-1] == "billing"
    names = [
        part["functionResponse"]["name"]
        for each in events
        for part in each["content"]["parts"]
        if "functionResponse" in part
    ]
    assert names == ["transfer_to_billing"]


async def test_variables_arrive_as_state_changes(
    store: MemoryStore, server: VertexServer, mirror: VertexReplica
) -> None:
    from ekiden import RunContextWrapper, function_tool

    @function_tool
    def note(ctx: RunContextWrapper[Any]) -> str:
        """Take notes."""
        ctx.set("order", 42)
        ctx.set("run:draft", "x")
        return "noted"

    agent = Agent("desk", model=ScriptedModel([call("note"), say("ok")]), tools=[note])
    await Runner.run(agent, "hi", session=Session("s1", store=store))
    await replicate_sessions(store, mirror, once=True)
    [events] = server.events.values()
    deltas = [each["actions"]["stateDelta"] for each in events if "actions" in each]
    assert {"order": 42} in deltas
    assert not any("run:draft" in delta for delta in deltas)


def test_a_pure_state_change_is_an_event_without_content() -> None:
    [wire] = wire_events(event(items=(), state={"order": 42, "gone": None}))
    assert "content" not in wire
    assert wire["actions"] == {"stateDelta": {"order": 42, "gone": None}}
    assert wire["author"] == "desk"


def test_each_kind_of_item_becomes_parts_of_the_vendors_format() -> None:
    items = [
        {"role": "user", "content": [{"type": "input_text", "text": "see"}]},
        {"role": "user", "content": [{"type": "input_image", "image_url": "data:…"}, {}]},
        {"role": "system", "content": "be kind"},
        {"type": "reasoning", "summary": [{"text": "hmm"}]},
        {"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "broken {"},
        {"type": "function_call", "call_id": "d", "name": "g", "arguments": ""},
        {"type": "function_call_output", "call_id": "c", "output": "done"},
        {"role": "user", "content": ""},
    ]
    wires = wire_events(event(items=items))
    assert [(each["author"], each["content"]["role"]) for each in wires] == [
        ("user", "user"),
        ("desk", "user"),
        ("desk", "model"),
        ("desk", "user"),
    ]
    assert wires[0]["content"]["parts"] == [{"text": "see"}, {"text": "[image]"}]
    refused, broken, empty = wires[2]["content"]["parts"]
    assert refused == {"text": "no"}
    assert broken["functionCall"]["args"] == {"arguments": "broken {"}
    assert empty["functionCall"]["args"] == {}
    assert wires[3]["content"]["parts"][0]["functionResponse"]["name"] == "unknown"
    assert len({each["timestamp"] for each in wires}) == 4


async def test_any_text_arrives_without_lone_surrogates(
    server: VertexServer, mirror: VertexReplica
) -> None:
    said = {"role": "user", "content": "退款 🎉 \ud800 \x00"}
    await mirror.send(session(user_id="Ünä"), event(items=(said,)), again=False)
    assert server.said() == ["退款 🎉 � \x00"]
    assert [each["userId"] for each in server.sessions.values()] == ["Ünä"]


async def test_sessions_without_a_user_get_distinct_user_ids(
    server: VertexServer, mirror: VertexReplica
) -> None:
    for each in ("s1", "s2"):
        await mirror.send(session(id=each, user_id=None), event(), again=False)
    assert len({each["userId"] for each in server.sessions.values()}) == 2


async def test_a_slow_session_creation_is_awaited() -> None:
    async with VertexServer(looks=2) as server:
        made = vertex(server)
        kept = await made.send(session(), event(), again=False)
        await made.send(session(kept=kept), event(2), again=False)
        await made.close()
        assert len(server.sessions) == 1
        assert sum("/operations/" in request.path for request in server.requests) == 2


async def test_a_session_creation_that_never_ends_times_out() -> None:
    async with VertexServer(looks=10_000) as server:
        made = vertex(server, timeout_s=0.1)
        with pytest.raises(ReplicaUnavailable, match="too long"):
            await made.send(session(), event(), again=False)
        await made.close()


@pytest.mark.parametrize("ids", [True, False], ids=["id is chosen", "id is given"])
async def test_a_session_is_created_once_even_if_its_name_was_lost(ids: bool) -> None:
    async with VertexServer(ids=ids, page=1) as server:
        made = vertex(server)
        await made.send(session(id="other"), event(), again=True)
        for _ in range(2):
            await made.send(session(), event(), again=True)
        await made.close()
        assert len(server.sessions) == 2
        assert server.said() == ["hello", "hello"]


async def test_a_recreated_session_is_a_new_session_at_the_vendor(
    server: VertexServer, mirror: VertexReplica
) -> None:
    await mirror.send(session(), event(), again=True)
    await mirror.send(session(created_at_us=2, user_id="bob"), event(), again=True)
    assert [each["userId"] for each in server.sessions.values()] == ["ada", "bob"]


async def test_already_sent_parts_are_skipped() -> None:
    items = (HELLO, {"role": "assistant", "content": "hi"}, HELLO)
    async with VertexServer(page=1) as server:
        made = vertex(server)
        kept = await made.send(session(), event(), again=False)
        server.troubles.extend([LOST])
        with pytest.raises(ReplicaUnavailable):
            await made.send(session(kept=kept), event(2, items=items), again=False)
        await made.send(session(kept=kept), event(2, items=items), again=True)
        await made.send(session(kept=kept), event(2, items=items), again=True)
        await made.close()
        assert server.said() == ["hello", "hello", "hi", "hello"]


@pytest.mark.parametrize("again", [True, False])
async def test_a_session_deleted_at_the_vendor_is_created_again(
    server: VertexServer, mirror: VertexReplica, again: bool
) -> None:
    kept = await mirror.send(session(), event(), again=False)
    server.sessions.clear()
    server.events.clear()
    await mirror.send(session(kept=kept), event(2), again=again)
    assert server.said() == ["hello"]


@pytest.mark.parametrize(
    ("trouble", "told"),
    [
        (status(429, retry_after="7"), "answered 429"),
        (status(500), "answered 500"),
        (status(503), "answered 503"),
        (status(403), "answered 403"),
        (status(302), "answered 302"),
        (DROP, "RemoteProtocolError"),
        (HANG, "no answer within"),
        (GARBLED, "cannot be read"),
    ],
    ids=str,
)
async def test_a_temporary_error_is_reported_as_unavailable(trouble: Trouble, told: str) -> None:
    async with VertexServer(troubles=[trouble]) as server:
        made = vertex(server, timeout_s=0.2)
        with pytest.raises(ReplicaUnavailable, match=told) as raised:
            await made.send(session(), event(), again=False)
        assert raised.value.retry_after_s == (7.0 if trouble.headers else None)
        await made.send(session(), event(), again=True)
        await made.close()


async def test_a_permanent_error_is_reported_as_refused(
    server: VertexServer, mirror: VertexReplica
) -> None:
    poison = {"role": "user", "content": POISON}
    with pytest.raises(ReplicaRefused, match="answered 400"):
        await mirror.send(session(), event(items=(poison,)), again=False)
    server.troubles.append(status(413))
    with pytest.raises(ReplicaRefused, match="answered 413"):
        await mirror.send(session(id="s2"), event(), again=False)


async def test_an_unknown_engine_is_a_temporary_error(server: VertexServer) -> None:
    made = VertexReplica(project="other", engine="1", url=server.origin, credentials=_fixed())
    with pytest.raises(ReplicaUnavailable, match="is there such an engine"):
        await made.send(session(), event(), again=False)
    await made.close()


@pytest.mark.parametrize(
    ("code", "kind"), [(14, ReplicaUnavailable), (3, ReplicaRefused)], ids=["passing", "for good"]
)
async def test_a_failed_operation_is_reported(code: int, kind: type[Exception]) -> None:
    class Failing(VertexServer):
        def _look(self, path: str) -> Any:
            return {"name": path, "done": True, "error": {"code": code, "message": "no room"}}

    async with Failing() as server:
        made = vertex(server)
        with pytest.raises(kind, match="no room"):
            await made.send(session(), event(), again=False)
        await made.close()


async def test_an_operation_that_reports_an_existing_session_succeeds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Late(VertexServer):
        def _look(self, path: str) -> Any:
            return {"name": path, "done": True, "error": {"code": 6, "message": "exists"}}

    async with Late() as server:
        made = vertex(server)
        await made.send(session(), event(), again=True)
        await made.close()
        assert server.said() == ["hello"]


@pytest.mark.parametrize("operation", [{}, {"name": "elsewhere/1"}])
async def test_an_operation_without_a_name_is_an_error(operation: dict[str, Any]) -> None:
    class Nameless(VertexServer):
        def _create(self, body: Any, query: dict[str, str]) -> Any:
            return operation

    async with Nameless() as server:
        made = vertex(server)
        with pytest.raises(ReplicaUnavailable, match="has no name"):
            await made.send(session(), event(), again=False)
        await made.close()


async def test_tokens_come_from_the_local_credentials_and_are_refreshed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: VertexServer
) -> None:
    account = service_account(tmp_path, server, quota_project_id="payer")
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(account))
    made = vertex(server, credentials=None)
    kept = await made.send(session(), event(), again=False)
    assert server.tokens == 1
    server.tokens += 1  # The token was revoked.
    await made.send(session(kept=kept), event(2), again=False)
    assert server.tokens == 3
    assert server.said() == ["hello", "hello"]
    server.away = status(401)
    with pytest.raises(ReplicaUnavailable, match="no token|answered 401"):
        await made.send(session(kept=kept), event(3), again=False)
    await made.close()


@pytest.mark.parametrize("trouble", [DROP, status(500)], ids=["drop", "500"])
async def test_a_token_that_cannot_be_fetched_is_a_temporary_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: VertexServer, trouble: Trouble
) -> None:
    account = service_account(tmp_path, server)
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(account))
    monkeypatch.setattr("google.auth._exponential_backoff.time.sleep", lambda seconds: None)
    made = vertex(server, credentials=None)
    server.away = trouble
    with pytest.raises(ReplicaUnavailable, match="no token"):
        await made.send(session(), event(), again=False)
    server.away = None
    await made.send(session(), event(), again=False)
    await made.close()


async def test_a_machine_without_credentials_gets_advice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: VertexServer
) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "none.json"))
    made = vertex(server, credentials=None)
    with pytest.raises(ReplicaUnavailable, match="GOOGLE_APPLICATION_CREDENTIALS"):
        await made.send(session(), event(), again=False)
    await made.close()
    assert server.requests == []


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"project": ""}, "project"),
        ({"engine": "a/b"}, "engine"),
        ({"location": "../x"}, "location"),
        ({"url": "http://example.com"}, "https"),
        ({"url": "https://u@host"}, "https"),
        ({"url": "http://[broken"}, "https"),
    ],
    ids=str,
)
def test_an_invalid_vertex_address_is_refused_at_once(options: dict[str, Any], told: str) -> None:
    with pytest.raises(UserError, match=told):
        VertexReplica(**{"project": "p", "engine": "1", **options})


@pytest.mark.parametrize(
    ("location", "host"),
    [("europe-west4", "europe-west4-aiplatform.googleapis.com"), ("global", "//aiplatform.")],
)
def test_each_location_has_its_own_address(location: str, host: str) -> None:
    assert host in VertexReplica(project="p", engine="1", location=location)._url


def test_a_missing_package_is_reported_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "is_installed", lambda name: False)
    with pytest.raises(UserError, match=r"pip install 'ekiden\[vertex\]'"):
        VertexReplica(project="p", engine="1")


def test_the_replica_name_contains_the_engine() -> None:
    assert VertexReplica(project="desk-1", engine="4711").name == f"vertex:{PARENT}"


def _fixed() -> Any:
    from google.oauth2.credentials import Credentials

    credentials: Any = Credentials
    return credentials("fixed")
