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
from ekiden.routing.semantic_texts import NOBODYS, NOBODYS_WEIGHT, texts_of
from ekiden.routing.settings import SemanticSettings
from ekiden.routing.wording import plain_line

MAX_CANDIDATES = 20
_NEAR = 0.4
"""A general request with so large a cosine to something an agent says may well be that agent's."""
_FEWEST = 8
"""So many general requests are always compared with, and no more than the agents have texts."""
_TELLING = 0.5
"""Texts believed less than this are not taken as samples of what requests will be like."""


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
        self._learner: Learner | None = None
        self.calibration = Calibration.usual()
        if agents:
            self._learn(agents)

    def _learn(self, agents: Sequence[Agent[Any]]) -> None:
        texts = texts_of(agents)
        views = self._views([each.text for each in texts])
        general = self._views(NOBODYS[: max(_FEWEST, len(texts))])
        strange = np.flatnonzero((general.meaning @ views.meaning.T).max(axis=1) < _NEAR)
        owners = [each.agent for each in texts] + [len(agents)] * len(strange)
        weights = [each.weight for each in texts] + [NOBODYS_WEIGHT] * len(strange)
        belief = np.array(weights, dtype=np.float32)
        owner = np.array(owners, dtype=np.intp)
        everything = views.with_more(general.rows(strange))
        self._learner = Learner(everything, owner, belief, agents=len(agents) + 1)
        telling = np.flatnonzero((belief >= _TELLING) & (owner < len(agents)))
        self.calibration = calibrate(self._learner.left_out[telling], owner[telling])

    def decide(self, text: str, *, excluded: Collection[str] = ()) -> StageResult:
        """The most probable agent but none of `excluded`.

        It is `sure` when the choice stands on its own; an agent that is named without that is the
        best guess; no agent means that nothing was near enough.
        """
        began = perf_counter()
        left = [number for number, name in enumerate(self._names) if name not in excluded]
        scores = self._scores(text)
        if scores is None or not left:
            return _result((), "there is nothing to compare", began=began)
        scores = scores[[*left, -1]]
        probable = self.calibration.probabilities(scores)[:-1]
        order = np.argsort(-probable, kind="stable")[:MAX_CANDIDATES]
        candidates = tuple(_score(self._names[left[at]], float(probable[at])) for at in order)
        best = candidates[0]
        if self._threshold is None:
            near = self.calibration.lead(scores) >= 0
        else:
            near = best.score >= self._threshold
        if not near:
            reason = f"nothing is near enough; the nearest is {best.agent} with {best.score:.0%}"
            return _result(candidates, reason, began=began)
        sure = best.score >= (SURE if self._threshold is None else self._threshold)
        doubt = "" if sure else ", which is too little to be sure"
        reason = f"most like what {best.agent} is for ({best.score:.0%}{doubt})"
        return _result(candidates, reason, agent=best.agent, sure=sure, began=began)

    def lead(self, text: str) -> float:
        """By how much the best agent is ahead of the line below which nobody is meant.

        Without a `threshold`, requests with a lead of 0 or more are given to an agent.
        """
        scores = self._scores(text)
        if scores is None:
            return float("-inf")
        return self.calibration.lead(scores)

    def _scores(self, text: str) -> Matrix | None:
        """Of every agent; `None` when there is nothing in the text, or nothing was learnt."""
        if self._learner is None:
            return None
        views = self._views([text])
        if not views.meaning.any():
            return None
        scores: Matrix = self._learner.scores(views)[0]
        return scores

    def _views(self, texts: Sequence[str]) -> Views:
        return Views(meaning=self._meaning.embed(texts), letters=self._letters.embed(texts))


def semantic_stage(agents: Sequence[Agent[Any]], settings: SemanticSettings) -> SemanticStage | str:
    """The stage with the local embedder, or why there is none."""
    embedder = local_embedder()
    if embedder is None:
        return f"semantic routing is not there: {MISSING}"
    return SemanticStage(agents, embedder, threshold=settings.threshold)


def _score(agent: str, probability: float) -> Score:
    return Score(
        agent=agent,
        score=round(probability, 6),
        confidence=round(100 * probability),
        method="semantic",
    )


def _result(
    candidates: tuple[Score, ...],
    reason: str,
    *,
    began: float,
    agent: str | None = None,
    sure: bool = False,
) -> StageResult:
    return StageResult(
        method="semantic",
        agent=agent,
        confidence=candidates[0].confidence if agent is not None else 0,
        sure=sure,
        reason=plain_line(reason, 400),
        candidates=candidates,
        elapsed_ms=1000 * (perf_counter() - began),
    )
