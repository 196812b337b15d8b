"""Settings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ekiden.api.local.administration import LocalSettings
from ekiden.client.ekiden import Ekiden
from ekiden.core.errors.server import NotServed, RequestInvalid
from ekiden.project import load_settings

SECRET = "ghp_0123456789abcdefghij"


@pytest.fixture(autouse=True)
def project(tmp_path: Path) -> None:
    """A project with a secret in its settings."""
    server = {"url": "https://example.com/", "headers": {"X-Key": SECRET}}
    (tmp_path / ".ekiden").mkdir()
    (tmp_path / ".ekiden" / "settings.json").write_text(
        json.dumps({"app": "小店", "mcpServers": {"web.eu": server}}), encoding="utf-8"
    )


async def test_settings_are_listed_in_one_page_without_secrets(ekiden: Ekiden) -> None:
    page = await ekiden.settings.list().page(limit=1)
    assert page.next_cursor is None
    found = {each.key: each for each in page.items}
    assert list(found.values()) == [each async for each in ekiden.settings.list()]
    assert len(found) > 50
    assert (found["model"].origin.kind, found["model"].origin.where) == ("default", None)
    app = found["app"]
    assert (app.value, app.origin.kind, app.origin.line) == ("小店", "project", 1)
    assert str(app.origin).endswith("settings.json:1")
    assert "mcpServers.web.eu" in found
    assert SECRET not in repr(found)


async def test_a_setting_is_returned_by_its_key(ekiden: Ekiden) -> None:
    found = {each.key: each async for each in ekiden.settings.list()}
    for key in ("app", "agents.routing.strategy", "mcpServers.web.eu"):
        assert await ekiden.settings.get(key) == found[key]
    for key in ("no.such", "agents.routing", "x" * 300):
        with pytest.raises(NotServed, match="no setting is called"):
            await ekiden.settings.get(key)
    with pytest.raises(RequestInvalid):
        await ekiden.settings.get("x" * 301)


async def test_only_the_main_tenant_can_read_settings(tmp_path: Path) -> None:
    settings = LocalSettings(load_settings(tmp_path), tenant="other")
    with pytest.raises(NotServed, match="only the operator of the server"):
        await settings.get("app")
    with pytest.raises(NotServed, match="only the operator of the server"):
        await settings.list().page()


async def test_a_local_user_can_see_secrets(tmp_path: Path) -> None:
    settings = LocalSettings(load_settings(tmp_path), shows_secrets=True)
    assert SECRET in repr(await settings.get("mcpServers.web.eu"))
