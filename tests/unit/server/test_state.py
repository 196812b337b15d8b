"""State over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from ekiden.runtime.history.session_state import shared_state, update_shared_state
from ekiden.sessions.state import SharedScope
from ekiden.storage.base import Store
from tests.unit.server.desks import As, Served, problem, serving


@pytest.fixture
async def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Served]:
    """A server with the demo team, and a session."""
    async with serving(tmp_path, monkeypatch) as found:
        await found.ask("Where is my order 1042?", session_id="s", user_id="u7")
        yield found


async def test_session_state_equals_the_output_of_the_command(desk: Served) -> None:
    await desk("PATCH", "/sessions/s/state", {"set": {"级别": "金", "n": 1}})
    answer = await desk("GET", "/sessions/s/state")
    assert answer.json() == await desk.command("state", "show", "s")
    assert answer.headers["etag"] == f'"v{answer.json()["version"]}"'


async def test_earlier_session_state_can_be_shown(desk: Served) -> None:
    await desk("PATCH", "/sessions/s/state", {"set": {"n": 1}})
    then = await desk("GET", "/sessions/s/state?at=5")
    assert then.json() == await desk.command("state", "show", "s", "--at", "5")
    assert then.json()["variables"] == {}
    assert "etag" not in then.headers
    for at in ("0", "99", "x", str(10**30)):
        problem(await desk("GET", f"/sessions/s/state?at={at}"), 422)


async def test_a_change_is_recorded_with_its_author(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(tmp_path, monkeypatch, gate=As("admin")) as desk:
        await desk.ask("Where is my order 1042?", session_id="s")
        changed = await desk("PATCH", "/sessions/s/state", {"set": {"a": [1, None]}})
        assert changed.status_code == 200
        version = changed.json()["version"]
        assert changed.headers["etag"] == f'"v{version}"'
        [event] = (await desk.get(f"/sessions/s/events?after={version - 1}"))["items"]
        assert event["details"] == {"state": {"set": {"a": [1, None]}}, "by": "ada"}
        gone = await desk("PATCH", "/sessions/s/state", {"delete": ["a", "never"]})
        assert gone.json()["version"] == version + 1
        assert (await desk.get("/sessions/s/state"))["variables"] == {}


async def test_a_change_with_a_stale_etag_is_refused(desk: Served) -> None:
    tag = (await desk("GET", "/sessions/s/state")).headers["etag"]
    mine = {"If-Match": tag}
    first = await desk("PATCH", "/sessions/s/state", {"set": {"a": 1}}, headers=mine)
    assert first.status_code == 200
    second = await desk("PATCH", "/sessions/s/state", {"set": {"a": 2}}, headers=mine)
    problem(second, 412, "state.stale")
    assert (await desk.get("/sessions/s/state"))["variables"] == {"a": 1}
    for tags in (f'"x", {first.headers["etag"]}', "*"):
        again = await desk(
            "PATCH", "/sessions/s/state", {"set": {"a": 3}}, headers={"If-Match": tags}
        )
        assert again.status_code == 200, tags
    for tags in ('"x"', f"W/{first.headers['etag']}"):
        stale = await desk(
            "PATCH", "/sessions/s/state", {"set": {"a": 4}}, headers={"If-Match": tags}
        )
        problem(stale, 412)
    bad = await desk("PATCH", "/sessions/s/state", {"set": {"a": 4}}, headers={"If-Match": "v1"})
    problem(bad, 422)


async def test_of_concurrent_changes_one_succeeds(desk: Served) -> None:
    tag = (await desk("GET", "/sessions/s/state")).headers["etag"]
    answers = await asyncio.gather(
        *(
            desk(
                "PATCH",
                "/sessions/s/state",
                {"set": {"winner": number}, "on_busy": "wait"},
                headers={"If-Match": tag},
            )
            for number in range(5)
        )
    )
    statuses = sorted(each.status_code for each in answers)
    assert statuses == [200, 412, 412, 412, 412]


async def test_an_invalid_change_is_refused_and_changes_nothing(desk: Served) -> None:
    bodies: tuple[Any, ...] = (
        {},
        {"set": {}},
        {"set": {"user:x": 1}},
        {"set": {"app:x": 1}},
        {"set": {"a": 1}, "delete": ["a"]},
        {"delete": ["a", "a"]},
        {"set": {"x" * 201: 1}},
        {"set": []},
        {"delete": "a"},
        {"put": {}},
        {"set": {"a": 1}, "on_busy": "never"},
        {"set": {"deep": _deep(250)}},
        [1],
    )
    for body in bodies:
        problem(await desk("PATCH", "/sessions/s/state", body), 422)
    for content in (b'{"set": {"a": NaN}}', b'{"set": {"a": 1e999}}', b"{", b"\xff", b"[" * 5000):
        sent = {"Content-Type": "application/json"}
        refused = await desk("PATCH", "/sessions/s/state", content=content, headers=sent)
        problem(refused, 422)
    assert (await desk.get("/sessions/s/state"))["variables"] == {}
    problem(await desk("PATCH", "/sessions/nobody/state", {"set": {"a": 1}}), 404)


def _deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


async def test_lone_surrogates_are_refused(desk: Served) -> None:
    content = b'{"set": {"half": "\\ud800"}}'
    sent = {"Content-Type": "application/json"}
    problem(await desk("PATCH", "/sessions/s/state", content=content, headers=sent), 422)


async def test_user_variables_equal_the_output_of_the_command(desk: Served) -> None:
    user = "团队/用户 7?"
    path = "/state/users/%E5%9B%A2%E9%98%9F%2F%E7%94%A8%E6%88%B7%207%3F"
    assert (await desk.get(path)) == {"user": user, "variables": {}}
    changed = await desk("PATCH", path, {"set": {"语言": "zh", "n": 2}})
    assert changed.json() == {"user": user, "versions": {"语言": 1, "n": 1}}
    shown = await desk.get(path)
    assert shown == await desk.command("state", "show", "--user", user)
    gone = await desk("PATCH", path, {"delete": ["n"]})
    assert gone.json()["versions"] == {"n": 0}
    assert set((await desk.get(path))["variables"]) == {"语言"}


async def test_user_variables_changed_by_others_are_kept(desk: Served) -> None:
    path = "/state/users/u7"
    await desk("PATCH", path, {"set": {"a": 1}})
    tag = (await desk("GET", path)).headers["etag"]
    right = await desk("PATCH", path, {"set": {"a": 2}}, headers={"If-Match": tag})
    assert right.json()["versions"] == {"a": 2}
    stale = await desk("PATCH", path, {"set": {"b": 2}}, headers={"If-Match": tag})
    problem(stale, 412, "request.stale")
    named = await desk("PATCH", path, {"set": {"a": 3}, "expected": {"a": 1}})
    problem(named, 412, "state.stale")
    new = await desk("PATCH", path, {"set": {"b": 3}, "expected": {"b": 0}})
    assert new.json()["versions"] == {"b": 1}
    problem(await desk("PATCH", path, {"set": {"a": 3}, "expected": {"b": 1}}), 422)


async def test_a_change_between_read_and_write_is_detected(
    desk: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ekiden.api.local import state

    async def looked(store: Store, scope: SharedScope, owner: str) -> Any:
        found = await shared_state(store, scope, owner)
        await update_shared_state(store, scope, owner, {"a": "theirs"}, by="somebody")
        return found

    path = "/state/users/u7"
    tag = (await desk("GET", path)).headers["etag"]
    monkeypatch.setattr(state, "shared_state", looked)
    late = await desk("PATCH", path, {"set": {"a": "mine"}}, headers={"If-Match": tag})
    problem(late, 412, "state.stale")


async def test_invalid_user_variables_are_refused(desk: Served) -> None:
    bodies: tuple[Any, ...] = (
        {},
        {"set": {"user:a": 1}},
        {"set": {"a": 1}, "expected": {"a": -1}},
        {"set": {"": 1, "a": 1}, "delete": ["a"]},
        {"set": {"a\x00": 1}},
        {"set": {"a": 1}, "on_busy": "wait"},
    )
    for body in bodies:
        problem(await desk("PATCH", "/state/users/u7", body), 422)
    for path in ("/state/users/", f"/state/users/{'x' * 501}"):
        problem(await desk("GET", path), 422)
    problem(await desk("GET", "/state/users/%00"), 404)


async def test_only_the_own_app_can_be_read_and_changed(desk: Served) -> None:
    changed = await desk("PATCH", "/state/apps/ekiden", {"set": {"open": True}})
    assert changed.json() == {"app": "ekiden", "versions": {"open": 1}}
    shown = await desk.get("/state/apps/ekiden")
    assert shown == await desk.command("state", "show", "--app", "ekiden")
    for other in ("shop", "ekiden@other", "EKIDEN", "ekiden/"):
        problem(await desk("GET", f"/state/apps/{other}"), 404)
        problem(await desk("PATCH", f"/state/apps/{other}", {"set": {"a": 1}}), 404)


async def test_the_app_of_a_tenant_has_its_own_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = As("admin", tenant="other")
    async with serving(tmp_path, monkeypatch, gate=gate) as desk:
        await desk("PATCH", "/state/apps/ekiden", {"set": {"whose": "other"}})
        problem(await desk("GET", "/state/apps/ekiden@other"), 404)
        gate.who = As("admin").who
        assert (await desk.get("/state/apps/ekiden"))["variables"] == {}
        problem(await desk("GET", "/state/apps/ekiden@other"), 404)


async def test_only_an_administrator_can_write_under_another_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = As("run", "read")
    async with serving(tmp_path, monkeypatch, gate=gate) as desk:
        path, body = "/state/users/u7", {"set": {"a": 1}, "by": "佐藤"}
        problem(await desk("PATCH", path, body), 403, "auth.scope")
        own = await desk("PATCH", path, {"set": {"a": 1}, "by": "ada"})
        assert own.status_code == 200
        assert (await desk.get(path))["variables"]["a"]["by"] == "ada"
        gate.who = As("admin").who
        assert (await desk("PATCH", path, body)).status_code == 200
        assert (await desk.get(path))["variables"]["a"]["by"] == "佐藤"


async def test_state_routes_need_their_scopes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = As("run", "answer")
    async with serving(tmp_path, monkeypatch, gate=gate) as desk:
        for path in ("/sessions/s/state", "/state/users/u", "/state/apps/ekiden"):
            problem(await desk("GET", path), 403, "auth.scope")
        gate.who = As("read", "answer").who
        for path in ("/sessions/s/state", "/state/users/u", "/state/apps/ekiden"):
            problem(await desk("PATCH", path, {"set": {"a": 1}}), 403, "auth.scope")


async def test_variables_can_be_set_with_the_first_message(desk: Served) -> None:
    await desk.ask("Where is my order 1042?", session_id="new", variables={"tier": "gold"})
    first = (await desk.get("/sessions/new/events"))["items"][0]
    assert first["details"]["state"] == {"set": {"tier": "gold"}}
    await desk.command("run", "--session", "new", "--var", "n=1", "--var", "note=a=b", "Thanks.")
    state = await desk.get("/sessions/new/state")
    assert state["variables"] == {"tier": "gold", "n": 1, "note": "a=b"}
    for bad in ({"user:x": 1}, {"": 1}, ["x"], {"x" * 201: 1}):
        refused = await desk("POST", "/runs", {"input": "x", "session_id": "no", "variables": bad})
        assert refused.status_code in (400, 422), refused.text
    problem(await desk("GET", "/sessions/no"), 404)
