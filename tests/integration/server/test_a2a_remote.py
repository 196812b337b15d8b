"""A remote agent behind the official A2A server, as the target of handoffs."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from ekiden import Agent, EkidenError, MemoryStore, Runner, Session, SqliteStore, Team
from ekiden.core.current_agent import AGENT_HEADER
from ekiden.inbox import Inbox
from ekiden.integrations.a2a import RemoteA2A, a2a_agent
from ekiden.storage.base import SessionFilter
from ekiden.testing import ScriptedModel, say, transfer
from tests.support.a2a_child import child_team
from tests.support.a2a_server import Partner, partner_served
from tests.support.gates import TokenGate, caller
from tests.support.relay_team import relay_team
from tests.support.serving import application, served
from tests.support.sqlite import LEASES_RUN_OUT, execute
from tests.support.until import until


def team_with(card: str, *said: Any, **settings: Any) -> Team:
    remote = RemoteA2A(card=card, **{"poll_s": 0.01, "patience_s": 5.0, **settings})
    printer = a2a_agent(remote, name="printer")
    model = ScriptedModel([transfer("printer", reason="it is about paper"), *said])
    return Team(Agent("triage", model=model, handoffs=[printer]), printer)


async def test_a_remote_agents_answer_becomes_the_runs_answer() -> None:
    partner = Partner()
    async with partner_served(partner) as (url, cuts):
        session = Session("s1", store=MemoryStore())
        result = await Runner.run(team_with(url), "flyers, 三百枚 🙂", session=session)
    assert result.final_output == "printed: flyers, 三百枚 🙂"
    assert result.last_agent.name == "printer"
    [text] = partner.received
    assert "Handed over by triage." in text
    assert "Why: it is about paper" in text
    assert all(each[AGENT_HEADER.lower()] == "1" for each in cuts.headers)


@pytest.mark.parametrize("streaming", [True, False])
async def test_the_next_request_continues_the_remote_conversation(streaming: bool) -> None:
    partner = Partner()
    async with partner_served(partner, streaming=streaming) as (url, _):
        team, session = team_with(url), Session("s1", store=MemoryStore())
        await Runner.run(team, "flyers", session=session)
        result = await Runner.run(team, "and posters", session=session)
    assert result.final_output == "printed: and posters"
    assert len(set(partner.contexts)) == 1
    assert partner.received[1] == "and posters"


@pytest.mark.parametrize(
    ("request_text", "output"),
    [("at once please", "said at once"), ("data please", {"copies": 3})],
)
async def test_messages_and_data_are_accepted_as_answers(request_text: str, output: Any) -> None:
    async with partner_served(Partner()) as (url, _):
        result = await Runner.run(team_with(url), request_text)
    assert result.final_output == output


@pytest.mark.parametrize(
    ("request_text", "told"),
    [("fail now", "the press broke"), ("reject this", "we do not print that")],
)
async def test_a_remote_task_that_does_not_succeed_rolls_the_handoff_back(
    request_text: str, told: str
) -> None:
    partner = Partner()
    async with partner_served(partner) as (url, _):
        team = team_with(url, say("sorry, the printer cannot"))
        session = Session("s1", store=MemoryStore())
        result = await Runner.run(team, request_text, session=session)
        events = await session.events()
    assert result.final_output == "sorry, the printer cannot"
    assert result.last_agent.name == "triage"
    undone = [each for each in events if each.type == "handoff" and each.error]
    assert told in str(undone[-1].error)


async def test_without_a_handoff_a_remote_failure_has_a_stable_code() -> None:
    async with partner_served(Partner()) as (url, _):
        printer = a2a_agent(url, name="printer")
        session = Session("s1", store=MemoryStore())
        with pytest.raises(EkidenError, match="the press broke") as caught:
            await Runner.run(printer, "fail now", session=session)
    assert caught.value.code == "a2a.failed"


async def test_a_remote_question_waits_in_the_inbox_and_gets_the_answer() -> None:
    partner, store = Partner(), MemoryStore()
    async with partner_served(partner) as (url, _):
        team = team_with(url)
        session = Session("s1", store=store)
        result = await Runner.run(team, "ask me", session=session)
        assert result.outcome.kind == "waiting"
        [item] = (await Inbox(store).list()).items
        assert item.subject == "printer: which colour?"
        assert item.from_agent == "printer"
        await Inbox(store).answer(item.id, text="blue", by="安娜")
        result = await Runner.resume(team, session)
    assert result.final_output == "printed: blue"
    assert len(partner.received) == 2
    assert partner.received[1] == "blue"


async def test_a_question_of_another_ekiden_is_answered_in_our_inbox(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DESK_KEY", "all")
    gate = TokenGate(all=caller("our team", "read", "run", "answer"))
    store = MemoryStore()
    async with application(tmp_path, team=relay_team(), gate=gate) as app, served(app) as url:
        desk = RemoteA2A(card=f"{url}/a2a/desk/.well-known/agent-card.json", token_env="DESK_KEY")
        model = ScriptedModel([transfer("far_desk")])
        far = a2a_agent(desk, name="far_desk")
        team = Team(Agent("near", model=model, handoffs=[far]), far)
        session = Session("s1", store=store)
        await Runner.run(team, "please refund 1042", session=session)
        [item] = (await Inbox(store).list()).items
        assert item.options == ("approve", "reject")
        assert "may desk run refund?" in item.subject
        await Inbox(store).answer(item.id, choice="approve", by="安娜")
        result = await Runner.resume(team, session)
        assert result.final_output == "1042 is paid back"
        far_desk = await app.state.service.tenant_service()
        rows = (await far_desk.store.list(SessionFilter(), limit=9)).sessions
        assert len(rows) == 1


async def test_a_lost_answer_is_fetched_again_and_the_task_starts_once() -> None:
    partner = Partner()
    async with partner_served(partner) as (url, cuts):
        cuts.cut = {"SendMessage": 1, "GetTask": 1, "SubscribeToTask": 1}
        result = await Runner.run(team_with(url), "flyers")
    assert result.final_output == "printed: flyers"
    assert len(partner.received) == 1
    assert cuts.calls.count("SendMessage") == 1


async def test_an_unreachable_remote_agent_rolls_the_handoff_back() -> None:
    partner = Partner()
    async with partner_served(partner) as (url, cuts):
        cuts.cut = {"ListTasks": 1000}
        team = team_with(url, say("nobody answers there"), patience_s=0.2)
        result = await Runner.run(team, "flyers")
    assert result.final_output == "nobody answers there"
    assert partner.received == []


@pytest.mark.slow
async def test_a_remote_task_that_times_out_is_cancelled_remotely() -> None:
    partner = Partner()
    async with partner_served(partner) as (url, _):
        team = team_with(url, say("that takes too long"), timeout_s=3.0)
        result = await Runner.run(team, "hold on", session=Session("s1", store=MemoryStore()))
        assert result.final_output == "that takes too long"
        await until(lambda: bool(partner.cancelled))
        assert len(partner.cancelled) == 1
        partner.release.set()


async def test_a_cancelled_run_resumes_the_same_remote_task() -> None:
    partner, store = Partner(), MemoryStore()
    async with partner_served(partner) as (url, _):
        team = team_with(url)
        running = asyncio.create_task(
            Runner.run(team, "hold this", session=Session("s1", store=store))
        )
        await partner.working.wait()
        running.cancel()
        await asyncio.wait({running})
        partner.release.set()
        result = await Runner.resume(team, Session("s1", store=store))
    assert result.final_output == "printed: hold this"
    assert len(partner.received) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "point", ["code.tool.after_call", "code.tool.after_commit", "code.tool.after_commit:2"]
)
async def test_a_request_starts_once_despite_a_kill_after_sending_it(
    tmp_path: Path, point: str
) -> None:
    partner = Partner()
    path = str(tmp_path / "s.db")
    async with partner_served(partner) as (url, cuts):
        environment = {**os.environ, "EKIDEN_TESTING": "1", "EKIDEN_FAULT": point}
        child = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.support.a2a_child", path, url), env=environment
        )
        assert await child.wait() == -signal.SIGKILL
        execute(Path(path), LEASES_RUN_OUT)
        async with SqliteStore(path) as store:
            session = Session("s1", store=store)
            result = await Runner.resume(child_team(url), session)
    assert result.final_output == "printed: flyers"
    assert len(partner.received) == 1
    assert cuts.calls.count("SendMessage") == 1


async def test_a_card_with_an_interface_on_another_host_is_refused() -> None:
    other = "http://127.0.0.2:9/rpc"
    async with partner_served(Partner(), interface=other) as (url, _):
        result = await Runner.run(team_with(url, say("no")), "flyers")
        printer = a2a_agent(url, name="printer")
        with pytest.raises(EkidenError, match="another host") as caught:
            await Runner.run(printer, "flyers")
    assert result.final_output == "no"
    assert caught.value.code == "a2a.invalid"


async def test_credentials_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    partner = Partner()
    monkeypatch.setenv("PRINTER_TOKEN", "s3cret")
    monkeypatch.setenv("PRINTER_KEY", "k3y")
    store = MemoryStore()
    async with partner_served(partner) as (url, cuts):
        team = team_with(url, token_env="PRINTER_TOKEN", headers_env={"X-Key": "PRINTER_KEY"})
        session = Session("s1", store=store)
        await Runner.run(team, "flyers", session=session)
        assert cuts.headers[0]["authorization"] == "Bearer s3cret"
        assert cuts.headers[0]["x-key"] == "k3y"
        stored = [each.to_json() for each in await session.events()]
        assert "s3cret" not in str(stored)
        monkeypatch.delenv("PRINTER_TOKEN")
        result = await Runner.run(
            team_with(url, say("no token"), token_env="PRINTER_TOKEN"), "flyers"
        )
    assert result.final_output == "no token"


@pytest.mark.parametrize(
    "card",
    ["", "http://agents.example", "ftp://x", "https://user:pw@x.example", "https://", "nonsense"],
)
def test_only_https_or_local_addresses_are_called(card: str) -> None:
    with pytest.raises(EkidenError, match=r"URL|https|credentials"):
        a2a_agent(card, name="printer")


def test_a_card_url_without_a_path_gets_the_well_known_path(tmp_path: Path) -> None:
    assert RemoteA2A(card="https://x.example").card == (
        "https://x.example/.well-known/agent-card.json"
    )
    assert RemoteA2A(card="https://x.example/a/card.json").card == "https://x.example/a/card.json"
