"""Writes the samples of today's format: ``python -m tests.samples.make``."""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import apsw

from ekiden import Bus, Collaborations, HandoffController, Runner, Session
from ekiden.collaboration import CollaborationSettings
from ekiden.core.errors import ModelError
from ekiden.engine import submit
from ekiden.project import open_store
from ekiden.runtime.history.session_state import update_shared_state
from ekiden.storage.base import DocumentWrite, SearchEntry
from ekiden.storage.postgres.address import parse_address
from ekiden.storage.sqlite.open_store import shipped
from tests.samples.team import CONFIG, PICTURES, YEARS_S, World, team
from tests.support.server import pgserver, shared_server
from tests.support.sql import execute

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]
SCHEMA = "sample"
ANONYMOUS = "update sessions set owner = 'sample' where owner is not null"
EFFECTS = ("sample", "effects")
"""Collection and key of the document with all effects, in the order of the attempts."""
NOTES = [
    SearchEntry(space="u1", key="drink", text="u1 likes green tea 喜欢绿茶 🍵", body={"n": 1}),
    SearchEntry(space="u1", key="city", text="서울", vector=[0.6, 0.8], model="m"),
    SearchEntry(space="u2", key="drink", text="coffee", vector=[1.0, 0.0], model="m"),
]
COLLABORATION = CollaborationSettings(negotiation_s=YEARS_S, lifetime_s=YEARS_S)


@dataclass(frozen=True, kw_only=True)
class Part:
    """A session of the sample, and where it ends."""

    agent: str
    ends_at: str = ""
    """The effect at which the process is killed; empty: the run ends by itself."""
    policy: Any = None
    """Of a handoff that is requested before the process is killed."""
    max_turns: int = 10


PARTS: Final[Mapping[str, Part]] = {
    "code-call": Part(agent="packer", ends_at="label"),
    "tool-call": Part(agent="seller", ends_at="letter"),
    "approval": Part(agent="payer"),
    "person": Part(agent="clerk"),
    "question": Part(agent="pm", ends_at="total"),
    "question-to-person": Part(agent="boss"),
    "handoff-immediate": Part(agent="to-immediate", ends_at="drive"),
    "handoff-graceful": Part(agent="to-graceful", ends_at="drive"),
    "handoff-conditional": Part(agent="to-conditional", ends_at="drive"),
    "handoff-approval": Part(agent="asks-first"),
    "request-immediate": Part(agent="desk", ends_at="desk", policy="immediate"),
    "request-graceful": Part(agent="desk", ends_at="desk", policy="graceful"),
    "request-conditional": Part(agent="desk", ends_at="desk", policy="conditional"),
    "plan": Part(agent="planner", ends_at="label"),
    "rolled-back": Part(agent="shipping"),
    "rolling-back": Part(agent="shipping", ends_at="no lorry"),
    "attachments": Part(agent="viewer", ends_at="note"),
    "memory": Part(agent="waiter", ends_at="tea"),
    "out-of-budget": Part(agent="seller", max_turns=1),
    "failed": Part(agent="broken"),
    "refused": Part(agent="proud"),
    "done": Part(agent="packer"),
    # The last one: other processes would see to its deadline.
    "deadline": Part(agent="later"),
}


async def run_part(url: str, folder: Path, name: str) -> None:
    """Run the session up to its end, or to the death of this process."""
    part = PARTS[name]
    world = World(folder, ends_at=part.ends_at, stops=part.policy is not None)
    message: Any = f"go, {name} 始め"
    if name == "attachments":
        message = [{"role": "user", "content": PICTURES}]
    async with open_store(url) as store:
        session = Session(name, store=store, user_id="mira", title="見本")
        with suppress(ModelError):
            await Runner.run(
                team(part.agent), message, session=session, run_config=CONFIG,
                context=world, max_turns=part.max_turns,
            )  # fmt: skip


def make(url: str, folder: Path) -> None:
    """Fill the store at `url`; each session runs in a process of its own."""
    for name, part in PARTS.items():
        words = [sys.executable, "-m", "tests.samples.make", "--part", name, url, str(folder)]
        child = subprocess.Popen(words, cwd=ROOT)
        if part.policy is not None:
            os.waitpid(child.pid, os.WUNTRACED)
            asyncio.run(request_handoff(url, name, part.policy))
            child.kill()
        code = child.wait()
        assert code == (-signal.SIGKILL if part.ends_at else 0), f"{name} ended with {code}"
    asyncio.run(write_rest(url, World(folder)))


async def request_handoff(url: str, session_id: str, policy: Any) -> None:
    """Request a handoff of a session that another process runs, and do not wait for it."""
    async with open_store(url) as store:
        controller = HandoffController(team(), store, run_config=CONFIG)
        await controller.start(
            session_id, to="ordered", reason="asked", policy=policy, timeout_s=YEARS_S, wait_s=0
        )


async def write_rest(url: str, world: World) -> None:
    """Write everything that needs no process of its own."""
    lines = world.ledger.lines("effect")
    effects = [[line["session"], line["key"], line["what"]] for line in lines]
    async with open_store(url) as store, Bus(store) as bus:
        queued = Session("queued", store=store)
        await submit(team(), "go, queued 始め", session=queued, run_config=CONFIG)
        together = Collaborations(bus, settings=COLLABORATION)
        buyer, carrier = together.as_agent("buyer"), together.as_agent("carrier")
        await buyer.propose("carrier", {"task": "carry 17 boxes", "price": 70})
        agreed = await buyer.request_handoff("carrier", "carry a letter")
        await carrier.acknowledge(agreed.id)
        await bus.agent("pm").send("mailbox", "news", {"text": "お知らせ"})
        await update_shared_state(store, "user", "mira", {"language": "ja"}, by="mira")
        await store.put_entries(NOTES)
        collection, key = EFFECTS
        await store.write_documents([DocumentWrite(collection=collection, key=key, body=effects)])


def pack(path: Path) -> None:
    """Smaller pages, as most tables are nearly empty, and the name of no real machine."""
    db = apsw.Connection(str(path))
    db.execute("UPDATE machine SET boot = 'sample'")
    db.execute(ANONYMOUS)
    for sql in ("journal_mode = DELETE", "page_size = 1024"):
        db.execute(f"PRAGMA {sql}").fetchall()
    db.execute("VACUUM")
    db.execute("PRAGMA journal_mode = WAL").fetchall()
    db.close()


def dump(url: str) -> str:
    """The store at `url` as SQL, without the settings of this version of PostgreSQL."""
    asyncio.run(execute(url, ANONYMOUS))
    [*_, tool] = sorted(Path(pgserver().__file__).parent.rglob("bin/pg_dump"))
    address = parse_address(url)
    options = ["--inserts", "--no-owner", "--no-privileges", f"--schema={SCHEMA}"]
    done = subprocess.run([tool, *options, address.dsn], capture_output=True, text=True, check=True)
    return re.sub(r"(?m)^(\\.*|SET \w*_timeout = .*)\n", "", done.stdout)


def main() -> None:
    """Write both samples, or run one session of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part")
    parser.add_argument("place", nargs="*")
    given = parser.parse_args()
    if given.part:
        url, folder = given.place
        asyncio.run(run_part(url, Path(folder), given.part))
    else:
        make_samples()


def make_samples() -> None:
    """Write the samples of the newest format, which must not exist."""
    number = shipped()[-1].number
    sample, sql = FOLDER / f"sqlite-format-{number}.db", FOLDER / f"postgresql-format-{number}.sql"
    if sample.exists() or sql.exists():
        sys.exit(f"format {number} has samples, which are never changed")
    with TemporaryDirectory() as temporary, shared_server() as server:
        folder = Path(temporary)
        file = folder / "ekiden.db"
        make(str(file), folder / "sqlite")
        pack(file)
        url = f"{server.url}&schema={SCHEMA}"
        make(url, folder / "postgres")
        sample.write_bytes(file.read_bytes())
        sql.write_text(dump(url), "utf-8")


if __name__ == "__main__":
    main()
