"""Old and new versions of Ekiden use one store at the same time."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Protocol

import apsw
import pytest

from ekiden import Agent, Session, SqliteStore
from ekiden.core.agent import Team
from ekiden.core.errors import StoreTooNew, StoreUnavailable
from ekiden.engine import Worker, submit
from ekiden.handoff import handoff
from ekiden.runtime import CodeContext
from ekiden.storage.base import Batch, Commit, NewSession, QueuePut, SessionPatch, Store
from ekiden.storage.copying import Migration
from ekiden.storage.postgres import PostgresStore
from ekiden.storage.postgres.address import parse_address
from ekiden.storage.postgres.database import ConnectionLost
from ekiden.storage.postgres.store import migrate, shipped
from ekiden.storage.sqlite import open_store as sqlite
from ekiden.testing.contracts.base import event, step
from ekiden.testing.contracts.leases import ClaimContract, ClaimNextContract, ReleaseContract
from ekiden.testing.contracts.wake_ups import WakeContract
from tests.support.sql import connect, execute
from tests.support.sqlite import LEASES_RUN_OUT, MovableMilliseconds, execute as execute_sqlite

KNOWN = shipped()[-1].number
MORE = "alter table sessions add column colour{0} text not null default 'red';"
ADDS = f"-- works with: {KNOWN}\n\n{MORE.format(1)}\ncreate table more (a integer);\n"
ADDS_AGAIN = f"-- works with: {KNOWN + 1}\n{MORE.format(2)}\n"
BREAKS = f"{MORE.format(1)}\n"
_LATER = "select (select count(*) from sessions) - (select sessions from counted) as later"


def later(newer: Sequence[str]) -> list[Migration]:
    return [
        Migration(number=number, name=f"{number:04}_more", sql=sql)
        for number, sql in enumerate(newer, KNOWN + 1)
    ]


class Place(Protocol):
    """Where a store is, for code of any format."""

    def store(self, *newer: str) -> Store:
        """The store as code has it that knows these migrations besides ours; not opened."""
        ...

    async def schema(self) -> list[Any]:
        """All that a migration could have changed."""
        ...

    async def later_sessions(self) -> int:
        """The number of sessions that a migration did not find when it made the table `counted`."""
        ...

    async def expire_leases(self) -> None:
        """Let the leases of all sessions end."""
        ...


class SqlitePlace:
    def __init__(self, folder: Path) -> None:
        self._file = folder / "ekiden.db"
        self.time = MovableMilliseconds()

    def store(self, *newer: str) -> SqliteStore:
        migrations = [*sqlite.shipped(), *later(newer)]
        return SqliteStore(self._file, migrations=migrations, lease_clock=self.time.clock)

    async def schema(self) -> list[Any]:
        db = apsw.Connection(str(self._file))
        try:
            return [
                db.execute("PRAGMA user_version").fetchall(),
                db.execute("SELECT name, sql FROM sqlite_schema").fetchall(),
                db.execute("SELECT * FROM migrations").fetchall(),
            ]
        finally:
            db.close()

    async def later_sessions(self) -> int:
        ((count,),) = execute_sqlite(self._file, _LATER)
        return int(count)

    async def expire_leases(self) -> None:
        execute_sqlite(self._file, LEASES_RUN_OUT)


class PostgresPlace:
    def __init__(self, url: str) -> None:
        self.url = url

    def store(self, *newer: str) -> PostgresStore:
        return PostgresStore(self.url, migrations=[*shipped(), *later(newer)])

    async def schema(self) -> list[Any]:
        return [
            await execute(self.url, "select * from migrations order by number"),
            await execute(
                self.url,
                "select table_name, column_name from information_schema.columns"
                " where table_schema = current_schema() order by 1, 2",
            ),
        ]

    async def later_sessions(self) -> int:
        [row] = await execute(self.url, _LATER)
        return int(row["later"])

    async def expire_leases(self) -> None:
        await execute(
            self.url, "update sessions set lease_until = now(), lapses_at = now() - interval '1 h'"
        )


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "sqlite":
        return SqlitePlace(tmp_path)
    return PostgresPlace(request.getfixturevalue("postgres_url"))


async def test_an_old_process_started_after_the_migration_works_with_new_ones(
    place: Place,
) -> None:
    async with place.store(ADDS) as new, place.store() as old:
        assert (await old.info())["format"] == KNOWN + 1
        for mine, theirs in ((old, new), (new, old)):
            name = f"by {type(mine).__name__} {mine is old}"
            await mine.create(NewSession(id=name, agent="a", status="ready"))
            found = await theirs.claim_next(owner="w1", lease_s=30)
            assert found is not None
            claim, row = found
            assert row.id == name
            waiting = SessionPatch(status="waiting")
            await theirs.commit(claim, step(event(1, name), patch=waiting, release=True))
            await mine.write(Batch(wakes=[name]))
            again, _ = await mine.claim(name, owner="w2", lease_s=30)
            assert list(await mine.renew([again])) == []
            idle = SessionPatch(status="idle", outcome="done")
            await mine.commit(again, Commit(patch=idle, events=[event(2, name)], release=True))
            assert (await theirs.get(name)).outcome == "done"


async def test_an_old_process_running_during_the_migration_continues(place: Place) -> None:
    async with place.store() as old:
        await old.create(NewSession(id="s", agent="a", status="ready"))
        claim, _ = await old.claim("s", owner="w1", lease_s=30)
        await old.commit(claim, step(event(1)))
        async with place.store(ADDS) as new:
            assert (await new.info())["format"] == KNOWN + 1
            await old.commit(claim, step(event(2), release=True))
            await old.create(NewSession(id="t", agent="a"))
            assert (await new.get("s")).seq == 2
            assert (await new.get("t")).status == "idle"
            taken, _ = await new.claim("s", owner="w2", lease_s=30)
            await new.commit(taken, step(event(3)))
        assert [each.seq for each in await old.events("s")] == [1, 2, 3]


@pytest.mark.parametrize("newer", [(BREAKS,), (ADDS, ADDS_AGAIN)], ids=["breaks", "skips"])
async def test_an_open_store_of_old_code_is_refused_after_an_incompatible_migration(
    place: Place, newer: tuple[str, ...]
) -> None:
    async with place.store() as old:
        await old.create(NewSession(id="s", agent="a", status="ready"))
        claim, _ = await old.claim("s", owner="w1", lease_s=30)
        async with place.store(*newer) as new:
            attempts: list[Callable[[], Awaitable[Any]]] = [
                lambda: old.commit(claim, step(event(1))),
                lambda: old.claim_next(owner="w1", lease_s=30),
                lambda: old.renew([claim]),
                lambda: old.create(NewSession(id="t", agent="a")),
                lambda: old.put_messages([QueuePut(queue="q", body={})]),
                lambda: old.get("s"),
                lambda: old.events("s"),
                old.info,
            ]
            for attempt in attempts:
                with pytest.raises(StoreTooNew, match="upgrade Ekiden"):
                    await attempt()
            assert [row.id for row in (await new.list()).sessions] == ["s"]
            assert list(await new.events("s")) == []
            assert await new.queue_depth("q") == 0


async def test_old_code_writes_nothing_after_an_incompatible_migration(place: Place) -> None:
    """Old code writes all the time; the migration counts what it finds."""
    counts = "create table counted as select count(*) as sessions from sessions;"
    async with place.store() as old:
        made = asyncio.Event()

        async def write(writer: int) -> None:
            for number in itertools.count():
                await old.create(NewSession(id=f"s{writer}.{number}", agent="a"))
                made.set()

        writers = [asyncio.create_task(write(number)) for number in range(4)]
        async with asyncio.timeout(60):
            await made.wait()
            async with place.store(counts):
                ends = await asyncio.gather(*writers, return_exceptions=True)
        # A call that the migration interrupted only knows that its connection was lost.
        assert {type(end) for end in ends} <= {StoreTooNew, ConnectionLost}
        with pytest.raises(StoreTooNew):
            await old.get("s0.0")
        assert await place.later_sessions() == 0


async def test_a_worker_of_old_code_leaves_its_session_to_a_new_one(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    began, go_on, refused = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def wait(ctx: CodeContext[Any]) -> str:
        began.set()
        await go_on.wait()
        return "done"

    def note(record: logging.LogRecord) -> bool:
        refused.set()
        return True

    caplog.handler.addFilter(note)
    team = Team(Agent("desk", run=wait))
    async with asyncio.timeout(60), place.store() as old:
        await submit(team, "go", session=Session("s", store=old))
        worker = Worker(old, team)
        working = asyncio.create_task(worker.run())
        await began.wait()
        async with place.store(BREAKS) as new:
            go_on.set()
            await refused.wait()
            worker.stop()
            await working
            assert (await new.get("s")).outcome is None
            await place.expire_leases()
            await Worker(new, team).run(until_idle=True)
            assert (await new.get("s")).outcome == "done"
    assert "upgrade Ekiden" in caplog.text


async def test_an_incompatible_format_is_refused_without_changes(place: Place) -> None:
    async with place.store(BREAKS) as new:
        await new.create(NewSession(id="s", agent="a"))
        before = await place.schema()
        with pytest.raises(StoreTooNew, match="upgrade Ekiden") as caught:
            await place.store().open()
        assert (caught.value.found, caught.value.known) == (KNOWN + 1, KNOWN)
        assert await place.schema() == before
        assert (await new.get("s")).id == "s"


async def test_every_unknown_migration_must_be_compatible_with_the_known_format(
    place: Place,
) -> None:
    async with place.store(ADDS, ADDS_AGAIN):
        before = await place.schema()
        async with place.store(ADDS) as middle:
            assert (await middle.info())["format"] == KNOWN + 2
        with pytest.raises(StoreTooNew):
            await place.store().open()
        assert await place.schema() == before


async def test_compatibility_is_read_from_the_store_not_from_the_program(place: Place) -> None:
    async with place.store(BREAKS):
        with pytest.raises(StoreTooNew):
            await place.store().open()
    with pytest.raises(Exception, match="migration") as caught:
        await place.store(ADDS).open()
    assert getattr(caught.value, "code", "") == "store.migration_changed"


async def test_old_and_new_workers_share_the_sessions(place: Place) -> None:
    ran: list[str] = []

    async def triage(ctx: CodeContext[Any]) -> Any:
        ran.append(ctx.session_id)
        answer = await ctx.ask("orders", "where is it?")
        return ctx.hand_off("desk", reason=str(answer))

    async def orders(ctx: CodeContext[Any]) -> str:
        return "Kyoto"

    async def desk(ctx: CodeContext[Any]) -> str:
        return f"it is in {ctx.received['reason']}"

    last = Agent("desk", run=desk)
    team = Team(
        Agent("triage", run=triage, handoffs=[handoff(last)]), Agent("orders", run=orders), last
    )
    async with AsyncExitStack() as stack:
        stores = [await stack.enter_async_context(place.store(*newer)) for newer in ((ADDS,), ())]
        names = [f"s{number}" for number in range(12)]
        for number, name in enumerate(names):
            await submit(team, "go", session=Session(name, store=stores[number % 2]))
        workers = [Worker(store, team, concurrency=3) for store in stores]
        await asyncio.gather(*(worker.run(until_idle=True) for worker in workers))
        rows = [await stores[0].get(name) for name in names]
    assert {(row.agent, row.outcome, row.status) for row in rows} == {("desk", "done", "idle")}
    assert set(ran) == set(names)


class _Mixed(ClaimContract, ReleaseContract, ClaimNextContract, WakeContract):
    """Leases and wakes, with an old handle and a new one."""


class TestOldBesideNewOnSqlite(_Mixed):
    @pytest.fixture
    def sqlite_place(self, tmp_path: Path) -> SqlitePlace:
        self.time = (made := SqlitePlace(tmp_path)).time
        return made

    @pytest.fixture
    async def other(self, sqlite_place: SqlitePlace) -> AsyncIterator[Store]:
        async with sqlite_place.store(ADDS) as new:
            yield new

    @pytest.fixture
    async def store(self, other: Store, sqlite_place: SqlitePlace) -> AsyncIterator[Store]:
        async with sqlite_place.store() as old:
            yield old

    async def advance_clock(self, store: Store, seconds: float) -> None:
        self.time.advance(seconds)


async def test_a_migration_that_may_not_end_old_processes_changes_nothing(
    postgres_url: str,
) -> None:
    address = parse_address(postgres_url)
    role = f"role_of_{address.schema}"
    owned = f"""
        create role {role};
        grant create on database postgres to {role};
        grant all on schema {address.schema} to {role};
        grant all on all tables in schema {address.schema} to {role}"""
    async with PostgresStore(postgres_url) as old:
        await old.create(NewSession(id="s", agent="a"))
        connection = await connect(postgres_url)
        try:
            await connection.execute(f"{owned}; set role {role}")
            with pytest.raises(StoreUnavailable, match="another database role.*stop them"):
                await migrate(connection, address, [*shipped(), *later([BREAKS])])
            assert (await old.info())["format"] == KNOWN
        finally:
            await connection.execute(f"reset role; drop owned by {role}; drop role {role}")
            await connection.close()


async def test_a_migration_fails_if_an_old_connection_does_not_end(postgres_url: str) -> None:
    address = parse_address(postgres_url)
    never = f"""
        create function {address.schema}.pg_terminate_backend(pid int, timeout int)
            returns boolean language sql as 'select false';
        set search_path = {address.schema}, pg_catalog"""
    async with PostgresStore(postgres_url) as old:
        await old.create(NewSession(id="s", agent="a"))
        connection = await connect(postgres_url)
        try:
            await connection.execute(never)
            with pytest.raises(StoreUnavailable, match=r"did not end.*\[\d+\]"):
                await migrate(connection, address, [*shipped(), *later([BREAKS])])
            assert (await old.info())["format"] == KNOWN
        finally:
            await connection.close()
