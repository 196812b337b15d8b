"""Agents and stages that the tests of the router share."""

from __future__ import annotations

from collections.abc import Collection

from ekiden import Agent
from ekiden.core.profile import Triggers
from ekiden.routing import Score, StageResult

DEBUGGER = Agent(
    "debugger",
    description="Finds faults.",
    triggers=Triggers(keywords=("error", "crash"), patterns=(r"TS\d+",), priority=100),
)
WRITER = Agent("writer", title="Writes", triggers=Triggers(keywords=("text", "error")))
SYSTEM = Agent("auditor", scope="system", triggers=Triggers(keywords=("error",), priority=100))
TEAM = [DEBUGGER, WRITER, SYSTEM]


class Guess:
    """A semantic stage that returns given scores."""

    def __init__(self, *scores: tuple[str, int], sure: bool = False) -> None:
        self.scores, self.sure = scores, sure
        self.asked: list[str] = []

    def decide(self, text: str, *, excluded: Collection[str] = ()) -> StageResult:
        self.asked.append(text)
        scores = [
            Score(agent=name, score=value / 100, confidence=value, method="semantic")
            for name, value in self.scores
            if name not in excluded
        ]
        return StageResult(
            method="semantic",
            agent=scores[0].agent if scores else None,
            confidence=scores[0].confidence if scores else 0,
            sure=self.sure,
            reason=f"nearest is {scores[0].agent}" if scores else "nothing is near",
            candidates=tuple(scores),
        )


class Broken:
    def decide(self, text: str, *, excluded: Collection[str] = ()) -> StageResult:
        raise RuntimeError("no vectors today")


NOTHING = Guess()
