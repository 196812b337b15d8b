"""Sessions."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ekiden.client.ekiden import Ekiden
from ekiden.core.documents import to_json
from ekiden.core.errors import SessionExists, SessionNotFound, UserError
from ekiden.core.errors.server import RequestInvalid
from ekiden.core.errors.stored_data import SessionImportInvalid
from ekiden.core.values import dumps
from ekiden.project import open_store
from ekiden.storage.base import NewSession
from tests.contract.api.conftest import Begin


@pytest.fixture(autouse=True)
async def begun(begin: Begin) -> None:
    for name in ("s", "t"):
        await begin(name)


async def test_sessions_are_listed_the_newest_first(ekiden: Ekiden, begin: Begin) -> None:
    await begin("u")
    whole = [each async for each in ekiden.sessions.list()]
    assert [each.session_id for each in whole] == ["u", "t", "s"]
    first = await ekiden.sessions.list().page(limit=2)
    rest = await ekiden.sessions.list().page(limit=2, cursor=first.next_cursor)
    assert [*first.items, *rest.items] == whole
    assert rest.next_cursor is None
    newest = whole[0]
    assert (newest.agent, newest.status, newest.state, newest.outcome) == (
        "clerk",
        "idle",
        "idle",
        "done",
    )
    assert (newest.run_id, tuple(newest.waiting_for), newest.title) == ("u:1", (), None)


@pytest.mark.parametrize(
    ("filters", "count"),
    [
        ({"state": ["idle", "failed"]}, 2),
        ({"state": ["working"]}, 0),
        ({"agent": "clerk"}, 2),
        ({"agent": "nobody"}, 0),
        ({"user": "ann"}, 0),
        ({"outcome": "done"}, 2),
        ({"outcome": "failed"}, 0),
        ({"conclusion": "succeeded"}, 2),
        ({"conclusion": "with_errors"}, 0),
        ({"text": "CLERK"}, 2),
        ({"text": "nobody's"}, 0),
    ],
    ids=str,
)
async def test_sessions_are_filtered(ekiden: Ekiden, filters: dict[str, Any], count: int) -> None:
    assert len([each async for each in ekiden.sessions.list(**filters)]) == count


async def test_an_invalid_session_filter_is_refused(ekiden: Ekiden) -> None:
    wrong: tuple[dict[str, Any], ...] = (
        {"state": ["asleep"]},
        {"outcome": "good"},
        {"conclusion": "done"},
        {"agent": "\0"},
        {"text": "x" * 201},
    )
    for filters in wrong:
        with pytest.raises(RequestInvalid):
            await ekiden.sessions.list(**filters).page()
    with pytest.raises(UserError):
        await ekiden.sessions.list().page(cursor="x")


async def test_a_session_is_shown_with_its_conversation(ekiden: Ekiden) -> None:
    found = await ekiden.sessions.get("s")
    assert [each["role"] for each in found.items] == ["user", "assistant"]
    assert found.metadata["agent_chain"] == ["user", "clerk"]
    [listed] = [each async for each in ekiden.sessions.list() if each.session_id == "s"]
    assert to_json(listed).items() <= to_json(found).items()
    events = [each async for each in ekiden.sessions.events("s")]
    assert [each.seq for each in events] == list(range(1, found.events + 1))
    assert events[0].event.to_json() == to_json(events[0])
    last = [each async for each in ekiden.sessions.events("s", after=found.events - 1)]
    assert last == events[-1:]
    called = [each async for each in ekiden.sessions.events("s", types=["llm_call"])]
    assert [each.event_type for each in called] == ["llm_call"]
    page = await ekiden.sessions.events("s").page(limit=2)
    more = await ekiden.sessions.events("s").page(cursor=page.next_cursor)
    assert [*page.items, *more.items] == events
    items = [each async for each in ekiden.sessions.items("s")]
    assert items == [*found.items]
    first = await ekiden.sessions.items("s").page(limit=1)
    rest = await ekiden.sessions.items("s").page(limit=1, cursor=first.next_cursor)
    assert ([*first.items, *rest.items], rest.next_cursor) == (items, None)
    chain = await ekiden.sessions.chain("s")
    assert (tuple(chain.chain), tuple(chain.handoffs)) == (("user", "clerk"), ())
    assert to_json(chain).keys() == {"session_id", "chain", "handoffs"}


async def test_an_unknown_session_is_reported(ekiden: Ekiden) -> None:
    calls: list[Any] = [
        lambda name: ekiden.sessions.get(name),
        lambda name: ekiden.sessions.events(name).page(),
        lambda name: ekiden.sessions.items(name).page(),
        lambda name: ekiden.sessions.chain(name),
        lambda name: ekiden.sessions.export(name),
        lambda name: ekiden.sessions.fork(name),
        lambda name: ekiden.sessions.rewind(name, 1),
        lambda name: ekiden.sessions.delete(name),
    ]
    for call in calls:
        with pytest.raises(SessionNotFound, match="nobody"):
            await call("nobody")
        with pytest.raises(RequestInvalid):
            await call("客")


async def test_conversations_are_searched_by_text(ekiden: Ekiden) -> None:
    found = [each async for each in ekiden.sessions.search("hello")]
    assert {each.session_id for each in found} == {"s", "t"}
    assert {(each.where, each.agent, each.excerpt) for each in found} == {
        ("message", "clerk", "hello")
    }
    assert len([each async for each in ekiden.sessions.search("hello", limit=1)]) == 1
    assert [each async for each in ekiden.sessions.search("hello", user="ann")] == []
    for wrong in ({"limit": 0}, {"limit": 1001}, {"user": ""}):
        options: Any = wrong
        with pytest.raises(RequestInvalid):
            await ekiden.sessions.search("hello", **options).page()


async def test_a_session_is_forked(ekiden: Ekiden, tmp_path: Path) -> None:
    made = await ekiden.sessions.fork("s")
    whole = await ekiden.sessions.get("s")
    assert (made.forked_from, made.forked_at, made.unfinished) == ("s", whole.events, False)
    named = await ekiden.sessions.fork("s", at=1, session_id="f")
    assert (named.session_id, named.forked_at, named.agent) == ("f", 1, "clerk")
    with pytest.raises(SessionExists):
        await ekiden.sessions.fork("s", session_id="f")
    with pytest.raises(UserError):
        await ekiden.sessions.fork("s", at=99)
    with pytest.raises((UserError, RequestInvalid), match="not both|at"):
        await ekiden.sessions.fork("s", at=2, before=2)
    for wrong in ({"at": 0}, {"before": 1}, {"session_id": "a/b"}):
        options: Any = wrong
        with pytest.raises(RequestInvalid):
            await ekiden.sessions.fork("s", **options)
    async with open_store(str(tmp_path / "s.db"), create=False) as store:
        await store.create(NewSession(id="empty", agent="clerk"))
    with pytest.raises(UserError, match="nothing to fork"):
        await ekiden.sessions.fork("empty")


async def test_a_session_is_rewound(ekiden: Ekiden) -> None:
    done = await ekiden.sessions.rewind("s", 1)
    assert (done.session_id, done.to_seq, done.agent) == ("s", 1, "clerk")
    assert done.undone
    with pytest.raises(UserError):
        await ekiden.sessions.rewind("s", 99)
    with pytest.raises(RequestInvalid):
        await ekiden.sessions.rewind("s", 0)


async def test_the_request_of_a_model_call_is_shown(ekiden: Ekiden) -> None:
    events = [each async for each in ekiden.sessions.events("s")]
    [call] = [each for each in events if each.event_type == "llm_call"]
    request = await ekiden.sessions.request("s", call.seq)
    assert (request.session_id, request.seq, request.agent) == ("s", call.seq, "clerk")
    assert [*request.input] == [{"role": "user", "content": "hi"}]
    assert call.made_by is not None
    assert call.made_by.partition("/")[0] == request.version[:16]
    with pytest.raises(UserError, match="no model call"):
        await ekiden.sessions.request("s", 1)
    with pytest.raises(SessionNotFound):
        await ekiden.sessions.request("nobody", 1)


async def test_events_on_later_pages_name_their_version(ekiden: Ekiden, begin: Begin) -> None:
    await begin("s")
    whole = [each async for each in ekiden.sessions.events("s")]
    pages = [
        each for seq in range(len(whole)) async for each in ekiden.sessions.events("s", after=seq)
    ]
    known = {each.seq: each.made_by for each in whole}
    assert all(each.made_by == known[each.seq] for each in pages)


async def test_a_session_is_exported_and_imported(ekiden: Ekiden) -> None:
    document = await ekiden.sessions.export("s")
    assert (document["format"], document["session"]["session_id"]) == ("ekiden.session", "s")
    made = await ekiden.sessions.import_(document, id="copy", user="ann")
    assert (made.session_id, made.user_id, made.agent) == ("copy", "ann", "clerk")
    assert made.events == len(document["events"])
    data = dumps(document).encode()
    assert (await ekiden.sessions.import_(data, id="other")).session_id == "other"
    with pytest.raises(SessionExists):
        await ekiden.sessions.import_(data)
    with pytest.raises(SessionImportInvalid):
        await ekiden.sessions.import_(b"{}")
    for wrong in ({"id": "a/b"}, {"user": ""}):
        options: Any = wrong
        with pytest.raises(RequestInvalid):
            await ekiden.sessions.import_(data, **options)


async def test_a_session_is_deleted(ekiden: Ekiden) -> None:
    await ekiden.sessions.delete("s")
    assert [each.session_id async for each in ekiden.sessions.list()] == ["t"]


async def test_old_sessions_are_pruned(ekiden: Ekiden) -> None:
    would = await ekiden.sessions.prune(keep=1, dry_run=True)
    assert (would.sessions, would.dry_run) == (1, True)
    assert (await ekiden.sessions.prune(older_than="1d")).sessions == 0
    assert (await ekiden.sessions.prune(older_than="0s", user="ann")).sessions == 0
    assert (await ekiden.sessions.prune(keep=1, status=["waiting"])).sessions == 1
    assert [each.session_id async for each in ekiden.sessions.list()] == ["t"]
    assert (await ekiden.sessions.prune(older_than=datetime.now(UTC))).sessions == 1
    with pytest.raises(UserError, match="name the sessions to delete"):
        await ekiden.sessions.prune()
    with pytest.raises(UserError, match="future"):
        await ekiden.sessions.prune(older_than=datetime.now(UTC) + timedelta(days=1))
    for wrong in ({"keep": -1}, {"older_than": "soon"}, {"status": ["asleep"]}, {"user": ""}):
        options: Any = wrong
        with pytest.raises(RequestInvalid):
            await ekiden.sessions.prune(**options)


async def test_an_invalid_limit_or_cursor_of_a_page_is_refused(ekiden: Ekiden) -> None:
    for limit in (0, -1, 5000):
        with pytest.raises(RequestInvalid):
            await ekiden.sessions.list().page(limit=limit)
    for cursor in ("abc", "-1", "x" * 1000):
        with pytest.raises(RequestInvalid):
            await ekiden.sessions.events("s").page(cursor=cursor)
        with pytest.raises(RequestInvalid):
            await ekiden.sessions.items("s").page(cursor=cursor)
