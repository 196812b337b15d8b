"""Copies of several tenants that are killed on the way, and what may be resumed."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ekiden.app import open_store
from ekiden.app.copying import copies, copy_store, store_info
from ekiden.app.copying.places import target_at
from ekiden.app.tenants import JOINT, tenant_url
from ekiden.core.copy_errors import StoreNotEmpty, StoreUnfinished
from ekiden.core.errors import StoreUnavailable, UserError
from ekiden.storage.base import NewSession
from ekiden.storage.sqlite.copy_target import SqliteTarget
from tests.integration.copying.world import execute_at, made, sessions_at, tenants_made

Place = Callable[[str], str]
KINDS = ("sqlite", "postgresql")
EACH_KIND = pytest.mark.parametrize("kind", KINDS)


class Killed(BaseException):
    """A process ends."""


async def killed(
    monkeypatch: pytest.MonkeyPatch, source: str, target: str, **options: object
) -> None:
    """A copy that ends when the first of its targets is finished."""

    def end(name: str) -> None:
        if name == "copy.finished":
            raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(copies, "fault_point", end)
        with pytest.raises(Killed):
            await copy_store(source, target, **options)  # type: ignore[arg-type]


@EACH_KIND
async def test_what_was_finished_before_is_not_copied_again(
    kind: str, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = place("sqlite"), place(kind)
    await tenants_made(source)
    for _ in range(2):
        await killed(monkeypatch, source, target, resume=True)
    report = await copy_store(source, target, resume=True)
    assert list(report.finished_before) == ["acme", "beta"]
    assert [tenant.name for tenant in report.tenants] == ["default"]
    for name in ("acme", "beta"):
        assert await sessions_at(tenant_url(target, name)) == {f"of-{name}"}
        async with open_store(tenant_url(target, name)) as store:
            assert await store.get_document("ekiden.store", "finished") is None
    with pytest.raises(StoreNotEmpty):
        await copy_store(source, target, resume=True)


@EACH_KIND
async def test_a_tenant_that_was_there_before_is_not_taken_for_finished(
    kind: str, place: Place
) -> None:
    source, target = place("sqlite"), place(kind)
    await tenants_made(source)
    if kind == "sqlite":
        Path(tenant_url(target, "beta")).parent.mkdir()
    await made(tenant_url(target, "beta"), "foreign")
    for resume in (False, True, True):
        with pytest.raises(StoreNotEmpty):
            await copy_store(source, target, resume=resume)
    assert await sessions_at(tenant_url(target, "beta")) == {"foreign"}
    if kind == "sqlite":
        assert not Path(target).exists()


@EACH_KIND
async def test_what_another_copy_finished_is_not_taken_for_finished(
    kind: str, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, other, target = place("sqlite"), place("sqlite"), place(kind)
    await tenants_made(source, "acme")
    await tenants_made(other, "acme")
    await killed(monkeypatch, source, target)
    with pytest.raises(StoreNotEmpty, match="an unfinished copy of"):
        await copy_store(other, target, resume=True)
    with pytest.raises(StoreNotEmpty):
        await copy_store(source, target, resume=True, tenants=["acme"])
    assert [told["unfinished"] for told in await store_info(target)] == [source, None]
    assert (await copy_store(source, target, resume=True)).finished_before == ["acme"]


async def test_a_copy_without_the_main_store_is_resumed_too(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = place("sqlite"), place("sqlite")
    await tenants_made(source, "aa", "bb")
    await killed(monkeypatch, source, target, tenants=["aa", "bb"])
    report = await copy_store(source, target, tenants=["aa", "bb"], resume=True)
    assert list(report.finished_before) == ["bb"]
    for name in ("aa", "bb"):
        assert await sessions_at(tenant_url(target, name)) == {f"of-{name}"}


async def test_a_copy_of_one_file_stays_one_when_it_is_resumed(
    place: Place, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    source, folder = place("sqlite"), tmp_path / "shelf"
    folder.mkdir()
    await tenants_made(source)
    backup = str(folder / "backup.db")
    await killed(monkeypatch, source, backup, alone=True)
    await copy_store(source, backup, alone=True, resume=True)
    found = sorted(str(each.relative_to(folder)) for each in folder.rglob("*.db*"))
    assert found == ["backup.db", "backup.tenants/acme.db", "backup.tenants/beta.db"]


@EACH_KIND
async def test_a_store_is_not_copied_into_itself(kind: str, place: Place) -> None:
    source = place(kind)
    async with open_store(source):
        """Nothing is in it, so that it would be a good target."""
    same = os.path.relpath(source) if kind == "sqlite" else source.replace("schema=", "x=1&schema=")
    same = same.replace("x=1&", "application_name=other&")
    for resume in (False, True):
        with pytest.raises(UserError, match="source and target at once"):
            await copy_store(source, same, resume=resume)
    assert await sessions_at(source) == set()


async def test_a_link_to_a_store_is_the_store(place: Place, tmp_path: Path) -> None:
    source = await made(place("sqlite"))
    for name, link in (("soft", os.symlink), ("hard", os.link)):
        link(source, tmp_path / f"{name}.db")
        with pytest.raises(UserError, match="source and target at once"):
            await copy_store(source, str(tmp_path / f"{name}.db"))


async def test_the_store_of_a_tenant_is_no_target_of_all(place: Place) -> None:
    source = place("sqlite")
    await tenants_made(source, "acme")
    with pytest.raises(UserError, match="source and target at once"):
        await copy_store(source, tenant_url(source, "acme"))


async def test_a_target_that_is_refused_stays_in_its_format(place: Place, tmp_path: Path) -> None:
    target = tmp_path / "old.db"
    sample = Path(__file__).parents[2] / "samples" / "sqlite-format-3.db"
    target.write_bytes(sample.read_bytes())
    with pytest.raises(StoreNotEmpty):
        await copy_store(await made(place("sqlite")), str(target))
    [told] = await store_info(str(target))
    assert told["format"] == 3


async def test_marks_are_taken_away_when_the_beginning_fails(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = place("sqlite"), place("sqlite")
    await tenants_made(source)
    begin = SqliteTarget.begin

    async def refused(self: SqliteTarget, source: str, *, copy: str, resume: bool) -> bool:
        if self.url.endswith("beta.db"):
            raise StoreUnavailable("the disk is full")
        return await begin(self, source, copy=copy, resume=resume)

    with monkeypatch.context() as patched:
        patched.setattr(SqliteTarget, "begin", refused)
        with pytest.raises(StoreUnavailable, match="the disk is full"):
            await copy_store(source, target)
    for url in (target, tenant_url(target, "acme")):
        assert await sessions_at(url) == set()
    await copy_store(source, target)


@EACH_KIND
async def test_a_tenant_that_only_the_target_has_is_told(kind: str, place: Place) -> None:
    source, target = place("sqlite"), place(kind)
    await tenants_made(source, "acme")
    if kind == "sqlite":
        Path(tenant_url(target, "gamma")).parent.mkdir()
    await made(tenant_url(target, "gamma"), "foreign")
    with pytest.raises(StoreNotEmpty, match="1 sessions, and the source has no tenant gamma"):
        await copy_store(source, target)
    await copy_store(source, target, tenants=["acme"])
    execute_at(tenant_url(target, "gamma"), "delete from sessions")
    await copy_store(source, target, tenants=["default"])
    assert await sessions_at(target) == {"main"}


@EACH_KIND
async def test_who_withdraws_takes_away_nobody_elses_mark(kind: str, place: Place) -> None:
    source, target = await made(place("sqlite")), place(kind)
    async with target_at(target) as first, target_at(target) as second:
        await first.begin(source, copy="one", resume=False)
        await second.begin(source, copy="one", resume=True)
        with pytest.raises(Exception, match="another copy took it over"):
            await first.withdraw()
        state = await second.state(JOINT)
        assert state.mark is not None
        await second.withdraw()
        assert (await second.state(JOINT)).mark is None
    async with open_store(target) as store:
        await store.create(NewSession(id="s", agent="a"))


async def test_an_unfinished_copy_is_told_before_anything_is_begun(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = place("sqlite"), place("sqlite")
    await tenants_made(source, "acme")
    await killed(monkeypatch, source, target)
    with pytest.raises(StoreUnfinished):
        await copy_store(source, target)
    report = await copy_store(source, target, resume=True)
    assert list(report.finished_before) == ["acme"]
