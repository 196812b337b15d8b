"""Servers of teams that hand over, ask people and split requests."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from ekiden.server.access import Authorizer
from tests.support.serving import application, client_of
from tests.unit.cli.commands.counter import TEAM
from tests.unit.server.desks import API, Served, serving


@asynccontextmanager
async def counter(
    root: Path, monkeypatch: pytest.MonkeyPatch, *, team: str = TEAM, gate: Authorizer | None = None
) -> AsyncIterator[Served]:
    """A server, and a command, whose settings name a team in code."""
    (root / ".ekiden").mkdir(exist_ok=True)
    (root / ".ekiden" / "settings.json").write_text(json.dumps({"team": team}), encoding="utf-8")
    async with serving(root, monkeypatch, gate=gate) as found:
        yield found


@asynccontextmanager
async def without_workers(root: Path, *, team: str = TEAM) -> AsyncIterator[Served]:
    """The same in memory, without workers."""
    (root / ".ekiden").mkdir(exist_ok=True)
    (root / ".ekiden" / "settings.json").write_text(json.dumps({"team": team}), encoding="utf-8")
    async with application(root, workers=0) as app, client_of(app) as client:
        yield Served(root=root, app=app, client=client)


def task(task_id: str = "ticket-7", **fields: Any) -> dict[str, Any]:
    """The body of a handoff from triage to billing."""
    return {
        "source_agent_id": "triage",
        "target_agent_id": "billing",
        "task_id": task_id,
        "task_state": {"plan": "pro", "語言": "中文"},
        "conversation_history": [{"role": "user", "content": "我要退款 👋"}],
        "reason": "asked for a refund",
        **fields,
    }


def done(answer: httpx2.Response, status: int = 200) -> Any:
    """What a request gave that must have succeeded."""
    assert answer.status_code == status, answer.text
    return answer.json()


def posted(body: str) -> dict[str, Any]:
    """A body as it is, be it JSON or not."""
    content = body.encode("utf-8", "surrogatepass")
    return {"content": content, "headers": {"content-type": "application/json"}}


__all__ = ["API", "counter", "done", "posted", "task", "without_workers"]
