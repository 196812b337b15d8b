"""A last copy leaves nothing behind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ekiden.core.agent import Agent, Team
from ekiden.core.errors.stored_data import SourceInUse, StoreUnfinished
from ekiden.inbox import Inbox
from ekiden.project import open_store
from ekiden.project.copying import CopyStep, copy_store
from ekiden.runtime import CodeContext, Runner
from ekiden.sessions import Session
from ekiden.storage.base import DocumentWrite, MessageFilter, QueuePut
from tests.integration.copying.world import execute_at, made, tenants_made

Place = Callable[[str], str]
CHANGES = {
    "documents": "update documents set body = '2', version = version + 1",
    "messages": "update messages set state = 'done', owner = 'w'",
    "sessions": "update sessions set epoch = epoch + 1",
}
"""What a copy does not see in the number of the rows."""


async def filled(url: str) -> str:
    await made(url)
    async with open_store(url) as store:
        await store.write_documents([DocumentWrite(collection="c", key="k", body=1)])
        await store.put_messages([QueuePut(queue="q", body=1)])
    return url


def once(phase: str, tenant: str, work: Callable[[], Any]) -> Callable[[CopyStep], None]:
    """Does something when the copy of a tenant comes there."""
    done: list[bool] = []

    def step(told: CopyStep) -> None:
        if (told.phase, told.tenant) == (phase, tenant) and not done:
            done.append(True)
            work()

    return step


@pytest.mark.parametrize("table", list(CHANGES))
async def test_a_row_that_changes_during_a_final_copy_is_detected(table: str, place: Place) -> None:
    source, target = await filled(place("sqlite")), place("postgresql")
    meddle = once("audit", "default", lambda: execute_at(source, CHANGES[table]))
    with pytest.raises(SourceInUse, match=f"its {table} during the copy"):
        await copy_store(source, target, final=True, progress=meddle)
    with pytest.raises(StoreUnfinished):
        await open_store(target).open()
    await copy_store(source, target, final=True, resume=True)


async def test_a_tenant_that_changes_after_its_copy_is_detected(place: Place) -> None:
    source, target = place("sqlite"), place("postgresql")
    await tenants_made(source)
    meddle = once("copy", "beta", lambda: execute_at(source, CHANGES["sessions"]))
    with pytest.raises(SourceInUse):
        await copy_store(source, target, final=True, progress=meddle)


async def test_a_session_or_message_claimed_at_the_end_of_a_final_copy_is_reported(
    place: Place,
) -> None:
    source, target = await filled(place("sqlite")), place("postgresql")
    async with open_store(source) as store:
        await store.take_messages("q", owner="w", lease_s=60)
        with pytest.raises(SourceInUse, match="taken messages"):
            await copy_store(source, target, final=True)
        report = await copy_store(source, target)
    assert report.audit_ok


async def test_translated_feed_cursors_do_not_count_as_differences(
    place: Place,
) -> None:
    source = await filled(place("sqlite"))
    async with open_store(source) as store:
        await store.write_documents(
            [DocumentWrite(collection="mirrors", key="m", body={"cursor": "0"})]
        )
    report = await copy_store(source, place("postgresql"), final=True)
    assert report.tenants[0].counts["documents"] == 2


async def test_an_idle_store_is_moved_while_an_agent_has_a_question_open(place: Place) -> None:
    source, target = place("sqlite"), place("postgresql")

    async def approves(ctx: CodeContext) -> str:
        return (await ctx.request_approval("Refund it?")).choice or ""

    async def asks(ctx: CodeContext) -> str:
        return f"they say {await ctx.ask('clerk', 'Refund it?')}"

    team = Team(Agent("desk", run=asks), Agent("clerk", run=approves))
    async with open_store(source, create=True) as store:
        result = await Runner.run(team, "hello", session=Session("s", store=store))
        assert result.outcome.kind == "waiting"
    await copy_store(source, target, final=True)
    async with open_store(target) as store:
        [question] = await store.find_messages(MessageFilter(states=("open",)))
        assert (question.owner or "").startswith("session:")
        [item] = (await Inbox(store).list()).items
        said = f"they say {item.options[0]}"
        await Inbox(store).answer(item.id, choice=item.options[0], by="anna")
        assert (await Runner.resume(team, Session("s", store=store))).final_output == said
