"""Workers, as people see them."""

from __future__ import annotations

from typing import Any

import pytest

from ekiden.cli.worker_view import print_workers

WORKER: dict[str, Any] = {
    "host": "gpu-1",
    "pid": 77,
    "state": "working",
    "engine": "worker",
    "running": 3,
    "concurrency": 100,
    "finished": 1200,
    "agents": ["billing", "orders", "painter", "sales", "triage", "経理"],
    "labels": ["gpu", "eu"],
    "seen_at": 0.0,
}


def test_nobody_there_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    print_workers({"workers": [], "unserved": []})
    assert "no worker is there" in capsys.readouterr().out


def test_each_has_a_line_and_whom_nobody_runs_is_told_below(
    capsys: pytest.CaptureFixture[str],
) -> None:
    left = [
        {"agent": "painter", "sessions": 3, "needs": ["gpu"]},
        {"agent": "old", "sessions": 1, "needs": []},
    ]
    print_workers({"workers": [WORKER, {**WORKER, "agents": ["triage"]}], "unserved": left})
    told = capsys.readouterr()
    assert "gpu-1-77" in told.out
    assert "3 of 100" in told.out
    assert "billing, orders, painter, sales and 2 more" in told.out
    assert told.err.splitlines() == [
        "no worker runs painter, 3 ready: it needs a worker with the label gpu",
        "no worker runs old, 1 ready",
    ]
