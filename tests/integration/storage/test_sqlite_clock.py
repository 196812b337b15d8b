"""Leases on the machine's own clock, and what a restart of the machine does to them."""

from pathlib import Path

import pytest

from ekiden.core.errors import LeaseLost, SessionBusy
from ekiden.storage.base import MessageFilter, MessageSettle, NewSession, QueuePut
from ekiden.storage.sqlite import SqliteStore
from ekiden.storage.sqlite.connection import machine_clock
from ekiden.testing import ManualClock
from tests.support.sqlite import MovableMilliseconds, one_event

HOUR_S = 3600.0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ekiden.db"


@pytest.mark.parametrize("jump_s", [HOUR_S, -HOUR_S])
async def test_a_jump_of_the_wall_clock_does_not_affect_leases(path: Path, jump_s: float) -> None:
    wall = ManualClock()
    async with SqliteStore(path, clock=wall) as store:
        claim, _ = await store.claim(
            "s", owner="w", lease_s=30, create=NewSession(id="s", agent="a")
        )
        await store.put_messages([QueuePut(queue="q", body=1, delay_s=60)])
        wall.jump(jump_s)
        with pytest.raises(SessionBusy) as caught:
            await store.claim("s", owner="v", lease_s=30)
        assert caught.value.free_in_s <= 30
        await store.commit(claim, one_event("s", 1))
        assert await store.take_messages("q", owner="t", lease_s=30) == []


async def test_a_reboot_ends_every_lease(path: Path) -> None:
    before, after = MovableMilliseconds(boot="one"), MovableMilliseconds(boot="two", ms=5)
    async with SqliteStore(path, lease_clock=before.clock) as store:
        claim, _ = await store.claim(
            "s", owner="w", lease_s=30, create=NewSession(id="s", agent="a")
        )
        await store.put_messages([QueuePut(queue="q", body=1)])
        await store.take_messages("q", owner="t", lease_s=30)
    async with SqliteStore(path, lease_clock=after.clock) as store:
        again, _ = await store.claim("s", owner="w", lease_s=30)
        assert again.epoch == claim.epoch + 1
        with pytest.raises(LeaseLost):
            await store.commit(claim, one_event("s", 1))
        (message,) = await store.take_messages("q", owner="t", lease_s=30)
        assert message.attempts == 2


async def test_a_message_delay_continues_by_the_wall_clock_after_a_reboot(path: Path) -> None:
    wall = ManualClock()
    before, after = MovableMilliseconds(boot="one"), MovableMilliseconds(boot="two", ms=5)
    async with SqliteStore(path, clock=wall, lease_clock=before.clock) as store:
        await store.put_messages([QueuePut(queue="q", body=1, delay_s=60)])
    wall.advance(40)
    async with SqliteStore(path, clock=wall, lease_clock=after.clock) as store:
        after.advance(19)
        assert await store.take_messages("q", owner="t", lease_s=30) == []
        after.advance(2)
        assert len(await store.take_messages("q", owner="t", lease_s=30)) == 1


async def test_messages_expire_and_keep_their_history_after_a_reboot(path: Path) -> None:
    wall = ManualClock()
    before, after = MovableMilliseconds(boot="one"), MovableMilliseconds(boot="two", ms=5)
    async with SqliteStore(path, clock=wall, lease_clock=before.clock) as store:
        await store.put_messages(
            [
                QueuePut(queue="q", body=1, key="soon", ttl_s=30),
                QueuePut(queue="q", body=2, key="later", ttl_s=60),
                QueuePut(queue="q", body=3, key="settled", taken_by="t"),
            ]
        )
        await store.settle_messages([MessageSettle(key="settled", state="timed_out")])
        past = await store.find_messages(MessageFilter(keys=["settled"]))
    wall.advance(40)
    async with SqliteStore(path, clock=wall, lease_clock=after.clock) as store:
        assert await store.find_messages(MessageFilter(keys=["settled"])) == past
        (taken,) = await store.take_messages("q", owner="t", lease_s=30, limit=9)
        assert taken.key == "later"
        (row,) = await store.find_messages(MessageFilter(keys=["soon"]))
        assert row.state == "expired"


async def test_the_clock_of_a_store_does_not_jump_and_continues_after_a_reboot(path: Path) -> None:
    wall = ManualClock()
    before, after = MovableMilliseconds(boot="one"), MovableMilliseconds(boot="two", ms=5)
    async with SqliteStore(path, clock=wall, lease_clock=before.clock) as store:
        first = await store.now_us()
        assert abs(first - wall.now_us()) <= 1000
        wall.jump(HOUR_S)
        assert await store.now_us() == first
        before.advance(2)
        assert await store.now_us() == first + 2_000_000
        async with SqliteStore(path, clock=wall, lease_clock=before.clock) as other:
            assert await other.now_us() == first + 2_000_000
    async with SqliteStore(path, clock=wall, lease_clock=after.clock) as store:
        assert abs(await store.now_us() - wall.now_us()) <= 1000


async def test_reopening_on_the_same_boot_keeps_leases(path: Path) -> None:
    time = MovableMilliseconds()
    async with SqliteStore(path, lease_clock=time.clock) as store:
        await store.claim("s", owner="w", lease_s=30, create=NewSession(id="s", agent="a"))
    async with SqliteStore(path, lease_clock=time.clock) as store:
        with pytest.raises(SessionBusy):
            await store.claim("s", owner="w", lease_s=30)


def test_the_machines_clock_names_its_boot_and_does_not_go_back(tmp_path: Path) -> None:
    named = tmp_path / "boot_id"
    named.write_text("abc\n")
    clock = machine_clock(named)
    assert clock.boot in ("abc", "wall")
    first = clock.now_ms()
    assert clock.now_ms() >= first


def test_without_a_boot_id_the_wall_clock_is_used(tmp_path: Path) -> None:
    clock = machine_clock(tmp_path / "missing")
    assert clock.boot == "wall"
    assert clock.now_ms() > 1_700_000_000_000
