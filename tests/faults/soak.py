"""The soak: workers that are killed all the time, and sessions that all end right.

    python -m tests.faults.soak --seconds 300 --workers 4 --sessions 1000 --store postgresql --json

Sessions with handoffs, tools, questions, approvals and rollbacks are fed over the whole time to
worker processes on one store, two people answer what the inbox asks, and a random worker is killed
with SIGKILL every 0.2 to 2 seconds. In the end nothing may be lost, doubled or left over. ``--store
postgresql`` starts a server of its own; an URL uses that store, which must be empty.

``--kill workers,servers,postgres`` also kills HTTP servers, which clients start the runs through,
and PostgreSQL itself.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from ekiden.engine import submit
from ekiden.project.stores import open_store
from ekiden.runtime import RunConfig
from ekiden.sessions import Session
from ekiden.storage.base import SessionFilter, Store
from tests.faults import soak_checks as checks
from tests.faults.ledger import Ledger
from tests.faults.soak_crew import Crew, haunt, kill_database, python
from tests.faults.soak_owners import (
    Change,
    owner_changes,
    owners_by_epoch,
    takeovers,
    watch_owners,
    wrong_owners,
)
from tests.faults.soak_servers import Servers, servers
from tests.faults.soak_team import FOLDER, TEAM, THINKS_S, Order, made_team
from tests.faults.world import World
from tests.support.server import Server, private_server

KINDS = ("workers", "servers", "postgres")
"""What can be killed."""
_PEOPLE = ("anna", "ben")
_SERVER_LIVES_S = (2.0, 8.0)
_MOST_SHOWN = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Soak:
    """What is to be done."""

    store: str
    """The URL of an empty store."""
    folder: Path
    """Of the ledger, and of what the processes print."""
    seconds: float = 10.0
    sessions: int = 40
    workers: int = 4
    concurrency: int = 8
    lease_s: float = 2.0
    thinks_s: float = 0.05
    zombies: bool = False
    kills: Collection[str] = ("workers",)
    """Of `KINDS`."""
    database: Server | None = None
    """The server of the store, if it is to be killed."""
    seed: int = 0
    temporal: str | None = None
    """The address of the Temporal server that the workers use; `None`: they need none."""
    patience_s: float = 120.0
    """How long the rest may take after the last kill."""

    @property
    def orders(self) -> dict[str, Order]:
        """What people want, by session."""
        chance = random.Random(self.seed)
        names = [f"s{number}" for number in range(self.sessions)]
        return {name: Order.of_chance(name, chance) for name in names}


@dataclass(slots=True, kw_only=True)
class Report:
    """What came of it."""

    sessions: int
    seconds: float
    rest_s: float = 0.0
    """How long the last sessions took after the last kill."""
    rows: int = 0
    """Sessions with those that were opened for questions."""
    kills: int = 0
    """Of workers."""
    server_kills: int = 0
    database_kills: int = 0
    repeated_posts: int = 0
    zombies: int = 0
    fell: list[int] = field(default_factory=list)
    exits: list[int] = field(default_factory=list)
    """Of the workers that were asked to end."""
    takeovers: int = 0
    steps: int = 0
    """Committed ones."""
    most_epochs: int = 0
    effects: int = 0
    repeated_effects: int = 0
    """Calls that came again under the key of an effect that had happened."""
    repeated_models: int = 0
    approvals: int = 0
    too_late: int = 0
    """Answers of people that came second."""
    problems: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether nothing was wrong."""
        return not self.problems


async def run(soak: Soak) -> Report:
    """Do it, and check everything."""
    extra = {FOLDER: str(soak.folder), THINKS_S: str(soak.thinks_s)}
    chance = random.Random(soak.seed)
    report = Report(sessions=soak.sessions, seconds=soak.seconds)
    ledger = Ledger(soak.folder)
    async with open_store(soak.store) as store:
        await watch_owners(soak.store)
        with (
            _people(soak, extra) as people,
            _servers(soak, extra) as serving,
            Crew(
                _worker(soak), size=soak.workers, folder=soak.folder, extra=extra, name="workers"
            ) as crew,
        ):
            crews = [crew, *(serving.crews if serving else ())]
            for each in crews:
                await each.until_up()
            async with asyncio.TaskGroup() as group:
                group.create_task(_feed(store, soak, chance, serving))
                _begin_faults(group, soak, crews, report)
            await _rest(store, soak, crews, report)
            for each in crews:
                await each.until_up()  # One that is still starting knows no signals yet.
            for each in (*crews, *people):
                report.exits += await each.leave()
        for each in crews[1:]:
            report.server_kills += each.toll.killed
            report.fell += each.toll.fell
        report.repeated_posts = serving.repeats if serving else 0
        report.kills, report.zombies = crew.toll.killed, crew.toll.stopped
        report.fell += crew.toll.fell
        await _judge(store, soak, ledger, report)
    return report


def _begin_faults(
    group: asyncio.TaskGroup, soak: Soak, crews: Sequence[Crew], report: Report
) -> None:
    """Kill what is to be killed: of the crews, the first are the workers."""
    for number, crew in enumerate(crews):
        if KINDS[min(number, 1)] in soak.kills:
            chance = random.Random(soak.seed + 1 + number)
            every_s = (0.2, 2.0) if number == 0 else _SERVER_LIVES_S
            given = {"seconds": soak.seconds, "lease_s": soak.lease_s, "zombies": soak.zombies}
            group.create_task(haunt(crew, chance=chance, every_s=every_s, **given))
    if soak.database is not None:
        group.create_task(_kill_database(soak.database, soak, report))


async def _kill_database(server: Server, soak: Soak, report: Report) -> None:
    chance = random.Random(soak.seed)
    report.database_kills = await kill_database(server, seconds=soak.seconds, chance=chance)


@contextmanager
def _servers(soak: Soak, extra: Mapping[str, str]) -> Iterator[Servers | None]:
    """HTTP servers, if they or the database are killed: only a client that repeats its request
    knows what came of it."""
    if not {"servers", "postgres"} & set(soak.kills):
        yield None
        return
    with servers(soak.store, folder=soak.folder, extra=extra) as found:
        yield found


@contextmanager
def _people(soak: Soak, extra: Mapping[str, str]) -> Iterator[list[Crew]]:
    with (
        Crew(_person(soak, _PEOPLE[0]), size=1, folder=soak.folder, extra=extra, name="a") as anna,
        Crew(_person(soak, _PEOPLE[1]), size=1, folder=soak.folder, extra=extra, name="b") as ben,
    ):
        yield [anna, ben]


def _worker(soak: Soak) -> list[str]:
    """`ekiden worker`, as anybody starts it."""
    options = {
        "--store": soak.store,
        "--team": TEAM,
        "--lease": f"{soak.lease_s:g}",
        "--concurrency": str(soak.concurrency),
    }
    if soak.temporal is not None:
        options |= {"--engine": "temporal", "--address": soak.temporal}
    return [*python("ekiden.cli", "worker"), *chain.from_iterable(options.items())]


def _person(soak: Soak, name: str) -> list[str]:
    return [*python("tests.faults.soak_person", soak.store, name)]


async def _feed(store: Store, soak: Soak, chance: random.Random, serving: Servers | None) -> None:
    """Store a message in each session, spread over nearly the whole time."""
    team, config = made_team(World(soak.folder)), RunConfig(lease_s=soak.lease_s)
    began, orders = time.monotonic(), soak.orders
    due = sorted(chance.uniform(0, soak.seconds * 0.9) for _ in orders)
    async with asyncio.timeout(soak.seconds + soak.patience_s), asyncio.TaskGroup() as posting:
        for (name, order), at in zip(orders.items(), due, strict=True):
            await asyncio.sleep(max(began + at - time.monotonic(), 0))
            if serving is not None:
                posting.create_task(serving.post(name, order.text, chance))
                continue
            session = Session(name, store=store)
            await submit(team, order.text, session=session, run_config=config)


async def _rest(store: Store, soak: Soak, crews: Sequence[Crew], report: Report) -> None:
    """Wait until no session has anything to do."""
    began = time.monotonic()
    while await _is_open(store):
        for crew in crews:
            crew.replace_fallen()
        if time.monotonic() > began + soak.patience_s:
            report.problems.append(f"not all sessions ended within {soak.patience_s:g} s")
            break
        await store.wait_for_change(0.1)
    report.rest_s = round(time.monotonic() - began, 3)


async def _is_open(store: Store) -> bool:
    for status in ("ready", "waiting"):
        page = await store.list(SessionFilter(status=status), limit=1)
        if page.sessions:
            return True
    return False


async def _judge(store: Store, soak: Soak, ledger: Ledger, report: Report) -> None:
    orders = soak.orders
    changes = await owner_changes(soak.store)
    left = await checks.leftovers(store)
    report.problems += [
        *await checks.wrong_sessions(store, orders),
        *await checks.wrong_audit(store),
        *checks.wrong_effects(ledger, orders.values()),
        *checks.wrong_models(ledger.lines("model")),
        *checks.wrong_people(ledger),
        *wrong_owners(changes, lease_s=soak.lease_s),
        *checks.wrong_claims(ledger, owners_by_epoch(changes)),
        *(f"left over: {number} {what}" for what, number in asdict(left).items() if number),
        *(f"a worker fell with exit code {code}" for code in report.fell),
        *(f"a process that was asked to end gave {code}" for code in report.exits if code),
    ]
    _count(report, ledger, changes)
    report.rows = len(await checks.all_rows(store))


def _count(report: Report, ledger: Ledger, changes: list[Change]) -> None:
    report.takeovers = takeovers(changes)
    report.steps = sum(change.seq != change.seq0 for change in changes)
    report.most_epochs = max((change.epoch for change in changes), default=0)
    report.effects = len(ledger.effects())
    report.repeated_effects = len(ledger.lines("attempt")) - report.effects
    asked = Counter((line["session"], line["step"]) for line in ledger.lines("model"))
    report.repeated_models = asked.total() - len(asked)
    report.approvals = len(ledger.lines("answered"))
    report.too_late = len(ledger.lines("too_late"))


def shown(report: Report) -> dict[str, Any]:
    """The report as JSON, with as many problems as anybody wants to read."""
    told = {"ok": report.ok, **asdict(report)}
    told["problems"] = [each[:1000] for each in report.problems[:_MOST_SHOWN]]
    told["problem_count"] = len(report.problems)
    return told


@contextmanager
def _store(wanted: str, folder: Path, *, is_killed: bool) -> Iterator[tuple[str, Server | None]]:
    """The address of the store, and its server if it may be killed."""
    if wanted == "postgresql":
        with private_server(is_killed=is_killed) as server:
            yield server.url, server if is_killed else None
    else:
        yield (str(folder / "soak.db") if wanted == "sqlite" else wanted), None


@contextmanager
def _temporal(engine: str) -> Iterator[str | None]:
    if engine == "worker":
        yield None
        return
    from tests.support.temporal import DevServer, client_of

    with DevServer() as server:
        asyncio.run(client_of(server))
        yield server.address


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.soak", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--sessions", type=int, default=200)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--concurrency", type=int, default=8)
    parser.add_argument("--lease", type=float, default=2.0, help="seconds")
    parser.add_argument("--thinks", type=float, default=0.5, help="seconds, at most")
    parser.add_argument("--store", default="sqlite", help="sqlite, postgresql or an URL")
    parser.add_argument("--engine", default="worker", choices=["worker", "temporal"])
    parser.add_argument("--kill", default="workers", help=f"any of {','.join(KINDS)}")
    parser.add_argument("--zombies", action="store_true", help="stop some, and wake them later")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--patience", type=float, default=300.0, help="seconds for the rest")
    parser.add_argument("--keep", type=Path, help="a folder for the ledger and all output")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    kills = given.kill.split(",")
    if not set(kills) <= set(KINDS):
        parser.error(f"--kill takes {', '.join(KINDS)}")
    is_killed = "postgres" in kills
    if is_killed and given.store != "postgresql":
        parser.error("--kill postgres needs --store postgresql")
    with tempfile.TemporaryDirectory(prefix="ekiden-soak-") as made:
        folder = given.keep or Path(made)
        folder.mkdir(parents=True, exist_ok=True)
        with (
            _store(given.store, folder, is_killed=is_killed) as (url, database),
            _temporal(given.engine) as temporal,
        ):
            report = asyncio.run(
                run(
                    Soak(
                        store=url,
                        folder=folder,
                        seconds=given.seconds,
                        sessions=given.sessions,
                        workers=given.workers,
                        concurrency=given.concurrency,
                        lease_s=given.lease,
                        thinks_s=given.thinks,
                        zombies=given.zombies,
                        kills=kills,
                        database=database,
                        seed=given.seed,
                        temporal=temporal,
                        patience_s=given.patience,
                    )
                )
            )
    if given.json:
        print(json.dumps(shown(report)))
    else:
        for name, value in shown(report).items():
            print(f"{name}: {value}")
    return 0 if report.ok else 1


if __name__ == "__main__":
    sys.exit(main())
