"""Questions to people."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ekiden.client.ekiden import Ekiden
from ekiden.core.errors.messages import InboxAnswerInvalid, InboxItemClosed, InboxItemNotFound
from ekiden.core.errors.server import PreconditionFailed, RequestInvalid
from ekiden.core.questions import EscalationStep, InboxItem
from ekiden.inbox import Inbox
from ekiden.project import open_store


async def ask(folder: Path, name: str, **fields: Any) -> None:
    """Put a question before people."""
    given: dict[str, Any] = {
        "id": name,
        "kind": "approval",
        "from_agent": "销售",
        "subject": "15 % for 山田?",
        "options": ("yes", "no"),
    }
    async with open_store(str(folder / "s.db"), create=False) as store:
        await Inbox(store).post(InboxItem(**(given | fields)))


async def confirm(folder: Path, name: str, **fields: Any) -> None:
    """Ask whether a tool may run."""
    given = {"kind": "confirmation", "tool": "refund", "arguments": '{"amount": 5}'}
    await ask(folder, name, **(given | fields))


async def test_inbox_items_are_listed_with_filters(ekiden: Ekiden, tmp_path: Path) -> None:
    chain = (EscalationStep(role="boss", after_s=1e6),)
    await ask(tmp_path, "q1", assignee="安娜", context={"客户": [1, None]}, chain=chain)
    await confirm(tmp_path, "c1", priority=4, role="经理", session_id="s-1")
    page = await ekiden.inbox.list().page(limit=1)
    rest = await ekiden.inbox.list().page(limit=1, cursor=page.next_cursor)
    assert [each.id for each in [*page.items, *rest.items]] == ["c1", "q1"]
    assert rest.next_cursor is None
    filters: list[tuple[dict[str, Any], list[str]]] = [
        ({"role": "经理"}, ["c1"]),
        ({"assignee": "安娜"}, ["q1"]),
        ({"assignee": ""}, ["c1"]),
        ({"kind": "confirmation"}, ["c1"]),
        ({"agent": "销售", "priority": "urgent"}, ["c1"]),
        ({"session": "s-1"}, ["c1"]),
        ({"text": "山田"}, ["c1", "q1"]),
        ({"status": "answered"}, []),
        ({"status": "any", "snoozed": True}, ["c1", "q1"]),
    ]
    for given, expected in filters:
        found = [each.id async for each in ekiden.inbox.list(**given)]
        assert found == expected, given
    item = await ekiden.inbox.get("q1")
    assert (item.context, item.chain, item.options) == ({"客户": [1, None]}, chain, ("yes", "no"))
    assert (item.status, item.version, item.etag) == ("open", 1, '"open-1"')
    with pytest.raises(InboxItemNotFound):
        await ekiden.inbox.get("none")
    with pytest.raises(RequestInvalid):
        await ekiden.inbox.get("no id")
    with pytest.raises(RequestInvalid):
        await ekiden.inbox.list(**{"status": "so"}).page()  # type: ignore[arg-type]


async def test_an_inbox_item_is_answered_once(ekiden: Ekiden, tmp_path: Path) -> None:
    await ask(tmp_path, "q1")
    for given, error in (
        ({}, InboxAnswerInvalid),
        ({"choice": "maybe"}, InboxAnswerInvalid),
        ({"choice": "yes", "always": True}, InboxAnswerInvalid),
        ({"choice": "yes", "by": "nobody"}, InboxAnswerInvalid),
        ({"choice": "yes", "by": " "}, RequestInvalid),
        ({"choice": "x" * 501}, RequestInvalid),
    ):
        with pytest.raises(error):
            await ekiden.inbox.answer("q1", **given)
    done = await ekiden.inbox.answer("q1", "YES", text="好", by="安娜")
    assert done.answer is not None
    assert (done.status, done.answer.choice, done.answer.text) == ("answered", "yes", "好")
    assert (done.closed_by, done.answer.via in ("program", "http")) == ("安娜", True)
    assert await ekiden.inbox.get("q1") == done
    for again in (ekiden.inbox.answer("q1", "no"), ekiden.inbox.cancel("q1")):
        with pytest.raises(InboxItemClosed, match="安娜"):
            await again
    with pytest.raises(InboxItemNotFound):
        await ekiden.inbox.answer("none", "yes")


async def test_an_answer_with_a_stale_expected_version_is_refused(
    ekiden: Ekiden, tmp_path: Path
) -> None:
    await ask(tmp_path, "q1")
    seen = await ekiden.inbox.get("q1")
    changed = await ekiden.inbox.assign("q1", "安娜")
    with pytest.raises(PreconditionFailed):
        await ekiden.inbox.answer("q1", "yes", expected_version=seen.version)
    with pytest.raises(PreconditionFailed):
        await ekiden.inbox.answer_identical("q1", "yes", expected_version=seen.version)
    done = await ekiden.inbox.answer("q1", "yes", expected_version=[99, changed.version])
    assert (done.status, done.closed_by) == ("answered", "local")
    with pytest.raises(InboxItemClosed):
        await ekiden.inbox.answer("q1", "yes", expected_version=changed.version)


async def test_edited_arguments_must_be_confirmed(ekiden: Ekiden, tmp_path: Path) -> None:
    await confirm(tmp_path, "c1")
    with pytest.raises(InboxAnswerInvalid):
        await ekiden.inbox.answer("c1", "yes", arguments={"amount": 7})
    done = await ekiden.inbox.answer("c1", "yes", arguments={"amount": 7}, confirm_edit=True)
    assert done.answer is not None
    assert done.answer.arguments == '{"amount":7}'


async def test_identical_inbox_items_are_answered_together(ekiden: Ekiden, tmp_path: Path) -> None:
    for name in ("c1", "c2", "c3"):
        await confirm(tmp_path, name)
    await confirm(tmp_path, "c4", arguments='{"amount": 6}')
    with pytest.raises(InboxAnswerInvalid):
        await ekiden.inbox.answer_identical("c2", "yes", arguments='{"amount": 6}')
    done = await ekiden.inbox.answer_identical("c2", "no", arguments='{"amount": 5}', always=True)
    assert (sorted(done.answered), done.closed) == (["c1", "c2", "c3"], 0)
    assert [each.id async for each in ekiden.inbox.list()] == ["c4"]
    with pytest.raises(InboxItemClosed):
        await ekiden.inbox.answer_identical("c2", "no")


async def test_an_inbox_item_is_assigned_snoozed_and_cancelled(
    ekiden: Ekiden, tmp_path: Path
) -> None:
    await ask(tmp_path, "q1")
    assert (await ekiden.inbox.assign("q1", "安娜", by="ada")).assignee == "安娜"
    assert (await ekiden.inbox.assign("q1", None)).assignee is None
    with pytest.raises(RequestInvalid):
        await ekiden.inbox.assign("q1", "a\nb")
    with pytest.raises(RequestInvalid):
        await ekiden.inbox.snooze("q1", for_s=0)
    for given in ({}, {"for_s": 5, "until_us": 5}, {"until_us": 5}):
        with pytest.raises(InboxAnswerInvalid):
            await ekiden.inbox.snooze("q1", **given)
    assert (await ekiden.inbox.snooze("q1", for_s=3600)).snoozed_until_us is not None
    assert [each.id async for each in ekiden.inbox.list()] == []
    assert [each.id async for each in ekiden.inbox.list(snoozed=True)] == ["q1"]
    with pytest.raises(RequestInvalid):
        await ekiden.inbox.cancel("q1", reason="x" * 2001)
    gone = await ekiden.inbox.cancel("q1", reason="不用了", by="安娜")
    assert (gone.status, gone.reason, gone.closed_by) == ("cancelled", "不用了", "安娜")
    for late in (ekiden.inbox.assign("q1", "ada"), ekiden.inbox.snooze("q1", for_s=5)):
        with pytest.raises(InboxItemClosed):
            await late
