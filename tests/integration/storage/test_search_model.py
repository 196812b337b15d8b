"""Whatever is put, removed and asked, a store finds what a few lines of Python find."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from ekiden.storage.base import SearchEntry, Store
from ekiden.storage.memory import MemoryStore
from ekiden.storage.search import weights, words_of
from ekiden.storage.sqlite import SqliteStore

NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=4)
TEXTS = st.text(max_size=30) | st.sampled_from(
    ["green tea", "tea cup", "绿茶", "喝茶了", "서울에서", "🍵 ต้มชา"]
)
MODELS = st.sampled_from(["", "m", "n"])


@st.composite
def histories(draw: st.DrawFn) -> list[Any]:
    """Puts and deletions in few spaces, whose names may be nearly the same."""
    spaces = st.sampled_from([*draw(st.lists(NAMES, min_size=1, max_size=3)), "a", "a/b", "A"])
    keys = st.sampled_from([*draw(st.lists(NAMES, min_size=1, max_size=3)), "a", "a/b"])
    put = st.builds(_entry, spaces, keys, TEXTS, MODELS)
    drop = st.tuples(spaces, st.none() | st.lists(keys, max_size=3))
    return draw(st.lists(st.lists(put, max_size=4) | drop, max_size=12))


def _entry(space: str, key: str, text: str, model: str) -> SearchEntry:
    vector = [1.0, 0.0] if model else None
    return SearchEntry(space=space, key=key, text=text, model=model, vector=vector, body=[space])


def by_words(model: dict[tuple[str, str], SearchEntry], space: str, query: str) -> dict[str, float]:
    texts = {key: set(words_of(entry.text)) for (at, key), entry in model.items() if at == space}
    counts = {word: sum(word in text for text in texts.values()) for word in words_of(query)}
    weight = weights(counts, len(texts))
    shared = {key: sum(weight[word] for word in counts if word in texts[key]) for key in texts}
    return {key: each / sum(weight.values()) for key, each in shared.items() if each}


async def follow(store: Store, history: list[Any], query: str) -> None:
    model: dict[tuple[str, str], SearchEntry] = {}
    for action in history:
        if isinstance(action, list):
            await store.put_entries(action)
            model |= {(entry.space, entry.key): entry for entry in action}
        else:
            space, keys = action
            gone = [at for at in model if at[0] == space and (keys is None or at[1] in keys)]
            assert await store.delete_entries(space, keys=keys) == len(gone)
            for at in gone:
                del model[at]
    for space in {"a", "a/b", "A", "none", *(at[0] for at in model)}:
        own = {key: entry for (at, key), entry in model.items() if at == space}
        back = await store.find_entries(space)
        assert [(each.key, each.text, each.body) for each in back] == [
            (key, own[key].text, [space]) for key in sorted(own)
        ]
        hits = await store.search_text(space, query, limit=100)
        assert {hit.entry.key: hit.score for hit in hits} == by_words(model, space, query)
        assert [hit.score for hit in hits] == sorted((h.score for h in hits), reverse=True)
        near = await store.search_vectors(space, [1.0, 0.0], model="m", limit=100)
        assert [hit.entry.key for hit in near] == sorted(k for k in own if own[k].model == "m")
    for space in {at[0] for at in model}:
        await store.delete_entries(space)


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
@given(history=histories(), query=TEXTS)
@settings(
    deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
def test_a_store_finds_what_the_model_finds(
    tmp_path: Path, kind: str, history: list[Any], query: str
) -> None:
    async def run() -> None:
        store: Any = MemoryStore() if kind == "memory" else SqliteStore(tmp_path / "ekiden.db")
        async with store:
            await follow(store, history, query)

    asyncio.run(run())
