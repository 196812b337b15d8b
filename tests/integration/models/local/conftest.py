"""A real model, small enough for every test run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ekiden.models.local import LocalEngineSettings, LocalModel, Weights, close_engines
from tests.support.tiny_gguf import write_tiny_gguf

pytest.importorskip("xllamacpp", reason="the extra `local` is not installed")


@pytest.fixture(scope="session")
def tiny_gguf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of the model."""
    return write_tiny_gguf(tmp_path_factory.mktemp("models") / "tiny.gguf")


@pytest.fixture(scope="session")
def tiny_weights(tiny_gguf: Path) -> Iterator[Weights]:
    """The model, freed at the end."""
    yield Weights(name="tiny", path=tiny_gguf, size=tiny_gguf.stat().st_size)
    close_engines()


@pytest.fixture
def tiny(tiny_weights: Weights) -> LocalModel:
    """The model behind the protocol, with short answers."""
    return LocalModel(tiny_weights, LocalEngineSettings(n_ctx=2048, max_tokens=300, threads=1))
