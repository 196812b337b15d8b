"""Copies that must not be made, that fail on the way, or that others disturb."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import asyncpg
import pytest

from ekiden import Session
from ekiden.core.errors import StoreTooNew, StoreUnavailable, UserError
from ekiden.core.errors.stored_data import (
    CopyDiffers,
    NotCopyable,
    SourceInUse,
    StoreNotEmpty,
    StoreUnfinished,
)
from ekiden.project import open_store
from ekiden.project.copying import CopyStep, copy_store, store_info, verify_store
from ekiden.project.keys import KeyStore
from ekiden.project.stores import tenant_url
from ekiden.storage.base import DocumentWrite, NewSession, QueuePut
from ekiden.storage.postgres.address import parse_address
from ekiden.storage.postgres.snapshot import PostgresTarget, in_one_transaction
from tests.integration.copying.world import (
    act,
    execute_at,
    made,
    rows_of,
    same,
    sessions_at,
    tenants_made,
)
from tests.support.sqlite import execute

Place = Callable[[str], str]
MARK = partial(PostgresTarget.mark, resume=False)
EACH_KIND = pytest.mark.parametrize("kind", ["sqlite", "postgresql"])


class Stopped(Exception):
    """A test stops a copy."""


def stop_at(phase: str) -> Callable[[CopyStep], None]:
    """Stops a copy when it comes there."""

    def step(told: CopyStep) -> None:
        if told.phase == phase:
            raise Stopped

    return step


async def half_copied(source: str, target: str, phase: str = "compare") -> None:
    with pytest.raises(Stopped):
        await copy_store(source, target, progress=stop_at(phase))


async def test_a_store_with_sessions_is_refused_as_target(place: Place) -> None:
    source, target = await made(place("sqlite")), await made(place("postgresql"), "other")
    before = await rows_of(target)
    for resume in (False, True):
        with pytest.raises(StoreNotEmpty, match="1 sessions"):
            await copy_store(source, target, resume=resume)
    assert await rows_of(target) == before


@pytest.mark.parametrize("fill", ["document", "message"])
async def test_a_store_with_other_content_is_refused_as_target(fill: str, place: Place) -> None:
    source, target = await made(place("sqlite")), place("postgresql")
    async with open_store(target) as store:
        if fill == "document":
            await store.write_documents([DocumentWrite(collection="c", key="k", body=1)])
        else:
            await store.put_messages([QueuePut(queue="q", body=1)])
    with pytest.raises(StoreNotEmpty, match=fill):
        await copy_store(source, target)


@pytest.mark.parametrize("phase", ["copy", "compare", "audit"])
async def test_an_unfinished_copy_is_refused_everywhere_until_it_is_completed(
    phase: str, place: Place
) -> None:
    source, target = await made(place("sqlite")), place("postgresql")
    await half_copied(source, target, phase)
    with pytest.raises(StoreUnfinished, match="--resume"):
        await open_store(target).open()
    with pytest.raises(StoreUnfinished):
        await Session("s1", store=open_store(target)).get_items()
    with pytest.raises(StoreUnfinished):
        await verify_store(target)
    with pytest.raises(StoreUnfinished):
        await copy_store(source, target)
    [told] = await store_info(target)
    assert told["unfinished"] == source
    async with open_store(source) as store:
        await store.create(NewSession(id="s3", agent="a"))
        await store.delete("s1")
    await copy_store(source, target, resume=True)
    assert same(await rows_of(target)) == same(await rows_of(source))
    [told] = await store_info(target)
    assert told["unfinished"] is None


async def test_resuming_a_copy_that_was_not_started_creates_a_copy(place: Place) -> None:
    source, target = await made(place("sqlite")), place("postgresql")
    assert (await copy_store(source, target, resume=True)).rows == 2


async def test_rows_written_during_the_copy_are_not_copied_but_counted(place: Place) -> None:
    source, target = await made(place("sqlite")), place("postgresql")
    before = await rows_of(source)
    async with open_store(source) as store:
        loop = asyncio.get_running_loop()
        late: list[asyncio.Task[None]] = []

        def meddle(step: CopyStep) -> None:
            if not late:
                new = NewSession(id="late", agent="a")
                late.append(loop.create_task(store.create(new)))

        report = await copy_store(source, target, progress=meddle)
        await late[0]
    assert same(await rows_of(target)) == same(before)
    assert dict(report.tenants[0].later) == {"sessions": 1}


async def test_a_copy_is_consistent_despite_concurrent_writes(place: Place) -> None:
    source, target = place("sqlite"), place("postgresql")
    async with open_store(source) as store:
        for number in range(3):
            await act(store, "run", number)
        done = asyncio.Event()

        async def write() -> None:
            number = 10
            while not done.is_set():
                await act(store, "run", number)
                number += 1

        async with asyncio.TaskGroup() as group:
            group.create_task(write())
            report = await copy_store(source, target)
            done.set()
    assert report.audit_ok
    [found] = await verify_store(target)
    assert found.ok


async def test_a_final_copy_is_refused_while_a_session_is_claimed(place: Place) -> None:
    source, target = await made(place("sqlite")), place("postgresql")
    async with open_store(source) as store:
        claim, _ = await store.claim("s1", owner="me", lease_s=60)
        with pytest.raises(SourceInUse, match="processes work on its sessions"):
            await copy_store(source, target, final=True)
        with pytest.raises(StoreUnavailable, match="there is no store"):
            await store_info(target)
        report = await copy_store(source, target)
        assert report.tenants[0].leases == 1
        await store.release(claim)
    again = await copy_store(source, place("postgresql"), final=True)
    assert again.tenants[0].leases == 0
    async with open_store(target) as store:
        row = await store.get("s1")
        assert (row.owner, row.epoch) == (None, 1)
        assert (await store.claim("s1", owner="other", lease_s=60))[0].epoch == 2


async def test_a_final_copy_fails_if_the_source_changed_meanwhile(place: Place) -> None:
    source, target = await made(place("sqlite")), place("postgresql")

    def meddle(step: CopyStep) -> None:
        if step.phase == "audit":
            execute(Path(source), "UPDATE sqlite_sequence SET seq = seq + 1")

    with pytest.raises(SourceInUse, match="during the copy"):
        await copy_store(source, target, final=True, progress=meddle)
    with pytest.raises(StoreUnfinished):
        await open_store(target).open()


async def test_a_row_changed_between_copy_and_comparison_is_detected(place: Place) -> None:
    source, target = await made(place("sqlite")), place("postgresql")

    def meddle(step: CopyStep) -> None:
        if step.phase == "copy":
            execute_at(target, "update sessions set agent = 'b' where id = 's2'")

    with pytest.raises(CopyDiffers, match="rows of sessions"):
        await copy_store(source, target, progress=meddle)
    with pytest.raises(StoreUnfinished):
        await open_store(target).open()


async def test_a_row_added_at_the_target_is_detected(place: Place) -> None:
    source, target = await made(place("sqlite")), place("postgresql")

    def meddle(step: CopyStep) -> None:
        if step.phase == "copy":
            execute_at(target, "insert into steps (session, key, result) values (1, 'k', '1')")

    with pytest.raises(CopyDiffers, match="steps has 1 rows, and 0 were written"):
        await copy_store(source, target, progress=meddle)


async def test_of_two_copies_into_one_store_only_the_later_one_finishes(place: Place) -> None:
    source, target = await made(place("sqlite")), place("postgresql")
    first, second = (PostgresTarget(parse_address(target), source=source) for _ in range(2))
    async with first:
        await in_one_transaction([first], MARK)
        with pytest.raises(StoreUnfinished):
            await in_one_transaction([second], MARK)
        await in_one_transaction([second], partial(PostgresTarget.mark, resume=True))
        with pytest.raises(CopyDiffers, match="another copy has taken over"):
            await first.write("search_spaces", [(1, "x")])
        with pytest.raises(CopyDiffers):
            await in_one_transaction([first], PostgresTarget.finish)
    await copy_store(source, target, resume=True)


async def test_a_row_another_process_wrote_first_is_reported(place: Place) -> None:
    target = place("postgresql")
    async with PostgresTarget(parse_address(target)) as opened:
        await in_one_transaction([opened], MARK)
        await opened.write("search_spaces", [(1, "x")])
        with pytest.raises(CopyDiffers, match="another process writes to search_spaces"):
            await opened.write("search_spaces", [(1, "x")])


async def test_a_key_too_long_for_the_target_is_reported(place: Place) -> None:
    source, target = place("sqlite"), place("postgresql")
    async with open_store(source) as store:
        key = os.urandom(20_000).hex()
        await store.write_documents([DocumentWrite(collection="c", key=key, body=1)])
    with pytest.raises(NotCopyable, match="documents"):
        await copy_store(source, target)


async def test_an_invalid_time_is_reported(place: Place) -> None:
    source, target = await made(place("sqlite")), place("postgresql")
    execute(Path(source), f"UPDATE sessions SET created_us = {-(2**62)}")
    with pytest.raises(NotCopyable, match="sessions"):
        await copy_store(source, target)


async def test_an_unreadable_row_is_reported_as_not_copyable(place: Place) -> None:
    source = place("sqlite")
    async with open_store(source) as store:
        await act(store, "run", 0)
    execute(Path(source), "UPDATE events SET type = 999 WHERE id = 1")
    with pytest.raises(NotCopyable, match="events cannot be read"):
        await copy_store(source, place("postgresql"))


async def test_a_broken_audit_is_copied_and_reported(place: Place) -> None:
    source, target = place("sqlite"), place("postgresql")
    async with open_store(source) as store:
        await act(store, "run", 0)
    sql = "UPDATE events SET agent = 'mallory' WHERE id = (SELECT id FROM events WHERE type = 3)"
    execute(Path(source), sql)
    report = await copy_store(source, target)
    assert not report.audit_ok
    for url in (source, target):
        found = (await verify_store(url))[0]
        assert not found.ok
        assert not found.faults
        assert found.audit.first is not None
        assert found.audit.first.fault == "changed"


@EACH_KIND
async def test_verification_finds_orphaned_rows_and_invalid_json(kind: str, place: Place) -> None:
    url = await made(place(kind))
    execute_at(url, "insert into steps (session, key, result) values (77, 'k', '{')")
    [found] = await verify_store(url)
    assert found.audit.ok
    assert list(found.faults) == [
        "1 of the rows in steps belong to none of the sessions",
        "1 of the rows in steps are not JSON",
    ]
    assert found.to_json()["ok"] is False


async def test_a_damaged_source_file_is_reported(place: Place) -> None:
    url = place("sqlite")
    await made(url, *(f"session-{number}" for number in range(300)))
    path = Path(url)
    data = bytearray(path.read_bytes())
    data[-4096:] = b"\xff" * 4096
    path.write_bytes(data)
    with pytest.raises(StoreUnavailable, match="damaged"):
        await copy_store(url, place("postgresql"))


@pytest.mark.parametrize(
    ("address", "error"),
    [
        ("", UserError),
        ("memory:", UserError),
        ("mysql://localhost/x", UserError),
        ("postgresql://user:hush hush@host:1:2/x", UserError),
        ("postgresql://nobody:hushhush@127.0.0.1:1/x", StoreUnavailable),
        ("/nowhere/at/all.db", StoreUnavailable),
    ],
)
async def test_an_unreachable_address_is_reported(
    address: str, error: type[Exception], place: Place
) -> None:
    source = await made(place("sqlite"))
    with pytest.raises((error, UserError)) as from_there:
        await copy_store(address, place("postgresql"))
    with pytest.raises((error, UserError)) as to_there:
        await copy_store(source, address)
    for refused in (from_there, to_there):
        assert "hush" not in str(refused.value)
    assert any(isinstance(refused.value, error) for refused in (from_there, to_there))


async def test_a_file_that_is_not_a_store_is_not_copied(place: Place, tmp_path: Path) -> None:
    target = place("postgresql")
    with pytest.raises(StoreUnavailable, match="there is no store"):
        await copy_store(place("sqlite"), target)
    other = tmp_path / "other.db"
    execute(other, "CREATE TABLE mine (x)")
    with pytest.raises(StoreUnavailable, match="another program"):
        await copy_store(str(other), target)
    text = tmp_path / "text.db"
    text.write_text("hello " * 200)
    with pytest.raises(StoreUnavailable, match="not an SQLite database"):
        await copy_store(str(text), target)
    with pytest.raises(StoreUnavailable, match="there is no store"):
        await store_info(target)


async def test_a_store_of_a_newer_format_is_not_copied(place: Place) -> None:
    source = await made(place("sqlite"))
    execute(Path(source), "PRAGMA user_version = 999")
    with pytest.raises(StoreTooNew):
        await copy_store(source, place("postgresql"))


async def test_verifying_a_store_of_an_older_format_is_refused(
    place: Place, upgrade: Callable[[], int]
) -> None:
    source = await made(place("sqlite"))
    newest = upgrade()
    with pytest.raises(UserError, match=f"has format {newest - 1}"):
        await verify_store(source)
    [told] = await store_info(source)
    assert told["format"] == newest - 1


async def test_a_role_without_write_permission_is_reported(
    place: Place, postgres_server_url: str
) -> None:
    source, target = await made(place("sqlite")), place("postgresql")
    role = f"reader_{os.urandom(4).hex()}"
    connection = await asyncpg.connect(postgres_server_url)
    await connection.execute(f"create role {role} login")
    try:
        limited = target.replace("postgres@", f"{role}@")
        with pytest.raises(UserError, match="may not use"):
            await copy_store(source, limited)
        await made(target)
        with pytest.raises(UserError, match="may not use"):
            await store_info(limited)
    finally:
        await connection.execute(f"drop role {role}")
        await connection.close()


async def test_the_stores_of_all_tenants_are_copied(place: Place) -> None:
    source, target = place("sqlite"), place("postgresql")
    await tenants_made(source)
    async with open_store(source) as store:
        await KeyStore(store).create("k", scopes=["read"], tenant="acme")
    report = await copy_store(source, target)
    assert [tenant.name for tenant in report.tenants] == ["default", "acme", "beta"]
    assert await sessions_at(target) == {"main"}
    assert await sessions_at(tenant_url(target, "acme")) == {"of-acme"}
    async with open_store(target) as store:
        assert [key.tenant for key in await KeyStore(store).list()] == ["acme"]
    [_, acme, _] = await store_info(target)
    assert (acme["tenant"], acme["sessions"]) == ("acme", 1)
    assert all(found.ok for found in await verify_store(target))


async def test_selected_tenants_can_be_copied(place: Place) -> None:
    source, target = place("sqlite"), place("postgresql")
    await tenants_made(source)
    report = await copy_store(source, target, tenants=["beta"])
    assert [tenant.name for tenant in report.tenants] == ["beta"]
    with pytest.raises(StoreUnavailable, match="there is no store"):
        await store_info(target)
    assert await sessions_at(tenant_url(target, "beta")) == {"of-beta"}
    with pytest.raises(UserError, match="no store of a tenant 'gamma'.*acme, beta"):
        await copy_store(source, target, tenants=["gamma"])
    with pytest.raises(UserError, match="cannot be called"):
        await copy_store(source, target, tenants=["../x"])
    with pytest.raises(UserError, match="at least one"):
        await copy_store(source, target, tenants=[])


async def test_no_tenant_is_usable_before_all_are_copied(place: Place) -> None:
    source, target = place("sqlite"), place("postgresql")
    await tenants_made(source)

    def stop(step: CopyStep) -> None:
        if step.tenant == "beta":
            raise Stopped

    with pytest.raises(Stopped):
        await copy_store(source, target, progress=stop)
    for url in (target, tenant_url(target, "acme"), tenant_url(target, "beta")):
        with pytest.raises(StoreUnfinished):
            await open_store(url).open()
    await copy_store(source, target, resume=True)
    assert await sessions_at(target) == {"main"}
    assert await sessions_at(tenant_url(target, "beta")) == {"of-beta"}
