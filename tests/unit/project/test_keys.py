"""API keys in a store."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from ekiden.core.errors import UserError
from ekiden.core.errors.server import KeyNotFound
from ekiden.core.privacy.detection import find_keys
from ekiden.project.keys import KEYS, KeyStore, parse_key
from ekiden.storage.memory import MemoryStore
from ekiden.testing import ManualClock
from tests.support.cases import each_case


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def store(clock: ManualClock) -> AsyncIterator[MemoryStore]:
    async with MemoryStore(clock) as opened:
        yield opened


@pytest.fixture
def keys(store: MemoryStore) -> KeyStore:
    return KeyStore(store)


async def test_a_key_has_a_public_prefix_and_a_long_secret(keys: KeyStore) -> None:
    made = await keys.create("console", scopes=["read"])
    parsed = parse_key(made.text)
    assert parsed is not None
    prefix, secret = parsed
    assert made.text == f"ek_{prefix}_{secret}"
    assert (made.key.id, len(prefix), len(secret)) == (prefix, 8, 40)
    assert made.key.fits(secret)
    assert not made.key.fits(secret[:-1] + ("a" if secret[-1] != "a" else "b"))


async def test_the_secret_is_neither_stored_nor_shown(keys: KeyStore, store: MemoryStore) -> None:
    made = await keys.create("console", scopes=["read"])
    secret = made.text.rpartition("_")[2]
    [document] = await store.list_documents(KEYS)
    assert secret not in json.dumps(document.body)
    assert secret not in repr(made)
    assert made.key.digest not in repr(made)


async def test_all_keys_are_unique(keys: KeyStore) -> None:
    made = [await keys.create("x", scopes=["read"]) for _ in range(50)]
    assert len({each.text for each in made}) == 50
    assert len({each.key.id for each in made}) == 50


async def test_a_key_is_found_unchanged(keys: KeyStore) -> None:
    made = await keys.create("安娜", scopes=["run", "read"], tenant="acme", expires_s=60)
    found = await keys.find(made.key.id)
    assert found == made.key
    assert (made.key.name, made.key.tenant) == ("安娜", "acme")
    assert made.key.scopes == {"read", "run"}
    assert await keys.find("nonesuch") is None


async def test_a_key_expires_by_the_clock_of_the_store(keys: KeyStore, clock: ManualClock) -> None:
    made = await keys.create("x", scopes=["read"], expires_s=60)
    assert made.key.is_live(await keys.now_us())
    clock.advance(59.9)
    assert made.key.is_live(await keys.now_us())
    clock.advance(0.2)
    assert not made.key.is_live(await keys.now_us())


async def test_a_revoked_key_stays_listed_and_revoked(keys: KeyStore, clock: ManualClock) -> None:
    made = await keys.create("x", scopes=["read"])
    first = await keys.revoke(made.key.id)
    clock.advance(5)
    assert await keys.revoke(made.key.id) == first
    assert first.revoked_at_us is not None
    assert not first.is_live(await keys.now_us())
    assert await keys.exist()


@pytest.mark.parametrize("form", ["{id}", "ek_{id}", "{text}"])
async def test_a_key_is_revoked_by_its_id_or_its_text(keys: KeyStore, form: str) -> None:
    made = await keys.create("x", scopes=["read"])
    revoked = await keys.revoke(form.format(id=made.key.id, text=made.text))
    assert revoked.id == made.key.id


@pytest.mark.parametrize("text", ["", "nonesuch", "../../x", "EK_ABCDEFGH", "ek_" + "x" * 500, "é"])
async def test_an_invalid_key_id_is_not_shown(keys: KeyStore, text: str) -> None:
    with pytest.raises(KeyNotFound) as caught:
        await keys.revoke(text)
    assert not text or text not in str(caught.value)


async def test_concurrent_revocations_have_one_time(keys: KeyStore) -> None:
    made = await keys.create("x", scopes=["read"])
    results = await asyncio.gather(*(keys.revoke(made.key.id) for _ in range(10)))
    assert len({each.revoked_at_us for each in results}) == 1


async def test_keys_are_listed_by_age_and_by_tenant(keys: KeyStore, clock: ManualClock) -> None:
    names = []
    for number in range(5):
        made = await keys.create(f"k{number}", scopes=["read"], tenant=f"t{number % 2}")
        names.append(made.key.name)
        clock.advance(1)
    assert [key.name for key in await keys.list()] == names
    assert [key.name for key in await keys.list(tenant="t1")] == ["k1", "k3"]


async def test_the_last_use_is_stored_beside_the_key(keys: KeyStore, clock: ManualClock) -> None:
    made = await keys.create("x", scopes=["read"])
    assert await keys.used_at_us(made.key.id) is None
    clock.advance(90)
    await keys.note_use(made.key.id)
    assert await keys.used_at_us(made.key.id) == await keys.now_us()
    assert await keys.find(made.key.id) == made.key


@pytest.mark.parametrize("name", ["", "  ", "x" * 101, "a\nb", "a\x00b", "\ud800"])
async def test_an_invalid_name_is_refused(keys: KeyStore, name: str) -> None:
    with pytest.raises(UserError):
        await keys.create(name, scopes=["read"])
    assert not await keys.exist()


@pytest.mark.parametrize("scopes", [[], ["root"], ["read", "READ"], [""]])
async def test_invalid_scopes_are_refused(keys: KeyStore, scopes: list[str]) -> None:
    with pytest.raises(UserError, match="scope"):
        await keys.create("x", scopes=scopes)
    assert not await keys.exist()


@pytest.mark.parametrize("tenant", ["", "A", "../x", "a b", "x" * 33, "_a", "a-b"])
async def test_an_invalid_tenant_is_refused(keys: KeyStore, tenant: str) -> None:
    with pytest.raises(UserError, match="tenant"):
        await keys.create("x", scopes=["read"], tenant=tenant)


@pytest.mark.parametrize("expires_s", [0, -1])
async def test_an_invalid_expiry_is_refused(keys: KeyStore, expires_s: float) -> None:
    with pytest.raises(UserError):
        await keys.create("x", scopes=["read"], expires_s=expires_s)


@each_case(
    "text",
    ["", "ek_", "ek_abcdefgh_", "ek_abcdefgh_short", "sk_abcdefgh_" + "a" * 40, "x" * 10_000,
     "ek_ABCDEFGH_" + "a" * 40, "ek_abcdefgh_" + "a" * 81, " ek_abcdefgh_" + "a" * 40,
     "ek_abcdefgh_" + "a" * 40 + "\n", "ek_abcdefgh_" + "é" * 40],
)  # fmt: skip
def test_a_malformed_key_is_not_looked_up(text: str) -> None:
    assert parse_key(text) is None


async def test_a_key_in_a_text_is_masked(keys: KeyStore) -> None:
    made = await keys.create("x", scopes=["read"])
    text = f"use {made.text} for it"
    assert [text[start:end] for start, end in find_keys(text)] == [made.text]
