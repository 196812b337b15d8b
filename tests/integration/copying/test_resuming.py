"""Copies of several tenants that are killed on the way, and what may be resumed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ekiden.core.errors import StoreUnavailable
from ekiden.core.errors.stored_data import StoreNotEmpty, StoreUnfinished
from ekiden.project import open_store
from ekiden.project.copying import copies, copy_store, store_info
from ekiden.project.stores import tenant_url
from ekiden.storage.postgres.snapshot import PostgresTarget
from tests.integration.copying.world import execute_at, made, sessions_at, tenants_made

Place = Callable[[str], str]


class Killed(BaseException):
    """A process ends."""


async def killed(
    monkeypatch: pytest.MonkeyPatch, source: str, target: str, **options: object
) -> None:
    """A copy that ends when all of it was compared."""

    def end(name: str) -> None:
        if name == "copy.verified":
            raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(copies, "fault_point", end)
        with pytest.raises(Killed):
            await copy_store(source, target, **options)  # type: ignore[arg-type]


async def test_resuming_does_not_take_a_foreign_tenant_for_finished(place: Place) -> None:
    source, target = place("sqlite"), place("postgresql")
    await tenants_made(source)
    await made(tenant_url(target, "beta"), "foreign")
    for resume in (False, True, True):
        with pytest.raises(StoreNotEmpty):
            await copy_store(source, target, resume=resume)
    assert await sessions_at(tenant_url(target, "beta")) == {"foreign"}
    with pytest.raises(StoreUnavailable, match="there is no store"):
        await store_info(target)


async def test_a_tenant_that_exists_only_at_the_target_is_reported(place: Place) -> None:
    source, target = place("sqlite"), place("postgresql")
    await tenants_made(source, "acme")
    await made(tenant_url(target, "gamma"), "foreign")
    with pytest.raises(StoreNotEmpty, match="1 sessions, and the source has no tenant gamma"):
        await copy_store(source, target)
    await copy_store(source, target, tenants=["acme"])
    execute_at(tenant_url(target, "gamma"), "delete from sessions")
    await copy_store(source, target, tenants=["default"])
    assert await sessions_at(target) == {"main"}


@pytest.mark.parametrize("tenants", [None, ["aa", "bb"]])
async def test_all_tenants_are_marked_as_finished_at_once(
    tenants: list[str] | None, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, other, target = place("sqlite"), place("sqlite"), place("postgresql")
    await tenants_made(source, "aa", "bb")
    await tenants_made(other, "aa", "bb")
    await killed(monkeypatch, source, target, tenants=tenants)
    names = tenants or ["default", "aa", "bb"]
    for name in names:
        with pytest.raises(StoreUnfinished):
            await open_store(tenant_url(target, name)).open()
    with pytest.raises(StoreUnfinished):
        await copy_store(source, target, tenants=tenants)
    with pytest.raises(StoreNotEmpty, match="an unfinished copy of"):
        await copy_store(other, target, tenants=tenants, resume=True)
    report = await copy_store(source, target, tenants=tenants, resume=True)
    assert [tenant.name for tenant in report.tenants] == names
    for name in ("aa", "bb"):
        assert await sessions_at(tenant_url(target, name)) == {f"of-{name}"}
    with pytest.raises(StoreNotEmpty):
        await copy_store(source, target, tenants=tenants, resume=True)


async def test_no_tenant_is_marked_if_one_mark_fails(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = place("sqlite"), place("postgresql")
    await tenants_made(source)
    mark = PostgresTarget.mark

    async def refused(self: PostgresTarget, connection: Any, *, resume: bool) -> None:
        if self.url.endswith("beta"):
            raise StoreUnavailable("the disk is full")
        await mark(self, connection, resume=resume)

    with monkeypatch.context() as patched:
        patched.setattr(PostgresTarget, "mark", refused)
        with pytest.raises(StoreUnavailable, match="the disk is full"):
            await copy_store(source, target)
    for url in (target, tenant_url(target, "acme")):
        assert await sessions_at(url) == set()
    await copy_store(source, target)
