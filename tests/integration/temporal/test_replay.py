"""Workflows that were begun before go on: stored histories are replayed with today's code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from temporalio.client import WorkflowHistory
from temporalio.worker import Replayer

from ekiden.integrations.temporal.workflows import SessionWorkflow, TimekeeperWorkflow
from tests.integration.temporal.desk import SECRET, said_in
from tests.integration.temporal.record_histories import FOLDER, SCENES

FILES = sorted(FOLDER.glob("*.json"))


def read(file: Path) -> WorkflowHistory:
    """A history as it was stored."""
    return WorkflowHistory.from_json(f"ekiden/test/{file.stem}", file.read_text(encoding="utf-8"))


def test_every_scene_is_recorded() -> None:
    assert {file.stem for file in FILES} >= set(SCENES)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
async def test_a_stored_history_replays(file: Path) -> None:
    replayer = Replayer(workflows=[SessionWorkflow, TimekeeperWorkflow])
    await replayer.replay_workflow(read(file))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_stored_history_contains_no_message_text(file: Path) -> None:
    said = said_in(file.read_text(encoding="utf-8"))
    assert "ekiden" in said
    assert SECRET not in said


async def test_a_history_of_changed_code_fails_the_replay() -> None:
    history = json.loads((FOLDER / "message.json").read_text(encoding="utf-8"))
    for event in history["events"]:
        scheduled = event.get("activityTaskScheduledEventAttributes")
        if scheduled is not None:
            scheduled["activityType"]["name"] = "ekiden.another"
    replayer = Replayer(workflows=[SessionWorkflow])
    changed = WorkflowHistory.from_json("changed", json.dumps(history))
    with pytest.raises(Exception, match="ekiden.another"):
        await replayer.replay_workflow(changed)
