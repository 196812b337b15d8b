"""What `ekiden doctor` finds."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import apsw
import pytest

from ekiden.app.doctor import LATER, Check, examine, extras
from ekiden.app.stores import open_store

ROOT = Path(__file__).parents[3]


def named(checks: list[Check], name: str) -> Check:
    """The check of that name."""
    return next(check for check in checks if check.name == name)


async def test_a_store_is_opened_and_described(tmp_path: Path) -> None:
    url = str(tmp_path / "desk.db")
    async with open_store(url):
        pass
    store = named(await examine(url), "store")
    assert store.status == "ok"
    assert "format 1" in store.detail
    assert "sessions 0" in store.detail


async def test_a_store_that_is_not_there_yet_is_no_problem_and_is_not_made(tmp_path: Path) -> None:
    checks = await examine(str(tmp_path / "desk.db"))
    assert all(check.status != "problem" for check in checks)
    assert not list(tmp_path.iterdir())


async def test_a_file_that_is_no_store_is_a_problem(tmp_path: Path) -> None:
    path = tmp_path / "desk.db"
    path.write_bytes(b"this is a text, and not a database at all" * 100)
    store = named(await examine(str(path)), "store")
    assert store.status == "problem"
    assert store.detail.startswith("[store.")


async def test_an_old_sqlite_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apsw, "sqlite_lib_version", lambda: "3.45.1")
    sqlite = named(await examine("memory:"), "sqlite")
    assert sqlite.status == "problem"
    assert "pip install -U apsw" in sqlite.detail


async def test_a_folder_that_cannot_be_written_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(folder: Path) -> float:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("ekiden.app.doctor.fsync_us", full)
    fsync = named(await examine("memory:"), "fsync")
    assert (fsync.status, "No space left" in fsync.detail) == ("problem", True)


def test_extras_say_what_is_there_and_how_to_get_the_rest() -> None:
    checks = extras(
        [
            "pydantic<3,>=2.11",
            "pytest>=9; extra == 'dev'",
            'pytest>=9; extra == "tested"',
            "no-such-thing[x]>=1; extra == 'future'",
            "pytest; extra == 'future'",
        ]
    )
    by_name = {check.name: check for check in checks}
    assert sorted(by_name) == ["extra future", "extra tested"]
    assert by_name["extra tested"].detail.startswith("pytest ")
    assert by_name["extra future"].status == "missing"
    assert by_name["extra future"].detail == "pip install 'ekiden[future]'"


def test_an_extra_without_a_feature_is_not_advised() -> None:
    (check,) = extras(["no-such-thing>=1; extra == 'server'"])
    assert (check.status, check.detail) == ("later", "brings no feature yet")


@pytest.mark.parametrize("extra", sorted(LATER))
def test_nothing_uses_what_an_extra_without_a_feature_installs(extra: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    names = [re.split(r"[^a-z0-9-]", each)[0] for each in project["optional-dependencies"][extra]]
    modules = [re.escape(name.removesuffix("-sdk").split("-exporter")[0]) for name in names]
    used = re.compile(rf"^\s*(?:from|import) (?:{'|'.join(modules)})\b".replace("\\-", "_"), re.M)
    sources = (ROOT / "src").rglob("*.py")
    assert not [path for path in sources if used.search(path.read_text(encoding="utf-8"))]


async def test_every_extra_of_the_package_is_looked_at() -> None:
    names = {check.name for check in await examine("memory:")}
    assert {"extra postgres", "extra server", "extra models", "extra a2a"} <= names
