"""What was learnt of a large team, kept in the user's cache folder."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ekiden import Agent
from ekiden.core.profile import Triggers
from ekiden.embeddings.cache_folder import read_arrays
from ekiden.embeddings.local import HashingEmbedder
from ekiden.routing import learner
from ekiden.routing.semantic import SemanticStage


class Counting(HashingEmbedder):
    """Counts the texts that it is given."""

    def __init__(self, name: str = "counting") -> None:
        super().__init__(64)
        self.name = name
        self.texts = 0

    def embed(self, texts: Sequence[str]) -> Any:
        self.texts += len(texts)
        return super().embed(texts)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "ekiden" / "routing"


def team(examples: int = 0, count: int = 110) -> list[Agent[Any]]:
    return [
        Agent(
            f"clerk{n}",
            description=f"Answers questions about subject{n}, and counts item{n}.",
            triggers=Triggers(
                examples=tuple(f"tell me subject{n} no {e}" for e in range(examples))
            ),
        )
        for n in range(count)
    ]


def decided(agents: list[Agent[Any]], embedder: Counting, **options: Any) -> Any:
    stage = SemanticStage(agents, embedder, **options)
    found = stage.decide("what about subject7 and item7?")
    return found.agent, found.confidence, [(each.agent, each.score) for each in found.candidates]


@pytest.mark.parametrize("examples", [0, 4])
def test_a_second_process_uses_the_cached_index(examples: int, folder: Path) -> None:
    first, second = Counting(), Counting()
    told: list[tuple[int, int]] = []
    learnt = decided(team(examples), first, on_learning=lambda *each: told.append(each))
    assert learnt[0] == "clerk7"
    assert told[0][0] == 0
    assert told[-1][0] == told[-1][1] >= 200
    again = decided(team(examples), second, on_learning=lambda *each: pytest.fail("learnt again"))
    assert again == learnt
    assert second.texts == 1 < first.texts
    [path] = folder.iterdir()
    assert path.stat().st_mode & 0o077 == 0


def test_another_team_or_encoder_has_an_index_of_its_own(folder: Path) -> None:
    changed = team()
    changed[3] = Agent("clerk3", description="Is new here.")
    for agents, name in ((team(), "a"), (changed, "a"), (team(), "b")):
        embedder = Counting(name)
        decided(agents, embedder)
        assert embedder.texts > 200
    assert len(list(folder.iterdir())) == 3


def test_a_small_team_writes_no_index(folder: Path) -> None:
    decided(team(count=9), Counting())
    assert not folder.exists()


def _damages(path: Path, key: str) -> dict[str, bytes]:
    content = path.read_bytes()
    header, numbers = content.split(b"\n", 1)
    arrays = read_arrays(path, key).arrays
    name = next(iter(arrays))
    learner.write_index(key, {**arrays, name: np.full_like(arrays[name], np.nan)})
    return {
        "no numbers": path.read_bytes(),
        "empty": b"",
        "cut": content[:-5],
        "longer": content + b"1234",
        "no header": numbers,
        "a bit": content[:-100] + bytes([content[-100] ^ 1]) + content[-99:],
        "shapes": header.replace(b": [[", b': [["x", "<f4", [-4], 0], [') + b"\n" + numbers,
        "names": header.replace(b'"alone.weights"', b"7") + b"\n" + numbers,
        "types": header.replace(b"<f4", b"|O4") + b"\n" + numbers,
        "no list": header.replace(b'"arrays": [', b'"arrays": 7, "was": [') + b"\n" + numbers,
        "other key": header.replace(b'"key": "', b'"key": "0') + b"\n" + numbers,
        "pickle": b"\x80\x04cos\nsystem\n(S'true'\ntR.",
    }  # fmt: skip


def test_a_damaged_index_is_learnt_again_and_replaced(folder: Path) -> None:
    learnt = decided(team(), Counting())
    [path] = folder.iterdir()
    content = path.read_bytes()
    for name, damaged in _damages(path, path.stem).items():
        path.write_bytes(damaged)
        embedder = Counting()
        assert decided(team(), embedder) == learnt, name
        assert embedder.texts > 200, name
        assert path.read_bytes() == content, name


def test_an_index_with_other_shapes_is_ignored(folder: Path) -> None:
    learnt = decided(team(), Counting())
    [path] = folder.iterdir()
    key = path.name.removesuffix(".index")
    arrays = learner.read_index(key)
    assert arrays is not None
    for name in arrays:
        learner.write_index(key, {**arrays, name: arrays[name][..., :-1]})
        assert decided(team(), Counting()) == learnt
        learner.write_index(key, {each: arrays[each] for each in arrays if each != name})
        assert decided(team(), Counting()) == learnt


def test_the_oldest_index_files_are_removed_when_there_are_too_many(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(learner, "MOST_BYTES", 3000)
    numbers = np.zeros(200, dtype=np.float32)
    for at, key in enumerate(("a", "b", "c")):
        learner.write_index(key, {"x": numbers})
        os.utime(folder / f"{key}.index", (at + 1, at + 1))
    assert learner.read_index("a") is not None  # It is used, and so the newest.
    learner.write_index("d", {"x": numbers})
    assert {each.name for each in folder.iterdir()} == {"a.index", "c.index", "d.index"}
    learner.write_index("huge", {"x": np.zeros(10_000, dtype=np.float32)})
    assert learner.read_index("huge") is None


def test_an_unwritable_cache_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert decided(team(), Counting())[0] == "clerk7"
