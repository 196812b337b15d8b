"""What no request may bring is refused alike, before it is sent."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ekiden import Agent, Team
from ekiden.client.ekiden import Ekiden
from ekiden.core.errors import UserError
from ekiden.core.errors.messages import MessageNotFound
from ekiden.core.errors.server import RequestInvalid
from ekiden.testing import ScriptedModel, say


@pytest.fixture
def members() -> Team:
    """Who works for `relay`."""
    return Team(
        Agent("销售", model=ScriptedModel([say("hello")])),
        Agent("ps", model=ScriptedModel([say("hello")])),
    )


@pytest.mark.parametrize("session_id", ["a/b", "a\nb", "", "a\n", "a b", "x" * 129, "\ud800"])
@pytest.mark.parametrize(
    "call",
    [
        lambda ekiden, given: ekiden.sessions.get(given),
        lambda ekiden, given: ekiden.runs.run("hello", session_id=given),
        lambda ekiden, given: ekiden.runs.resume_and_wait(given),
    ],
    ids=["get", "run", "resume"],
)
async def test_an_invalid_session_id_is_refused_in_every_call(
    relay: Ekiden, call: Callable[[Ekiden, str], Awaitable[Any]], session_id: str
) -> None:
    with pytest.raises(RequestInvalid, match=r"^session_id: "):
        await call(relay, session_id)


async def test_an_invalid_limit_or_cursor_is_refused_in_every_list(ekiden: Ekiden) -> None:
    with pytest.raises(RequestInvalid, match=r"^limit: must be a whole number, not str$"):
        await ekiden.sessions.list().page(limit="5")  # type: ignore[arg-type]
    with pytest.raises(RequestInvalid, match=r"^limit: must be at least 1$"):
        await ekiden.sessions.list().page(limit=0)
    with pytest.raises(RequestInvalid, match=r"^cursor: "):
        await ekiden.messages.list().page(cursor="x")


@pytest.mark.parametrize("given", [float("nan"), 10**5000, object()], ids=["nan", "huge", "object"])
@pytest.mark.parametrize(
    "call",
    [
        lambda ekiden, given: ekiden.messages.send("ps", payload=given),
        lambda ekiden, given: ekiden.inbox.answer("inb_1", "approve", arguments={"a": given}),
        lambda ekiden, given: ekiden.state.update_session("s", {"a": given}),
        lambda ekiden, given: ekiden.handoffs.start("s", "ps", context=given),
    ],
    ids=["message", "answer", "state", "handoff"],
)
async def test_a_value_that_is_not_json_is_refused_in_every_call(
    relay: Ekiden, call: Callable[[Ekiden, Any], Awaitable[Any]], given: Any
) -> None:
    await relay.runs.run("hello", session_id="s", agent="ps")
    with pytest.raises(UserError, match="JSON"):
        await call(relay, given)


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        (
            lambda ekiden: ekiden.sessions.prune(older_than=0.5),
            "older_than: must be a datetime or a text, not float",
        ),
        (lambda ekiden: ekiden.sessions.prune(keep=True), "keep: must be a whole number, not bool"),
        (lambda ekiden: ekiden.sessions.prune(status="idle"), "status: must be a list, not str"),
        (lambda ekiden: ekiden.sessions.get(5), "session_id: must be a text, not int"),
    ],
    ids=["time", "count", "list", "id"],
)
async def test_a_value_of_the_wrong_type_is_refused_in_every_call(
    relay: Ekiden, call: Callable[[Ekiden], Awaitable[Any]], problem: str
) -> None:
    with pytest.raises(RequestInvalid) as refused:
        await call(relay)
    assert str(refused.value).startswith(problem)


async def test_a_name_may_contain_a_slash(relay: Ekiden) -> None:
    assert (await relay.agents.get("销售")).name == "销售"
    assert (await relay.agents.get("ps")).name == "ps"
    assert tuple((await relay.handoffs.history("销售").page()).items) == ()
    with pytest.raises(MessageNotFound):
        await relay.messages.get("a/b")
