"""Routing by meaning: the agent whose examples and description a request is most like."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from time import perf_counter
from typing import Any

import numpy as np

from ekiden.core.agent import Agent
from ekiden.embeddings.base import Embedder
from ekiden.embeddings.hashing import HashingEmbedder
from ekiden.embeddings.local import MISSING, local_embedder
from ekiden.routing.decision import Score, StageResult
from ekiden.routing.semantic_calibration import SURE, Calibration, calibrate
from ekiden.routing.semantic_learner import Learner, Matrix, Views
from ekiden.routing.semantic_texts import nobodys, texts_of
from ekiden.routing.settings import SemanticSettings
from ekiden.routing.wording import plain_line

MAX_CANDIDATES = 20
_EXAMPLE_BELIEF = 0.5
"""Texts believed less than this tell nothing about how requests are worded."""


class SemanticStage:
    """Learns from what the agents say of themselves, once, when it is made.

    `threshold` is how probable a choice must be, 0 to 1; without it, the line is drawn where 95 %
    of requests like the agents' own texts are kept. Safe to use from several threads::

        stage = SemanticStage([billing, travel], local_embedder())
        stage.decide("why was I charged twice?").agent
    """

    def __init__(
        self,
        agents: Sequence[Agent[Any]],
        embedder: Embedder,
        *,
        threshold: float | None = None,
    ) -> None:
        self._names = [agent.name for agent in agents]
        self._threshold = threshold
        self._meaning = embedder
        self._letters = HashingEmbedder()
        texts = texts_of(agents)
        if len(agents) == 1:
            texts += nobodys(1)
        owners = np.array([each.agent for each in texts], dtype=np.intp)
        weights = np.array([each.weight for each in texts], dtype=np.float32)
        self._learner: Learner | None = None
        self.calibration: Calibration = calibrate(np.zeros((0, 1), np.float32), owners[:0])
        if not agents:
            return
        count = max(2, len(agents))
        views = self._views([each.text for each in texts])
        self._learner = Learner(views, owners, weights, agents=count)
        telling = np.flatnonzero((weights >= _EXAMPLE_BELIEF) & (owners < len(agents)))
        self.calibration = calibrate(self._learner.left_out[telling], owners[telling])

    def decide(self, text: str, *, excluded: Collection[str] = ()) -> StageResult:
        """The most probable agent but none of `excluded`.

        It is `sure` when the choice stands on its own; an agent that is named without that is the
        best guess; no agent means that nothing was near enough.
        """
        began = perf_counter()
        ranked = self._ranked(text, frozenset(excluded))
        taken = 1000 * (perf_counter() - began)
        if not ranked:
            return _result(None, ranked, "there is nothing to compare", sure=False, taken=taken)
        best = ranked[0]
        shown = f"{best.score:.0%}"
        needed = self._threshold
        if needed is None:
            near = bool(best.score >= self._nobody)
        else:
            near = best.score >= needed
        raise NotImplementedError


def semantic_stage(
    agents: Sequence[Agent[Any]], settings: SemanticSettings
) -> SemanticStage | str:
    """The stage with the local embedder, or why there is none."""
    embedder = local_embedder()
    if embedder is None:
        return f"semantic routing is not there: {MISSING}"
    return SemanticStage(agents, embedder, threshold=settings.threshold)
