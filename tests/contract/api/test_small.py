"""Keys, workers and costs."""

from __future__ import annotations

import pytest

from ekiden.client.ekiden import Ekiden
from ekiden.core.errors import SessionNotFound
from ekiden.core.server_errors import KeyNotFound, RequestInvalid


async def test_keys_are_made_listed_and_revoked(ekiden: Ekiden) -> None:
    made = [await ekiden.keys.create(name, scopes=["read", "run"]) for name in ("控制台", "b", "c")]
    other = await ekiden.keys.create("d", scopes=["admin"], tenant="acme", expires_s=60)
    assert other.expires_at is not None
    assert other.key.startswith(f"ek_{other.id}_")
    page = await ekiden.keys.list().page(limit=3)
    rest = await ekiden.keys.list().page(limit=3, cursor=page.next_cursor)
    assert (len(page.items), len(rest.items), rest.next_cursor) == (3, 1, None)
    listed = {each.id: each.name for each in [*page.items, *rest.items]}
    assert listed == {each.id: each.name for each in [*made, other]}
    [only] = [each async for each in ekiden.keys.list(tenant="acme")]
    assert (only.id, tuple(only.scopes), only.status) == (other.id, ("admin",), "active")
    revoked = await ekiden.keys.revoke(made[1].id)
    assert (revoked.id, revoked.status) == (made[1].id, "revoked")
    assert await ekiden.keys.revoke(made[1].id) == revoked
    with pytest.raises(KeyNotFound):
        await ekiden.keys.revoke("zzzzzzzz")
    with pytest.raises(KeyNotFound):
        await ekiden.keys.list().page(cursor="zzzzzzzz")
    with pytest.raises(RequestInvalid):
        await ekiden.keys.create("", scopes=["read"])
    with pytest.raises(RequestInvalid):
        await ekiden.keys.create("x", scopes=[])


async def test_workers_are_listed(ekiden: Ekiden) -> None:
    found = await ekiden.workers.list()
    assert all(each.engine == "server" for each in found.workers)
    assert found.unserved in ((), [])


async def test_costs_of_nothing(ekiden: Ekiden) -> None:
    found = await ekiden.costs.get(by=["day"], since="7d")
    assert (tuple(found.by), tuple(found.lines), found.total.requests) == (("day",), (), 0)
    assert tuple((await ekiden.costs.get()).by) == ("agent", "model")
    with pytest.raises(SessionNotFound):
        await ekiden.costs.get(session="nobody")
    with pytest.raises(RequestInvalid):
        await ekiden.costs.get(by=["day", "day"])
    with pytest.raises(RequestInvalid):
        await ekiden.costs.get(since="never")
