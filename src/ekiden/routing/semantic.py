"""The `semantic` stage, which chooses the agent whose texts are most similar to a request."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from time import perf_counter
from typing import Any, TypeAlias

import numpy as np

from ekiden.core.agent import Agent
from ekiden.core.dataclass import dataclass
from ekiden.core.text.wording import plain_line
from ekiden.embeddings.base import Embedder, KnowingEmbedder, second_encoder
from ekiden.embeddings.local import MISSING, HashingEmbedder, local_embedder, one_thread
from ekiden.routing.decision import Score, StageResult
from ekiden.routing.learner import (
    SHARED,
    Calibration,
    DescribedCalibration,
    Indices,
    Judgement,
    Learner,
    Matrix,
    TaughtCalibration,
    Views,
    calibrate,
    read_index,
    write_index,
)
from ekiden.routing.settings import RuleSettings, SemanticSettings
from ekiden.routing.texts import (
    REQUESTS,
    REQUESTS_WEIGHT,
    SUBJECTS,
    SUBJECTS_WEIGHT,
    AgentText,
    has_words,
    sources_of,
    texts_of,
)

MAX_CANDIDATES = 20
_NEAR = 0.4
"""General requests with this cosine to a text of an agent are left out: they may be its own."""
_SAME = 0.45
"""Subjects with this cosine to a text of an agent are left out: they are its own."""
_FEWEST = 8
"""The minimum number of general requests; the maximum is the number of the agents' texts."""
_MOSTLY = 0.5
"""The minimum share of the agents' texts that a second encoder must know to be used."""
_TAUGHT = 3
"""An agent with fewer examples is known by its description only. In a team where most agents have
more, its probability is a guess, so its choice is never sure."""
OnLearning: TypeAlias = Callable[[int, int], None]
"""A function that is called with the number of learnt texts and the number of all texts."""

_STEP = 64
"""Number of texts between two reports of progress."""
_LARGE = 200
"""From this number of texts on, the learnt data is stored for other processes."""
_TELLING = 0.5
"""The minimum weight of texts that are used for calibration."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Judge:
    learner: Learner
    calibration: Calibration


class SemanticStage:
    """Chooses an agent by similarity of meaning. The stage learns from the agents' texts once, at
    creation.

    `threshold` is the minimum probability of a choice, from 0 to 1. By default the calibration
    decides. A choice is sure at a confidence of `sure_at` or more. `second` is another encoder with
    the same weight as the first. It is not used for requests in languages that it does not know.
    The learnt data of a large team is stored in the user's cache folder. Learning takes seconds for
    such a team, and `on_learning` is called with the progress. Several threads can use one stage::

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
        sure_at: int = RuleSettings().confidence_threshold,
        on_learning: OnLearning | None = None,
    ) -> None:
        self._names = [agent.name for agent in agents]
        taught = {a.name for a in agents if len(a.triggers.examples) >= _TAUGHT}
        self._described = 2 * len(taught) < len(agents)
        """Whether most agents are known by their descriptions."""
        self._guessed = set() if self._described else set(self._names) - taught
        self._threshold = threshold
        self._sure_at = sure_at
        self._meaning = embedder
        self._second = second
        self._letters = HashingEmbedder()
        self._alone: _Judge | None = None
        """For requests that the second encoder does not know, or without a second encoder."""
        self._together: _Judge | None = None
        """With both encoders."""
        if not agents:
            return
        is_large = len(agents) >= _LARGE or len(texts_of(agents)) >= _LARGE
        key = self._key(agents) if is_large else None
        if key is None:
            with one_thread():
                self._learn(agents, texts_of(agents), None)
        elif not self._restore(key, agents):
            self._learn(agents, texts_of(agents), on_learning)
            self._keep(key)

    def _key(self, agents: Sequence[Agent[Any]]) -> str:
        """A hash of everything that determines the learnt data: texts, encoders and this code."""
        second = None if self._second is None else self._second.name
        facts = [self._meaning.name, second, self._letters.name, self._described, self._names]
        digest = sha256(repr(facts).encode("utf-8", "surrogatepass"))
        for agent in agents:
            digest.update(repr(sources_of(agent)).encode("utf-8", "surrogatepass"))
        for path in sorted(Path(__file__).parent.glob("*.py")):
            digest.update(path.read_bytes())
        return digest.hexdigest()

    def _keep(self, key: str) -> None:
        arrays: dict[str, Matrix] = {}
        for name, judge in (("alone", self._alone), ("together", self._together)):
            if judge is not None:
                arrays |= {f"{name}.{each}": a for each, a in judge.learner.arrays().items()}
                if isinstance(judge.calibration, TaughtCalibration):
                    line = [judge.calibration.sharpness, judge.calibration.line]
                    arrays[f"{name}.calibration"] = np.array(line, dtype=np.float32)
        write_index(key, arrays)

    def _restore(self, key: str, agents: Sequence[Agent[Any]]) -> bool:
        """Load the stored data; returns whether it exists and is valid."""
        arrays = read_index(key)
        if arrays is None:
            return False
        try:
            self._alone = self._restored("alone", arrays, agents, None)
            if self._second is not None and "together.weights" in arrays:
                size = self._second.dimensions
                self._together = self._restored("together", arrays, agents, size)
        except (ValueError, KeyError, IndexError):
            self._alone = self._together = None
            return False
        return True

    def _restored(
        self,
        name: str,
        arrays: Mapping[str, Matrix],
        agents: Sequence[Agent[Any]],
        second: int | None,
    ) -> _Judge:
        own = {each.removeprefix(f"{name}."): arrays[each] for each in arrays}
        columns = own["weights"].shape[1]
        if columns <= len(agents):
            raise ValueError("there is no column for nobody")
        sizes = (self._meaning.dimensions, self._letters.dimensions, second)
        learner = Learner.restored(own, agents=columns, sizes=sizes)
        if self._described:
            return _Judge(learner=learner, calibration=_calibration_of(agents))
        sharpness, line = map(float, own["calibration"])
        calibration = TaughtCalibration(sharpness=sharpness, line=line)
        return _Judge(learner=learner, calibration=calibration)

    def _learn(
        self,
        agents: Sequence[Agent[Any]],
        texts: Sequence[AgentText],
        on_learning: OnLearning | None,
    ) -> None:
        words = [each.text for each in texts]
        if on_learning is None:
            views = self._views(words)
        else:
            on_learning(0, len(words))
            views = self._views(words[:_STEP])
            for start in range(_STEP, len(words), _STEP):
                on_learning(start, len(words))
                views = views.with_more(self._views(words[start : start + _STEP]))
            on_learning(len(words), len(words))
        if self._described:
            views, others = self._as_requests(views, texts)
            columns = np.arange(len(others.meaning))
            weight = SUBJECTS_WEIGHT
        else:
            others = self._views(REQUESTS[: max(_FEWEST, len(texts))])
            others = others.rows(_apart(others.meaning, views.meaning, _NEAR))
            columns = np.zeros(len(others.meaning), dtype=np.intp)
            weight = REQUESTS_WEIGHT
        owners = np.append([each.agent for each in texts], columns + len(agents)).astype(np.intp)
        weights = np.array(
            [each.weight for each in texts] + [weight] * len(columns), dtype=np.float32
        )
        everything = views.with_more(others)
        self._alone = self._judge(replace(everything, second=None), owners, weights, agents)
        if views.second is not None and views.second.any(axis=1).mean() >= _MOSTLY:
            self._together = self._judge(everything, owners, weights, agents)

    def _as_requests(self, views: Views, texts: Sequence[AgentText]) -> tuple[Views, Views]:
        """The vectors of the agents' texts and of other subjects, moved as if worded as requests.

        The vectors of "Books hotels" and "book me a hotel" also differ by their form. Descriptions
        are moved by the average difference between general requests and general descriptions.
        """
        subjects, requests = self._views(SUBJECTS), self._views(REQUESTS)
        others = subjects.rows(_apart(subjects.meaning, views.meaning, _SAME))
        described = np.array([[not each.is_request] for each in texts], dtype=np.float32)
        meaning = _middle(requests.meaning) - _middle(subjects.meaning)
        second = None
        if requests.second is not None and subjects.second is not None:
            second = _middle(requests.second) - _middle(subjects.second)
        return views.moved(meaning, second, described), others.moved(
            meaning, second, np.ones((len(others.meaning), 1), dtype=np.float32)
        )

    def _judge(
        self, texts: Views, owners: Indices, weights: Matrix, agents: Sequence[Agent[Any]]
    ) -> _Judge:
        """Learn from the texts. Owners from the number of agents on are general texts."""
        columns = max(int(owners.max()), len(agents)) + 1
        learner = Learner(texts, owners, weights, agents=columns)
        if self._described:
            return _Judge(learner=learner, calibration=_calibration_of(agents))
        telling = np.flatnonzero((weights >= _TELLING) & (owners < len(agents)))
        calibration = calibrate(learner.left_out[telling], owners[telling])
        return _Judge(learner=learner, calibration=calibration)

    def decide(self, text: str, *, excluded: Collection[str] = ()) -> StageResult:
        """Choose the most probable agent that is not `excluded`, or no agent if none is similar
        enough.

        The result is `sure` at a confidence of `sure_at` or more, if the agent has enough examples.
        """
        began = perf_counter()
        left = [number for number, name in enumerate(self._names) if name not in excluded]
        judged = self._judged(text, left)
        if judged is None:
            is_empty = not left or self._alone is None or not text.strip()
            reason = (
                "there is nothing to compare" if is_empty else "no word of the request is known"
            )
            return _result((), reason, began=began)
        probable = judged.probable
        order = np.argsort(-probable, kind="stable")[:MAX_CANDIDATES]
        candidates = tuple(_score(self._names[left[at]], float(probable[at])) for at in order)
        best = candidates[0]
        near = judged.lead >= 0 if self._threshold is None else best.score >= self._threshold
        if not near:
            reason = f"nothing is near enough; the nearest is {best.agent} with {best.score:.0%}"
            return _result(candidates, reason, began=began)
        guessed = best.agent in self._guessed
        sure = best.confidence >= self._sure_at and not guessed
        doubt = f", but it has fewer than {_TAUGHT} examples to be sure by" if guessed else ""
        reason = f"most like what {best.agent} is for ({best.score:.0%}{doubt})"
        return _result(candidates, reason, agent=best.agent, sure=sure, began=began)

    def lead(self, text: str) -> float:
        """The distance of the best agent's score to the threshold for requests in scope.

        Without a `threshold`, requests with a lead of 0 or more are given to an agent.
        """
        judged = self._judged(text, range(len(self._names)))
        return float("-inf") if judged is None else judged.lead

    def scores(self, text: str) -> tuple[Matrix, Matrix] | None:
        """The scores of the agents, and of the general texts, which fit no agent.

        `None` if the text has no known words, or if nothing was learnt.
        """
        found = self._scored(text)
        return None if found is None else found[0]

    def _judged(self, text: str, left: Sequence[int]) -> Judgement | None:
        found = self._scored(text) if left else None
        if found is None:
            return None
        (agents, others), judge = found
        return judge.calibration.judge(agents[list(left)], others)

    def _scored(self, text: str) -> tuple[tuple[Matrix, Matrix], _Judge] | None:
        if self._alone is None or not has_words(text):
            return None
        views = self._views([text])
        if not views.meaning.any():
            return None
        judge = self._alone
        if self._together is not None and views.second is not None and views.second.any():
            judge = self._together
        elif not self._understands(text, views):
            return None
        with one_thread():
            scores = judge.learner.scores(views)[0]
        return (scores[: len(self._names)], scores[len(self._names) :]), judge

    def _understands(self, text: str, views: Views) -> bool:
        """Whether the encoder knows a word of the text, or an agent's text has similar words.

        By chance the vector of unknown words is near that of some agent.
        """
        if not isinstance(self._meaning, KnowingEmbedder) or self._meaning.knows([text])[0]:
            return True
        learner = None if self._alone is None else self._alone.learner
        return learner is not None and float(learner.shared_letters(views)[0, 0]) >= SHARED

    def _views(self, texts: Sequence[str]) -> Views:
        return Views(
            meaning=self._meaning.embed(texts),
            letters=self._letters.embed(texts),
            second=None if self._second is None else _known(self._second, texts),
        )


def semantic_stage(
    agents: Sequence[Agent[Any]],
    settings: SemanticSettings,
    *,
    sure_at: int = RuleSettings().confidence_threshold,
    on_learning: OnLearning | None = None,
) -> SemanticStage | str:
    """Create the stage with the local embedder, and with the second encoder if there is one. If the
    stage is unavailable, the result is the reason.

    Raises `UserError` if a second encoder is configured and cannot be used.
    """
    embedder = local_embedder()
    if embedder is None:
        return f"semantic routing is unavailable: {MISSING}"
    return SemanticStage(
        agents,
        embedder,
        second=second_encoder(),
        threshold=settings.threshold,
        sure_at=sure_at,
        on_learning=on_learning,
    )


def _calibration_of(agents: Sequence[Agent[Any]]) -> DescribedCalibration:
    examples = [min(len(agent.triggers.examples), _TAUGHT) for agent in agents]
    return DescribedCalibration(examples=sum(examples) / (_TAUGHT * len(agents)))


def _known(encoder: KnowingEmbedder, texts: Sequence[str]) -> Matrix:
    """The vectors of an encoder; zeros for texts that it does not know."""
    vectors = np.zeros((len(texts), encoder.dimensions), dtype=np.float32)
    rows = np.flatnonzero(encoder.knows(texts)).tolist()
    if rows:
        vectors[rows] = encoder.embed([texts[row] for row in rows])
    return vectors


def _apart(others: Matrix, own: Matrix, near: float) -> Indices:
    """The rows of `others` that are not near any row of `own`."""
    return np.flatnonzero((others @ own.T).max(axis=1) < near)


def _middle(vectors: Matrix) -> Matrix:
    """The mean of the rows that are not zero."""
    known = vectors[vectors.any(axis=1)]
    return np.asarray(known.mean(axis=0) if len(known) else 0 * vectors[0], dtype=np.float32)


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
