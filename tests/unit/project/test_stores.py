"""From an address to a store."""

from __future__ import annotations

from pathlib import Path

import pytest

from ekiden.core.errors import StoreUnavailable, UserError
from ekiden.project import open_store
from ekiden.project.stores import DEFAULT_STORE, sqlite_path
from ekiden.storage.memory import MemoryStore


def test_memory_opens_a_memory_store() -> None:
    assert isinstance(open_store("memory:"), MemoryStore)


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("desk.db", "desk.db"),
        ("/var/lib/desk.db", "/var/lib/desk.db"),
        ("sqlite:///desk.db", "desk.db"),
        ("sqlite:////var/lib/desk.db", "/var/lib/desk.db"),
        ("数据/柜台.db", "数据/柜台.db"),
    ],
)
def test_a_sqlite_path_may_be_plain_or_an_address(url: str, path: str) -> None:
    assert sqlite_path(url) == Path(path)


@pytest.mark.parametrize("url", ["memory:", "postgresql://localhost/desk", "postgres://h/d"])
def test_other_addresses_have_no_sqlite_path(url: str) -> None:
    assert sqlite_path(url) is None


@pytest.mark.parametrize("url", ["", "  ", "sqlite://", "sqlite:///"])
def test_an_empty_path_is_refused(url: str) -> None:
    with pytest.raises(UserError, match="path is empty"):
        open_store(url)


def test_an_unknown_scheme_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UserError, match=r"there is no store for mysql://; .*postgresql"):
        open_store("mysql://localhost/desk")


def test_opening_a_missing_store_for_reading_does_not_create_it(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="`ekiden run` creates it"):
        open_store(str(tmp_path / "desk.db"), create=False)
    assert not list(tmp_path.iterdir())


def test_a_missing_folder_is_not_created(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="does not exist"):
        open_store(str(tmp_path / "typo" / "desk.db"))


async def test_the_default_store_creates_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with open_store():
        pass
    assert (tmp_path / DEFAULT_STORE).exists()


async def test_a_postgres_address_opens_a_store(postgres_url: str) -> None:
    async with open_store(postgres_url) as store:
        assert (await store.list()).sessions == []


def test_a_missing_postgres_driver_is_reported_with_the_install_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ekiden.project.stores.find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"pip install 'ekiden\[postgres\]'"):
        open_store("postgresql://localhost/desk")
