"""Time-outs of local models."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ekiden.core.errors import ModelTimeout
from ekiden.models.local.engine import Engine, Generation, LocalRequest
from ekiden.models.local.settings import LocalEngineSettings


class Silent(Engine):
    """An engine that never answers."""

    def submit(self, job: LocalRequest) -> None:
        pass


async def test_a_timeout_names_the_configured_limit() -> None:
    engine = Silent(Path("model.gguf"), LocalEngineSettings())
    started = asyncio.get_running_loop().time() - 60
    generation = Generation(engine, {}, label="local:m", started=started, timeout_s=60)
    with pytest.raises(ModelTimeout, match="within 60 s"):
        await generation.complete()
