"""Settings and the mirror over HTTP."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.server.desks import As, problem, serving

SECRET = "ghp_0123456789abcdefghij"
SETTINGS: dict[str, Any] = {
    "app": "小店",
    "mcpServers": {
        "code": {
            "command": "no-such-program",
            "args": ["--token", SECRET],
            "env": {"GITHUB_TOKEN": SECRET},
        },
        "web": {"url": f"https://u:{SECRET}@example.com/", "headers": {"X-Key": SECRET}},
    },
    "mirror": {"vertex": {"project": "p", "engine": "12"}},
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A project with settings that hold secrets."""
    (tmp_path / ".ekiden").mkdir()
    (tmp_path / ".ekiden" / "settings.json").write_text(json.dumps(SETTINGS))
    return tmp_path


async def test_settings_equal_the_output_of_the_command(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(root, monkeypatch) as desk:
        answer = await desk("GET", "/settings")
        listed = answer.json()
        printed = await desk.command("config", "list")
        for each in printed:
            if each["origin"]["kind"] == "project":
                each["origin"]["where"] = str(root / each["origin"]["where"])
        assert listed["items"] == printed
        assert SECRET not in answer.text
        for each in listed["items"]:
            assert await desk.get(f"/settings/{each['key']}") == each
        assert (await desk.get("/settings/app"))["value"] == "小店"
        problem(await desk("GET", "/settings/no.such"), 404)
        problem(await desk("PUT", "/settings/app"), 405)


async def test_only_the_operator_of_the_server_sees_settings(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = As("read", "run", "answer")
    async with serving(root, monkeypatch, gate=gate) as desk:
        for path in ("/settings", "/settings/app"):
            problem(await desk("GET", path), 403, "auth.scope")
        gate.who = As("admin", tenant="other").who
        for path in ("/settings", "/settings/app"):
            problem(await desk("GET", path), 404)


async def test_the_app_of_the_settings_owns_shared_state_and_memory(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(root, monkeypatch) as desk:
        await desk("PATCH", "/state/apps/小店", {"set": {"open": True}})
        shown = await desk.get("/state/apps/小店")
        assert shown == await desk.command("state", "show", "--app", "小店")
        problem(await desk("GET", "/state/apps/ekiden"), 404)
        stored = await desk("POST", "/memory?shared=true", {"content": "closed on Mondays"})
        assert stored.status_code == 201
        listed = await desk.get("/memory?shared=true")
        assert listed["items"] == await desk.command("memory", "list", "--shared")


async def test_a_replica_status_equals_the_output_of_the_command(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("google.auth")
    async with serving(root, monkeypatch) as desk:
        shown = await desk.get("/mirror")
        assert shown == await desk.command("mirror", "status")


async def test_without_a_replica_its_status_returns_404(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(tmp_path, monkeypatch) as desk:
        problem(await desk("GET", "/mirror"), 404)
