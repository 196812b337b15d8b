"""Tasks and replies of agents elsewhere, as values."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from ekiden.core.roles import AgentReply, RemoteTask


def test_a_remote_task_has_optional_fields() -> None:
    task = RemoteTask(task_id="t", session_id="s", agent="far", idempotency_key="s:1.1.m")
    assert (task.items, task.received, task.variables, task.timeout_s) == ((), {}, {}, None)


def test_a_reply_without_fields_is_empty() -> None:
    reply = AgentReply()
    assert (reply.text, reply.items, reply.output, reply.declined) == (None, (), None, None)
    assert (reply.hand_to, reply.reason, reply.usage, reply.details) == (None, "", None, {})


@pytest.mark.parametrize("value", [AgentReply(text="a"), AgentReply(details={"a": 1})])
def test_replies_are_immutable_and_share_no_defaults(value: Any) -> None:
    with pytest.raises(FrozenInstanceError):
        value.text = "b"
    assert AgentReply().details is not AgentReply().details
