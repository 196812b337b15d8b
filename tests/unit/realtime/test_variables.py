"""Variables of live sessions: the session's own, and nobody else's."""

from __future__ import annotations

import pytest

from ekiden.core.clock import SYSTEM_CLOCK
from ekiden.core.errors import UserError
from ekiden.core.items import user_message
from ekiden.realtime.record import SessionRecord, Variables
from ekiden.sessions import Session, variables_at
from ekiden.storage.memory import MemoryStore


@pytest.mark.parametrize("name", ["user:x", "app:x", "run:", 7])
def test_what_is_not_the_sessions_own_cannot_be_set(name: str) -> None:
    variables = Variables({})
    with pytest.raises(UserError):
        variables[name] = 1
    assert variables == {}


async def test_changes_are_told_with_the_event_that_stores_them() -> None:
    session = Session("s", store=MemoryStore())
    record = await SessionRecord.open(session, agent="a", lease_s=30, clock=SYSTEM_CLOCK)
    await record.message("a", user_message("hi"))
    record.variables["colour"] = "red"
    await record.message("a", user_message("red, please"))
    del record.variables["colour"]
    await record.message("a", user_message("or not"))
    events = await session.events()
    assert [variables_at(events, event.seq) for event in events] == [{}, {"colour": "red"}, {}]
