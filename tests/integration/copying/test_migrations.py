"""`ekiden store migrate`, and what it would do."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ekiden.cli.errors import Exit
from ekiden.cli.main import main
from ekiden.project import open_store
from ekiden.project.stores import tenant_store
from ekiden.storage.base import NewSession
from ekiden.storage.postgres import store as postgres
from ekiden.storage.sqlite import open_store as sqlite

TODAY = sqlite.shipped()[-1].number
ADDS = f"-- works with: {TODAY}\n\ncreate table more (a integer);\n"
BREAKS = "alter table sessions add column colour text;\n"
NEW = [(f"{TODAY + 1:04}_more", ADDS, TODAY), (f"{TODAY + 2:04}_colours", BREAKS, None)]


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a store of today's format, with a second tenant."""
    address = str(tmp_path / "desk.db")
    if request.param == "postgres":
        address = request.getfixturevalue("postgres_url")

    async def fill() -> None:
        for tenant in ("default", "acme"):
            async with tenant_store(address, tenant) as store:
                await store.create(NewSession(id="s", agent="a"))

    asyncio.run(fill())
    return address


@pytest.fixture
def newer(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[list[dict[str, Any]]]:
    """A version of Ekiden with two more migrations, as `--json` shows them."""
    for module in (sqlite, postgres):
        folder = tmp_path / module.__name__
        shutil.copytree(module.FOLDER, folder)
        for name, sql, _ in NEW:
            (folder / f"{name}.sql").write_text(sql)
        monkeypatch.setattr(module, "FOLDER", folder)
        module.shipped.cache_clear()
    yield [
        {"number": number, "name": name, "works_with": works_with}
        for number, (name, _, works_with) in enumerate(NEW, TODAY + 1)
    ]
    for module in (sqlite, postgres):
        module.shipped.cache_clear()


def migrate(capsys: pytest.CaptureFixture[str], url: str, *options: str) -> Any:
    assert main(["store", "migrate", "--store", url, *options, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def formats(capsys: pytest.CaptureFixture[str], url: str) -> list[int]:
    assert main(["store", "info", "--store", url, "--json"]) == 0
    return [each["format"] for each in json.loads(capsys.readouterr().out)]


def test_a_store_of_the_newest_format_is_up_to_date(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for options in (["--dry-run"], []):
        found = migrate(capsys, url, *options)
        assert [each["tenant"] for each in found] == ["default", "acme"]
        assert [(each["format"], each["pending"], each["migrated"]) for each in found] == [
            (TODAY, [], False)
        ] * 2
        assert main(["store", "migrate", "--store", url, *options]) == 0
        assert capsys.readouterr().out.count(f"format {TODAY}: up to date") == 2


def test_a_dry_run_shows_the_migrations_and_changes_nothing(
    url: str, newer: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(2):
        found = migrate(capsys, url, "--dry-run")
        assert [(each["format"], each["pending"], each["migrated"]) for each in found] == [
            (TODAY, newer, False)
        ] * 2
    assert formats(capsys, url) == [TODAY] * 2
    assert main(["store", "migrate", "--dry-run", "--store", url, "--tenants", "acme"]) == 0
    _, *lines = capsys.readouterr().out.splitlines()
    assert lines == [
        f"  format {TODAY}: needs format {TODAY + 2}",
        f"    {NEW[0][0]}: processes that know format {TODAY} can keep running",
        f"    {NEW[1][0]}: processes of older versions cannot use the store afterwards",
        "nothing was changed; to migrate, run the command without --dry-run",
    ]


def test_stores_of_all_tenants_are_migrated(
    url: str, newer: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    found = migrate(capsys, url)
    assert [(each["format"], each["pending"], each["migrated"]) for each in found] == [
        (TODAY, newer, True)
    ] * 2
    assert formats(capsys, url) == [TODAY + 2] * 2
    assert [each["pending"] for each in migrate(capsys, url)] == [[], []]

    async def session() -> str:
        async with open_store(url, create=False) as store:
            return (await store.get("s")).agent

    assert asyncio.run(session()) == "a"


def test_a_missing_store_is_not_created(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "missing.db"
    for options in (["--dry-run"], []):
        assert main(["store", "migrate", "--store", str(path), *options]) == Exit.STORE
        assert "error[store." in capsys.readouterr().err
    assert not path.exists()


def test_a_newer_store_is_refused(
    url: str, newer: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    migrate(capsys, url)
    for module in (sqlite, postgres):
        (module.FOLDER / f"{NEW[1][0]}.sql").unlink()
        module.shipped.cache_clear()
    for options in (["--dry-run"], []):
        assert main(["store", "migrate", "--store", url, *options]) == Exit.STORE
        assert "error[store.too_new]" in capsys.readouterr().err
