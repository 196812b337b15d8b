"""Real processes on real databases."""

from __future__ import annotations

import itertools
import os
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import pytest

from ekiden.sessions import Session
from ekiden.storage.memory import MemoryStore
from tests.faults.child import carry_on
from tests.faults.databases import Database, PostgresDatabase, SqliteDatabase
from tests.faults.evidence import Unharmed, read
from tests.faults.family import FamilyEnd, read_family
from tests.faults.family_scene import FamilyReference
from tests.faults.ledger import Ledger
from tests.faults.processes import Nursery
from tests.faults.scenarios import ALL, ASKS, DATABASES
from tests.faults.scene import Scene
from tests.faults.world import World

Reference: TypeAlias = Callable[[str], Awaitable[Unharmed]]

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def victims() -> Iterator[Nursery]:
    """Where those come from who are killed."""
    with Nursery() as nursery:
        yield nursery


@pytest.fixture(scope="session")
def rescuers() -> Iterator[Nursery]:
    """Where those come from who go on."""
    with Nursery() as nursery:
        yield nursery


@pytest.fixture(scope="session")
def postgres_schema(postgres_server_url: str) -> str:
    """A store that all fault tests of this worker share, each with sessions of its own."""
    joint = "&" if "?" in postgres_server_url else "?"
    return f"{postgres_server_url}{joint}schema=faults_{os.urandom(6).hex()}"


@pytest.fixture(params=DATABASES)
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Database:
    """A database that may be used by other tests too."""
    if request.param == "sqlite":
        return SqliteDatabase(tmp_path / "ekiden.db")
    return PostgresDatabase(request.getfixturevalue("postgres_schema"))


@pytest.fixture(params=DATABASES)
def empty_database(request: pytest.FixtureRequest, tmp_path: Path) -> Database:
    """A database without any session."""
    if request.param == "sqlite":
        return SqliteDatabase(tmp_path / "ekiden.db")
    return PostgresDatabase(request.getfixturevalue("postgres_url"))


@pytest.fixture
def session_id() -> str:
    """Of a session that does not exist yet."""
    return f"s{os.getpid()}-{next(_numbers)}"


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    """What the processes of this test did to the world."""
    return Ledger(tmp_path / "ledger")


@pytest.fixture
def scene(
    request: pytest.FixtureRequest, database: Database, session_id: str, ledger: Ledger
) -> Scene:
    """A session for the scenario that the test names as its parameter."""
    return Scene(request.param, database, session_id, ledger)


@pytest.fixture(scope="session")
def unharmed(tmp_path_factory: pytest.TempPathFactory) -> Reference:
    """The outcome of each scenario without a kill, by name."""
    known: dict[str, Unharmed] = {}

    async def of(name: str) -> Unharmed:
        if name not in known:
            known[name] = await _run_in_peace(name, tmp_path_factory.mktemp(name))
        return known[name]

    return of


@pytest.fixture(scope="session")
def unharmed_family(tmp_path_factory: pytest.TempPathFactory) -> FamilyReference:
    """The same of scenarios whose agents ask each other."""
    known: dict[str, FamilyEnd] = {}

    async def of(name: str) -> FamilyEnd:
        if name not in known:
            store, world = MemoryStore(), World(tmp_path_factory.mktemp(name))
            await carry_on(ASKS[name], world, Session("s", store=store))
            family = await read_family(store, "s")
            assert family is not None
            known[name] = FamilyEnd.of(family, world.ledger)
        return known[name]

    return of


async def _run_in_peace(name: str, folder: Path) -> Unharmed:
    store, world = MemoryStore(), World(folder)
    await carry_on(ALL[name], world, Session("s", store=store))
    record = await read(store, "s")
    assert record is not None
    return Unharmed.of(record, world.ledger)
