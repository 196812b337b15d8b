"""A server with keys on a real socket, and something of everything to ask it for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

from ekiden.server import ServerConfig
from tests.support.relay_team import relay_team
from tests.support.server_thread import server_in_thread

API = "/api/v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiWorld:
    """The server, and a key that may do everything."""

    url: str
    key: str
    client: httpx2.Client

    @property
    def headers(self) -> dict[str, str]:
        """What a request with the key has."""
        return {"Authorization": f"Bearer {self.key}"}

    def post(self, path: str, body: Any) -> Any:
        """Make something."""
        found = self.client.post(path, json=body)
        assert found.is_success, (path, found.text)
        return found.json()

    def get(self, path: str) -> Any:
        """Read something."""
        found = self.client.get(path)
        assert found.is_success, (path, found.text)
        return found.json()

    def fresh(self, parameter: str) -> list[str]:
        """Values that a parameter of a path can have now: of something new, where it is used up."""
        return _MAKERS[parameter](self)

    def run(self, text: str = "hello") -> Any:
        """A run that is over, or that waits for a yes if `text` is about a refund."""
        return self.post(f"{API}/runs", {"input": text, "user_id": "ada"})


@contextmanager
def api_world(root: Path) -> Iterator[ApiWorld]:
    """A server on SQLite with a team that answers at once."""
    config = ServerConfig(rate=0, wait_s=2.0, heartbeat_s=0.2)
    store = str(root / "api.db")
    with server_in_thread(root, store=store, team=relay_team(), config=config) as url:
        made = httpx2.post(
            f"{url}{API}/keys", json={"name": "tester", "scopes": ["admin"]}, timeout=60
        )
        key = made.json()["key"]
        headers = {"Authorization": f"Bearer {key}"}
        with httpx2.Client(base_url=url, headers=headers, timeout=60) as client:
            yield ApiWorld(url=url, key=key, client=client)


def _sessions(world: ApiWorld) -> list[str]:
    return [world.run()["session_id"], world.run("a refund please")["session_id"]]


def _runs(world: ApiWorld) -> list[str]:
    return [world.run()["run_id"], world.run("a refund please")["run_id"]]


def _items(world: ApiWorld) -> list[str]:
    return [world.run("a refund please")["questions"][0] for _ in range(2)]


def _handoffs(world: ApiWorld) -> list[str]:
    given = {"source_agent_id": "triage", "target_agent_id": "desk", "task_id": "task-4711"}
    made = world.post(f"{API}/handoff/initiate", given)["handoff_id"]
    return [made, world.run()["handoffs"][0]]


def _messages(world: ApiWorld) -> list[str]:
    sent = {"to": "desk", "type": "notify", "payload": {"text": "hello"}}
    return [world.post(f"{API}/messages", sent)["message"]["id"]]


def _collaborations(world: ApiWorld) -> list[str]:
    begun = {"move": "request", "agent": "triage", "target": "desk", "task": "refunds"}
    return [world.post(f"{API}/collaborations", begun)["id"]]


def _records(world: ApiWorld) -> list[str]:
    world.run()
    return [each["id"] for each in world.get(f"{API}/audit/records?limit=2")["items"]]


def _keys(world: ApiWorld) -> list[str]:
    return [world.post(f"{API}/keys", {"name": "ada", "scopes": ["read"]})["id"]]


def _responses(world: ApiWorld) -> list[str]:
    asked = {"model": "ekiden", "input": "a refund please"}
    said = {"model": "ekiden", "input": "hello"}
    return [world.post("/v1/responses", each)["id"] for each in (asked, said)]


_MAKERS: dict[str, Callable[[ApiWorld], list[str]]] = {
    "session_id": _sessions,
    "origin": _sessions,
    "run_id": _runs,
    "seq": lambda _: ["3", "1"],
    "item_id": _items,
    "handoff_id": _handoffs,
    "message_id": _messages,
    "collaboration_id": _collaborations,
    "record_id": _records,
    "key_id": _keys,
    "response_id": _responses,
    "agent_id": lambda _: ["triage", "desk"],
    "name": lambda _: ["triage", "@desk"],
    "model": lambda _: ["ekiden", "desk"],
    "key": lambda _: ["agents.routing.strategy", "server.port"],
    "user": lambda _: ["ada"],
    "app": lambda _: ["ekiden"],
}
