"""Stores with something of everything in them, made through the public doors."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import asyncpg

from ekiden import (
    Agent,
    Bus,
    CodeContext,
    Inbox,
    Memory,
    MemorySettings,
    Runner,
    Session,
    Team,
    ToolContext,
    Worker,
    fork_session,
    function_tool,
    rewind_session,
    search_sessions,
    submit,
)
from ekiden.project import open_store
from ekiden.project.copying.whole_stores import snapshot_at
from ekiden.project.keys import KeyStore
from ekiden.project.stores import tenant_url
from ekiden.storage.base import DocumentWrite, NewSession, QueuePut, SearchEntry, Store
from ekiden.storage.copying import TABLES, Row, TableName
from tests.support.sqlite import execute

ODD = "\x00\x10\ud83d 中文 👩‍💻 \U0010ffff ‮"
"""NUL, the escape of PostgreSQL's columns, half of a character, and more."""
STORABLE_NAME = "\x10 中文 👩‍💻"
"""What can be part of a name in every store."""

keys_seen: list[str] = []
"""Idempotency keys that the tool got, in order."""


@function_tool
def book(ctx: ToolContext[Any], seat: str) -> str:
    """Book a seat."""
    keys_seen.append(ctx.idempotency_key)
    return f"{seat} {ODD}"


async def _triage(ctx: CodeContext) -> Any:
    ctx.set("odd", ODD)
    return ctx.hand_off("seats", reason=f"订座 {ODD}")


async def _seats(ctx: CodeContext) -> str:
    booked = await ctx.call(book, seat="4A")
    price = await ctx.ask("prices", "price", {"seat": ODD})
    return f"{booked}: {price}"


async def _prices(ctx: CodeContext) -> int:
    return 4200


async def _boss(ctx: CodeContext) -> str:
    booked = await ctx.call(book, seat="1A")
    answer = await ctx.request_approval("15 % for 青木商店?", ("yes", "no"), {"odd": ODD})
    return f"{booked}: {answer.choice}"


def team(entry: str = "triage") -> Team:
    """Hands over, asks an agent, asks a person."""
    seats = Agent("seats", run=_seats, tools=[book])
    return Team(
        Agent("triage", run=_triage, handoffs=[seats], memory=MemorySettings()),
        seats,
        Agent("prices", run=_prices),
        Agent("boss", run=_boss, tools=[book]),
        entry=entry,
    )


async def act(store: Store, what: str, number: int) -> None:
    """Do one thing of many kinds."""
    name = f"{what}-{number}"
    match what:
        case "run":
            await Runner.run(team(), "hello", session=Session(name, store=store, user_id="mira"))
        case "ask":
            session = Session(name, store=store)
            await Runner.run(team("boss"), "hello", session=session)
        case "ready":
            await submit(team(), "later", session=Session(name, store=store))
        case "fork":
            await Runner.run(team(), "hello", session=Session(name, store=store))
            await fork_session(store, name, at_seq=2, new_id=f"{name}-b")
        case "rewind":
            await Runner.run(team(), "hello", session=Session(name, store=store))
            await rewind_session(store, name, to_seq=1)
        case "delete":
            await Runner.run(team(), "hello", session=Session(name, store=store))
            await store.delete(name)
        case "bus":
            async with Bus(store) as bus:
                await bus.agent("pm").send("sales", "notice", {"n": number, "odd": ODD})
        case "memory":
            memory = Memory(store, user="mira")
            await memory.store(f"k{number}", f"likes 山田 {number}", {"odd": ODD})
        case "index":
            await search_sessions(store, "hello")
        case "key":
            await KeyStore(store).create(name, scopes=["read"])
        case "raw":
            await _raw(store, number)


async def _raw(store: Store, number: int) -> None:
    """What no agent writes."""
    name = f"{STORABLE_NAME}{number}"
    await store.write_documents(
        [DocumentWrite(collection=name, key="a\x00b", body={"odd": ODD})] * 2
    )
    await store.put_messages(
        [
            QueuePut(queue=name, body={"odd": ODD}, key=f"m{number}", delay_s=9e11, priority=-5),
            QueuePut(queue=name, body=1, dedup_key=name, ttl_s=3600.5, session_id="nobody"),
            QueuePut(queue=name, body=None, taken_by="somebody", lease_s=600.0),
        ]
    )
    await store.put_entries(
        [
            SearchEntry(
                space=name, key="e", text=ODD, body=None, model="m", vector=[0.1, -0.2, 0.3]
            ),
            SearchEntry(space=name, key="f", text="我要退款了", body=[1.5]),
        ]
    )


async def rows_of(url: str) -> Mapping[TableName, Sequence[Row]]:
    """All that a store holds; steps and documents in an order of their own."""
    found: dict[TableName, Sequence[Row]] = {}
    async with snapshot_at(url) as source:
        for table in TABLES:
            rows = [row async for page in source.pages(table) for row in page]
            if table in ("steps", "documents"):
                rows.sort(key=repr)
            found[table] = rows
    return found


def same(rows: Mapping[TableName, Sequence[Row]]) -> Mapping[TableName, Sequence[Row]]:
    """Rows without the places of events and of sessions in line, which every kind numbers itself;
    cursors of followers are left out, too."""
    return {
        **rows,
        "sessions": [row[:-1] for row in rows["sessions"]],
        "events": [row[1:] for row in rows["events"]],
        "documents": [row for row in rows["documents"] if row[0] != "sessions.search"],
    }


async def made(url: str, *sessions: str) -> str:
    """A store with these sessions."""
    async with open_store(url) as store:
        for name in sessions or ("s1", "s2"):
            await store.create(NewSession(id=name, agent="a"))
    return url


async def tenants_made(url: str, *names: str) -> None:
    """A main store, and one for each of these tenants."""
    await made(url, "main")
    for name in names or ("acme", "beta"):
        if "://" not in url:
            Path(tenant_url(url, name)).parent.mkdir(exist_ok=True)
        await made(tenant_url(url, name), f"of-{name}")


async def sessions_at(url: str) -> set[str]:
    """The ids of all sessions."""
    async with open_store(url) as store:
        return {row.id for row in (await store.list()).sessions}


def execute_at(url: str, sql: str) -> None:
    """Meddle with a database behind the store's back."""
    if "://" not in url:
        execute(Path(url), sql)
    else:
        _at_schema(url, lambda connection: connection.execute(sql))


def counted_at(url: str, table: str) -> int:
    """How many rows a table of a schema has."""
    return int(
        _at_schema(url, lambda connection: connection.fetchval(f"select count(*) from {table}"))
    )


def _at_schema(url: str, work: Callable[[Any], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        base, _, schema = url.rpartition("schema=")
        connection = await asyncpg.connect(base.rstrip("?&"))
        await connection.execute(f'set client_min_messages = warning; set search_path = "{schema}"')
        found = await work(connection)
        await connection.close()
        return found

    # Callers are within a loop, which waits meanwhile.
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(lambda: asyncio.run(run())).result()


async def answered(url: str, session_id: str) -> str:
    """Answer the one question of a session in this store, go on, and say how that ended."""
    async with open_store(url) as store:
        inbox = Inbox(store)
        [item] = [each for each in (await inbox.list()).items if each.session_id == session_id]
        await inbox.answer(item.id, choice="yes", by="anna")
        await Worker(store, team()).run(until_idle=True)
        row = await store.get(session_id)
        return str(row.outcome)
