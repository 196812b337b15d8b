"""Things, as people see them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ekiden.api.administration import WorkerOverview
from ekiden.cli.views.administration import print_workers
from ekiden.engine.registry import Unserved, WorkerRecord

WORKER = WorkerRecord(
    id="w",
    owner="gpu-1-77-a",
    host="gpu-1",
    pid=77,
    version="0.1.0",
    engine="worker",
    tenant="default",
    agents=("billing", "orders", "painter", "sales", "triage", "経理"),
    needs={},
    labels=("gpu", "eu"),
    concurrency=100,
    running=3,
    finished=1200,
    started_at=0.0,
    seen_at=0.0,
    state="working",
)


def test_an_empty_worker_list_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    print_workers(WorkerOverview(workers=[], unserved=[]))
    assert "no worker is running" in capsys.readouterr().out


def test_each_worker_has_a_line_and_unserved_agents_are_listed_below(
    capsys: pytest.CaptureFixture[str],
) -> None:
    left = [
        Unserved(agent="painter", sessions=3, needs=("gpu",)),
        Unserved(agent="old", sessions=1, needs=()),
    ]
    there = [WORKER, replace(WORKER, agents=("triage",))]
    print_workers(WorkerOverview(workers=there, unserved=left))
    told = capsys.readouterr()
    assert "gpu-1-77" in told.out
    assert "3 of 100" in told.out
    assert "billing, orders, painter, sales and 2 more" in told.out
    assert told.err.splitlines() == [
        "no worker runs painter, 3 ready: it needs a worker with the label gpu",
        "no worker runs old, 1 ready",
    ]
