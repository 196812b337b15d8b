"""Routing by meaning: the agent whose examples and description a request is most like.

The texts themselves tell how sure a score is. For every text that was learnt, the learner tells the
scores that it would have got as a stranger. They are what scores of real requests will be like: how
often the best one is right gives the probabilities, and how low the best one may be gives the line
below which nobody is meant.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from ekiden.core.agent import Agent
from ekiden.embeddings.base import Embedder, KnowingEmbedder
from ekiden.embeddings.found import second_encoder
from ekiden.embeddings.letters import HashingEmbedder
from ekiden.embeddings.local import MISSING, local_embedder
from ekiden.routing.decision import Score, StageResult, plain_line
from ekiden.routing.meaning.learner import Indices, Learner, Matrix, Views
from ekiden.routing.meaning.texts import NOBODYS, NOBODYS_WEIGHT, texts_of
from ekiden.routing.settings import SemanticSettings

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAX_CANDIDATES = 20
_NEAR = 0.4
"""A general request with so large a cosine to something an agent says may well be that agent's."""
_FEWEST = 8
"""So many general requests are always compared with, and no more than the agents have texts."""
_MOSTLY = 0.5
"""A second encoder that knows less of what the agents say is of no use."""
_TAUGHT = 3
"""With fewer examples an agent's probability is a guess, and nobody's choice stands on it alone."""
_TELLING = 0.5
"""Texts believed less than this are not taken as samples of what requests will be like."""

KEPT = 0.95
"""The part of the requests meant for somebody that is to be above the line."""
SURE = 0.8
"""How probable a choice must be to stand without asking further."""

_USUAL_LINE = -0.1
_USUAL_SHARPNESS = 12.0
_USUAL_COUNT = 20
"""What is usual counts like so many texts. Measured on validation parts of public intent sets."""
_SHARPNESSES = (4, 6, 8, 10, 12, 15, 20, 25, 30, 40)


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """From scores to probabilities, one of them being that nobody is meant.

    Scores are those of the agents and, last, of the general requests that are nobody's.
    """

    sharpness: float
    line: float
    """By how much an agent must beat nobody to be chosen. It may be below 0, when requests that are
    an agent's are often as near to general ones; but such a choice is never probable."""

    @classmethod
    def usual(cls) -> Calibration:
        """Before anything is known."""
        return cls(sharpness=_USUAL_SHARPNESS, line=_USUAL_LINE)

    def probabilities(self, scores: Matrix) -> Matrix:
        """Of each agent, and last of nobody, for the scores of one text."""
        powers = scores.astype(np.float32)
        powers[-1] = max(float(powers[-1]), 0.0) + max(self.line, 0.0)
        powers = np.exp(self.sharpness * (powers - powers.max()))
        return np.asarray(powers / powers.sum(), dtype=np.float32)

    def lead(self, scores: Matrix) -> float:
        """By how much the best agent beats nobody, for the scores of one text."""
        return float(_leads(scores[None])[0]) - self.line


def calibrate(left_out: Matrix, owners: Indices) -> Calibration:
    """From the scores of texts that were left out and the agents they belong to."""
    count = len(owners)
    if not count:
        return Calibration.usual()
    trust = count / (count + _USUAL_COUNT)
    agents = left_out[:, :-1]
    weights = 1 / np.bincount(owners)[owners]
    line = _line(_leads(left_out), weights / weights.sum())
    sharpness = min(_SHARPNESSES, key=lambda each: _surprise(agents, owners, each))
    return Calibration(
        line=trust * line + (1 - trust) * _USUAL_LINE,
        sharpness=float(sharpness**trust * _USUAL_SHARPNESS ** (1 - trust)),
    )


def _leads(scores: Matrix) -> Matrix:
    leads: Matrix = scores[:, :-1].max(axis=1) - np.maximum(scores[:, -1], 0)
    return leads


def _line(leads: Matrix, weights: NDArray[np.float64]) -> float:
    """Where the part to be kept is above; every agent counts alike, however many texts it has."""
    order = np.argsort(leads)
    below = np.cumsum(weights[order]) - weights[order] / 2
    return float(np.interp(1 - KEPT, below, leads[order]))


def _surprise(scores: Matrix, owners: Indices, sharpness: float) -> float:
    powers = sharpness * (scores - scores.max(axis=1, keepdims=True))
    own = powers[np.arange(len(owners)), owners]
    return float(np.mean(np.log(np.exp(powers).sum(axis=1)) - own))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Judge:
    learner: Learner
    calibration: Calibration


class SemanticStage:
    """Learns from what the agents say of themselves, once, when it is made.

    `threshold` is how probable a choice must be, 0 to 1; without it, the line is drawn where 95 %
    of requests like the agents' own texts are kept. `second` is another encoder, which counts as
    much as the first; what is asked in a language that it does not know is decided as if there were
    none. Safe to use from several threads::

        stage = SemanticStage([billing, travel], local_embedder())
        stage.decide("why was I charged twice?").agent
    """

    def __init__(
        self,
        agents: Sequence[Agent[Any]],
        embedder: Embedder,
        *,
        second: KnowingEmbedder | None = None,
        threshold: float | None = None,
    ) -> None:
        self._names = [agent.name for agent in agents]
        self._taught = {a.name for a in agents if len(a.triggers.examples) >= _TAUGHT}
        self._threshold = threshold
        self._meaning = embedder
        self._second = second
        self._letters = HashingEmbedder()
        self._alone: _Judge | None = None
        self._together: _Judge | None = None
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
        self._alone = _judge(replace(everything, second=None), owner, belief, len(agents))
        if views.second is not None and views.second.any(axis=1).mean() >= _MOSTLY:
            self._together = _judge(everything, owner, belief, len(agents))

    def decide(self, text: str, *, excluded: Collection[str] = ()) -> StageResult:
        """The most probable agent but none of `excluded`.

        It is `sure` when the choice stands on its own, for which its agent must have some examples;
        an agent that is named without that is the best guess; no agent means that nothing was near
        enough.
        """
        began = perf_counter()
        left = [number for number, name in enumerate(self._names) if name not in excluded]
        judged = self._judged(text)
        if judged is None or not left:
            return _result((), "there is nothing to compare", began=began)
        scores, calibration = judged
        scores = scores[[*left, -1]]
        probable = calibration.probabilities(scores)[:-1]
        order = np.argsort(-probable, kind="stable")[:MAX_CANDIDATES]
        candidates = tuple(_score(self._names[left[at]], float(probable[at])) for at in order)
        best = candidates[0]
        if self._threshold is None:
            near = calibration.lead(scores) >= 0
        else:
            near = best.score >= self._threshold
        if not near:
            reason = f"nothing is near enough; the nearest is {best.agent} with {best.score:.0%}"
            return _result(candidates, reason, began=began)
        doubt = ""
        if self._threshold is None and best.score < SURE:
            doubt = ", which is too little to be sure"
        elif self._threshold is None and best.agent not in self._taught:
            doubt = f", but it has fewer than {_TAUGHT} examples to be sure by"
        sure = not doubt
        reason = f"most like what {best.agent} is for ({best.score:.0%}{doubt})"
        return _result(candidates, reason, agent=best.agent, sure=sure, began=began)

    def lead(self, text: str) -> float:
        """By how much the best agent is ahead of the line below which nobody is meant.

        Without a `threshold`, requests with a lead of 0 or more are given to an agent.
        """
        judged = self._judged(text)
        if judged is None:
            return float("-inf")
        scores, calibration = judged
        return calibration.lead(scores)

    def _judged(self, text: str) -> tuple[Matrix, Calibration] | None:
        """The scores of every agent, and what they are worth.

        `None` when there is nothing in the text, or nothing was learnt.
        """
        if self._alone is None:
            return None
        views = self._views([text])
        if not views.meaning.any():
            return None
        judge = self._alone
        if self._together is not None and views.second is not None and views.second.any():
            judge = self._together
        return judge.learner.scores(views)[0], judge.calibration

    def _views(self, texts: Sequence[str]) -> Views:
        return Views(
            meaning=self._meaning.embed(texts),
            letters=self._letters.embed(texts),
            second=None if self._second is None else _known(self._second, texts),
        )


def semantic_stage(agents: Sequence[Agent[Any]], settings: SemanticSettings) -> SemanticStage | str:
    """The stage with the local embedder and a second encoder that was found, or why there is none.

    Raises `UserError` for a second encoder that is named and cannot be used.
    """
    embedder = local_embedder()
    if embedder is None:
        return f"semantic routing is not there: {MISSING}"
    return SemanticStage(agents, embedder, second=second_encoder(), threshold=settings.threshold)


def _known(encoder: KnowingEmbedder, texts: Sequence[str]) -> Matrix:
    """Its vectors, and zeros for what it does not know."""
    vectors = np.zeros((len(texts), encoder.dimensions), dtype=np.float32)
    rows = np.flatnonzero(encoder.knows(texts)).tolist()
    if rows:
        vectors[rows] = encoder.embed([texts[row] for row in rows])
    return vectors


def _judge(texts: Views, owners: Indices, belief: Matrix, agents: int) -> _Judge:
    """The last owner, `agents`, is nobody."""
    learner = Learner(texts, owners, belief, agents=agents + 1)
    telling = np.flatnonzero((belief >= _TELLING) & (owners < agents))
    calibration = calibrate(learner.left_out[telling], owners[telling])
    return _Judge(learner=learner, calibration=calibration)


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
