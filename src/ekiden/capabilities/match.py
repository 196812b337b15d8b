"""What a matcher says of an agent: how good it is for a task, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from ekiden.core.values import Value

By: TypeAlias = Literal["name", "tag", "meaning"]
"""How a capability was found to be the required one."""
SUREST_FIRST: Final[tuple[By, ...]] = ("name", "tag", "meaning")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit(Value):
    """One required capability that an agent has.

    For example::

        for fit in match.fits:
            print(fit.required, "is met by", fit.capability, "found by", fit.by)
    """

    required: str
    """As requested."""
    capability: str
    """The name of the agent's capability that meets it."""
    proficiency: float
    """Of the agent in that capability."""
    by: By
    similarity: float | None = None
    """By meaning: the similarity of the two, up to 1."""

    @property
    def score(self) -> float:
        """Its weight, 0 to 1: the proficiency, times the similarity for a match by meaning."""
        return self.proficiency * (1.0 if self.similarity is None else self.similarity)


@dataclass(frozen=True, slots=True, kw_only=True)
class Match(Value):
    """How well an agent fits the requirements.

    For example::

        for match in matcher.find(["refunds", "invoices"]):
            print(match.agent, match.score, match.missing)
    """

    agent: str
    score: float
    """0 to 1: the mean of the fits' scores over all requirements; a missing one counts 0."""
    matched: tuple[str, ...] = ()
    """The required names that it has, in the requested order."""
    missing: tuple[str, ...] = ()
    """The required names that it lacks, in the requested order."""
    by: By = "name"
    """The least certain method by which one of them was found."""
    fits: tuple[Fit, ...] = ()
    """The fits, in the requested order."""
    available: bool = True
    load: float = 0.0
    """Its workload, in the caller's unit."""
