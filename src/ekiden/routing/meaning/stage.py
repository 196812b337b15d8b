"""The `semantic` stage as the router has it: made when it is first needed, and maybe missing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Sequence
from contextvars import ContextVar
from typing import Any

from ekiden.core.agent import Agent
from ekiden.embeddings.base import Embedder
from ekiden.routing.decision import Stage, StageResult, plain_line
from ekiden.routing.settings import RoutingSettings
from ekiden.tools.under_way import in_thread

LEARNING: ContextVar[Callable[[int, int], None] | None] = ContextVar("learning", default=None)
"""Told how many texts of a large team are learnt, and of how many, for whoever waits for it."""

_MAX_REASON = 300


class SemanticLoader:
    """Embeds what the agents say of themselves once, at the first question, in a thread."""

    def __init__(
        self,
        agents: Sequence[Agent[Any]],
        settings: RoutingSettings,
        *,
        embedder: Embedder | None = None,
        stage: Stage | None = None,
    ) -> None:
        self._agents = agents
        self._settings = settings
        self._embedder = embedder
        self._made: Stage | str | None = stage
        """The stage, or why there is none; `None` until it was tried."""
        self._making = threading.Lock()

    async def prepare(self) -> str | None:
        """Make the stage if that was not done yet; the answer is why there is none, if so."""
        made = self._made if self._made is not None else await in_thread(self._make)
        return made if isinstance(made, str) else None

    async def decide(self, text: str, *, excluded: Collection[str] = ()) -> StageResult:
        """The result of the stage. A missing or failed stage gives a result without an agent."""
        if isinstance(self._made, str):
            return _nothing(self._made)
        result: StageResult = await in_thread(self._decide, text, excluded)
        return result

    def _decide(self, text: str, excluded: Collection[str]) -> StageResult:
        made = self._make()
        if isinstance(made, str):
            return _nothing(made)
        try:
            return made.decide(text, excluded=excluded)
        except Exception as exc:
            return _nothing(f"semantic routing failed: {_told(exc)}")

    def _make(self) -> Stage | str:
        with self._making:
            if self._made is None:
                try:
                    self._made = self._new()
                except Exception as exc:
                    self._made = f"semantic routing cannot be set up: {_told(exc)}"
            return self._made

    def _new(self) -> Stage | str:
        from ekiden.routing.meaning.semantic import SemanticStage, semantic_stage

        semantic, sure_at = self._settings.semantic, self._settings.rule.confidence_threshold
        if self._embedder is None:
            return semantic_stage(
                self._agents, semantic, sure_at=sure_at, on_learning=LEARNING.get()
            )
        return SemanticStage(
            self._agents, self._embedder, threshold=semantic.threshold, sure_at=sure_at
        )


def _nothing(reason: str) -> StageResult:
    return StageResult(method="semantic", agent=None, confidence=0, sure=False, reason=reason)


def _told(exc: Exception) -> str:
    return plain_line(f"{type(exc).__name__}: {exc}", _MAX_REASON)
