"""Replicas."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ekiden.client.ekiden import Ekiden
from ekiden.core.errors.server import NotServed


@pytest.fixture
def project(tmp_path: Path) -> None:
    """A project whose sessions are mirrored."""
    pytest.importorskip("google.auth")
    (tmp_path / ".ekiden").mkdir()
    mirror = {"vertex": {"project": "p", "engine": "12"}}
    (tmp_path / ".ekiden" / "settings.json").write_text(json.dumps({"mirror": mirror}))


async def test_a_replica_without_data_reports_so(project: None, ekiden: Ekiden) -> None:
    found = await ekiden.mirror.status()
    assert "12" in found.name
    assert (found.fed, found.sent, found.waiting, found.problem) == (False, 0, 0, None)
    assert (found.up_to_date, found.set_aside, tuple(found.aside)) == (True, 0, ())


async def test_without_a_replica_the_error_names_the_setting(ekiden: Ekiden) -> None:
    with pytest.raises(NotServed, match="ekiden config set mirror"):
        await ekiden.mirror.status()
