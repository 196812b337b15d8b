"""Variables of sessions, users and the app."""

from __future__ import annotations

from typing import Any

import pytest

from ekiden.client.ekiden import Ekiden
from ekiden.core.documents import to_json
from ekiden.core.errors import SessionNotFound, UserError
from ekiden.core.errors.server import NotServed, PreconditionFailed, RequestInvalid
from ekiden.core.errors.stored_data import StaleState
from tests.contract.api.conftest import Begin

USER = "团队/用户 7?"


async def test_variables_of_a_session_are_changed_and_shown(ekiden: Ekiden, begin: Begin) -> None:
    await begin("s")
    state = ekiden.state
    before = await state.session("s")
    assert (before.session_id, before.version, before.variables) == ("s", 0, {})
    changed = await state.update_session("s", {"级别": "金", "n": [1, None]})
    now = await state.session("s")
    assert to_json(changed) == {"session_id": "s", "version": now.version}
    assert now.variables == {"级别": "金", "n": [1, None]}
    assert now.last_action is not None
    assert now.last_action.details == {"by": "local"}
    gone = await state.update_session("s", delete=["n", "never"], by="佐藤", on_busy="wait")
    assert (await state.session("s")).variables == {"级别": "金"}
    assert (await state.session("s", at=changed.version)) == now
    assert gone.version == changed.version + 1


async def test_a_change_based_on_a_stale_version_is_refused(ekiden: Ekiden, begin: Begin) -> None:
    await begin("s")
    state = ekiden.state
    first = await state.update_session("s", {"a": 1}, expected_version=0)
    with pytest.raises(StaleState):
        await state.update_session("s", {"a": 2}, expected_version=0)
    with pytest.raises(PreconditionFailed):
        await state.update_session("s", {"a": 2}, expected_version=[first.version + 1, 0])
    again = await state.update_session("s", {"a": 3}, expected_version=[0, first.version])
    assert (await state.session("s")).variables == {"a": 3}
    assert again.version == first.version + 1


async def test_user_variables_are_versioned_separately(ekiden: Ekiden) -> None:
    state = ekiden.state
    nothing = await state.user(USER)
    assert to_json(nothing) == {"user": USER, "variables": {}}
    changed = await state.update_user(USER, {"语言": "zh", "n": 2}, expected={"n": 0})
    assert to_json(changed) == {"user": USER, "versions": {"语言": 1, "n": 1}}
    found = await state.user(USER)
    assert list(found.variables) == ["n", "语言"]
    assert (found.variables["n"].value, found.variables["n"].by) == (2, "local")
    assert found.version != nothing.version
    gone = await state.update_user(USER, delete=["n"], by="ada", expected_version=found.version)
    assert gone.versions == {"n": 0}
    with pytest.raises(PreconditionFailed):
        await state.update_user(USER, {"b": 1}, expected_version=found.version)
    with pytest.raises(StaleState):
        await state.update_user(USER, {"语言": "ja"}, expected={"语言": 7})
    with pytest.raises(RequestInvalid):
        await state.update_user(USER, {"b": 1}, expected={"语言": 1})
    assert set((await state.user(USER)).variables) == {"语言"}


async def test_only_variables_of_the_own_app_can_be_read_and_changed(ekiden: Ekiden) -> None:
    state = ekiden.state
    changed = await state.update_app("ekiden", {"open": True})
    assert to_json(changed) == {"app": "ekiden", "versions": {"open": 1}}
    found = await state.app("ekiden")
    assert (found.app, found.variables["open"].value) == ("ekiden", True)
    gone = await state.update_app("ekiden", delete=["open"], expected_version=found.version)
    assert gone.versions == {"open": 0}
    with pytest.raises(PreconditionFailed):
        await state.update_app("ekiden", {"open": 1}, expected_version=found.version)
    with pytest.raises(StaleState):
        await state.update_app("ekiden", {"open": 1}, expected={"open": 1})
    with pytest.raises(NotServed):
        await state.app("shop")
    with pytest.raises(NotServed):
        await state.update_app("shop", {"a": 1})


SENSELESS: list[dict[str, Any]] = [
    {"set": {"": 1}},
    {"set": {"x" * 201: 1}},
    {"set": {"a\x00": 1}},
    {"delete": [""]},
    {"delete": ["a", "a"]},
    {"set": {"a": 1}, "by": ""},
]


@pytest.mark.parametrize("change", SENSELESS)
async def test_an_invalid_change_is_refused(
    ekiden: Ekiden, begin: Begin, change: dict[str, Any]
) -> None:
    await begin("s")
    state = ekiden.state
    for update in (
        lambda: state.update_session("s", **change),
        lambda: state.update_user("u7", **change),
        lambda: state.update_app("ekiden", **change),
    ):
        with pytest.raises(RequestInvalid):
            await update()
    assert (await state.session("s")).variables == {}


async def test_a_change_that_cannot_be_stored_is_refused(ekiden: Ekiden, begin: Begin) -> None:
    await begin("s")
    state = ekiden.state
    with pytest.raises(UserError):
        await state.update_session("s")
    with pytest.raises(UserError):
        await state.update_session("s", {"user:x": 1})
    with pytest.raises(UserError):
        await state.update_user("u7", {"user:x": 1})
    with pytest.raises(UserError):
        await state.update_user("u7", {"a": 1}, delete=["a"])
    with pytest.raises(RequestInvalid):
        await state.update_user("u7", {"a": 1}, expected={"a": -1})
    with pytest.raises(RequestInvalid):
        await state.session("s", at=0)
    with pytest.raises(UserError):
        await state.session("s", at=99)
    for session in (lambda: state.session("no"), lambda: state.update_session("no", {"a": 1})):
        with pytest.raises(SessionNotFound):
            await session()
