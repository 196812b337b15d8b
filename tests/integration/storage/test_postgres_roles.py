"""With the database roles of the page about security, only people answer, and runs continue."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from ekiden import Agent, CodeContext, Inbox, InboxItem, RunConfig, Session
from ekiden.core.conversation.model import text_of
from ekiden.core.errors import UserError
from ekiden.engine import Worker, submit
from ekiden.storage.base import DocumentWrite
from ekiden.storage.postgres import PostgresStore
from tests.support.sql import connect

PAGE = Path(__file__).parents[3] / "docs" / "security.md"
CONFIG = RunConfig(approver="inbox")


@dataclass(frozen=True, kw_only=True)
class Roles:
    """The URLs of one store."""

    worker: str
    people: str


@pytest.fixture
async def roles(postgres_url: str) -> AsyncIterator[Roles]:
    """A store with the roles of the page."""
    async with PostgresStore(postgres_url):
        pass
    [sql] = re.findall(r"```sql\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    names = {name: f"{name}_{os.urandom(4).hex()}" for name in ("ekiden_worker", "ekiden_people")}
    schema = postgres_url.rpartition("schema=")[2]
    for name, own in names.items():
        sql = sql.replace(name, own)
    sql = re.sub(r"\bekiden(?=[.;]| to )", schema, sql)
    connection = await connect(postgres_url)
    await connection.execute(sql)
    urls = {name: re.sub("//[^@]*@", f"//{own}@", postgres_url) for name, own in names.items()}
    yield Roles(worker=urls["ekiden_worker"], people=urls["ekiden_people"])
    await connection.execute("drop owned by {0}, {1}; drop role {0}, {1}".format(*names.values()))
    await connection.close()


async def ask(ctx: CodeContext[Any]) -> str:
    answer = await ctx.request_approval("a \0 discount?", ["yes", "no"])
    return f"{answer.choice}, says {answer.by}"


async def test_only_the_role_of_people_can_answer(roles: Roles) -> None:
    desk = Agent("desk", run=ask)
    async with PostgresStore(roles.worker) as store, PostgresStore(roles.people) as people:
        session = Session("s", store=store)
        await submit(desk, "go", session=session, run_config=CONFIG)
        await Worker(store, desk, run_config=CONFIG).run(until_idle=True)
        [item] = (await Inbox(store).list()).items
        with pytest.raises(UserError, match="row-level security"):
            await Inbox(store).answer(item.id, choice="yes", by="mira")
        assert (await Inbox(store).get(item.id)).status == "open"
        await Inbox(people).answer(item.id, choice="yes", by="mira")
        await Worker(store, desk, run_config=CONFIG).run(until_idle=True)
        assert text_of((await session.get_items())[-1]) == "yes, says mira"
        [answered] = await store.list_documents("inbox.done")
        changed = DocumentWrite(
            collection="inbox.done", key=item.id, body={**answered.body, "reason": "I did"}
        )
        with pytest.raises(UserError, match="row-level security"):
            await store.write_documents([changed])


@pytest.mark.parametrize("collection", ["inbox.open", "inbox.done", "inbox.order"])
@pytest.mark.parametrize(
    "answer",
    [
        {"status": "answered"},
        {"status": "answered", "text": "\0 \\\0 \\\\u0000 \ud83d"},
        {"status": "expired", "answer": {"choice": "yes", "by": "mira"}},
    ],
)
async def test_a_worker_cannot_write_an_answer(
    roles: Roles, collection: str, answer: dict[str, Any]
) -> None:
    async with PostgresStore(roles.worker) as store:
        with pytest.raises(UserError, match="row-level security"):
            await store.write_documents(
                [DocumentWrite(collection=collection, key="a", body=answer)]
            )


async def test_a_worker_stores_withdrawals_and_deadlines(roles: Roles) -> None:
    async with PostgresStore(roles.worker) as store:
        inbox = Inbox(store)
        item = InboxItem(
            kind="approval", from_agent="desk", subject="a \0?", options=("yes", "no"), default="no"
        )
        withdrawn = await inbox.post(replace(item, id="withdrawn"))
        assert (await inbox.cancel(withdrawn.id, by="desk")).status == "cancelled"
        soon = await store.now_us() + 1
        answer = await inbox.ask_person(replace(item, id="late", deadline_us=soon))
        assert (answer.choice, answer.by) == ("no", "nobody")
