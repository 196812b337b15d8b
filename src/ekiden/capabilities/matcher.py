"""Finds the best agent for the capabilities that a task requires: by name, or by meaning."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import fsum, inf
from typing import TYPE_CHECKING, Any, Self

from ekiden.capabilities.declared import (
    SUREST_FIRST,
    Fit,
    Held,
    Holders,
    Holdings,
    Match,
    Requirement,
    folded,
    requirements,
    several,
)
from ekiden.core.agent import Agent
from ekiden.core.errors import UnknownAgent, UserError
from ekiden.core.profile import Capability

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ekiden.embeddings.base import Embedder


MIN_SCORE = 0.5
MIN_SIMILARITY = 0.5
"""The default minimum similarity. The local embedder was measured on English, Chinese and Japanese
texts: of the pairs with the same meaning, four in five are above this value. Of the other pairs,
one in thirty is above it."""


class CapabilityMatcher:
    """Finds agents by the capabilities that a task requires.

    A required name matches the agent's capability with that name. If the agent has none, the
    required name matches the agent's best capability with that tag. ``tag:name`` matches tags only.
    If no registered agent has the name or tag, an `embedder` compares the required name by meaning.
    For a match with a similarity above `min_similarity`, the score is the proficiency multiplied by
    the similarity. Comparisons of names ignore case, character width, spaces, underscores and
    hyphens.

    The functions `availability` and `load` are called with an agent's name during a search. Their
    results override the registered values. Use a matcher from one thread only::

        matcher = CapabilityMatcher.of(team)
        match = matcher.best(["refunds", "tag:money"], exclude=["triage"])
    """

    def __init__(
        self,
        *,
        embedder: Embedder | None = None,
        min_similarity: float = MIN_SIMILARITY,
        availability: Callable[[str], bool] | None = None,
        load: Callable[[str], float] | None = None,
    ) -> None:
        _check_share("min_similarity", min_similarity)
        self._holdings = Holdings()
        self._available: dict[str, bool] = {}
        self._load: dict[str, float] = {}
        self._ask_available = availability
        self._ask_load = load
        self._meaning: SemanticMatcher | None = None
        if embedder is not None:
            self._meaning = SemanticMatcher(
                embedder, self._holdings.capabilities, min_similarity=min_similarity
            )

    @classmethod
    def of(
        cls,
        agents: Iterable[Agent[Any]],
        *,
        embedder: Embedder | None = None,
        min_similarity: float = MIN_SIMILARITY,
        availability: Callable[[str], bool] | None = None,
        load: Callable[[str], float] | None = None,
    ) -> Self:
        """Create a matcher for `agents`, such as a team.

        Routers and agents of scope `system` are left out, as in routing. Raises `UserError` for two
        agents with the same name.
        """
        made = cls(
            embedder=embedder, min_similarity=min_similarity, availability=availability, load=load
        )
        for agent in agents:
            if agent.name in made._holdings.capabilities:
                raise UserError(f"two agents are called {agent.name!r}: rename one of them")
            if agent.scope != "system" and not agent.traits.is_router:
                made.register(agent.name, agent.capabilities)
        return made

    @property
    def agents(self) -> tuple[str, ...]:
        """The names of the registered agents, sorted."""
        return tuple(sorted(self._holdings.capabilities))

    def register(
        self,
        agent: str,
        capabilities: Iterable[Capability],
        *,
        available: bool = True,
        load: float = 0.0,
    ) -> None:
        """Register the capabilities of `agent`. They replace its earlier capabilities.

        If two capabilities have the same name, the higher proficiency counts. Raises `UserError`
        for a proficiency outside 0 to 1, an empty name, or a negative or invalid load. After an
        error, nothing is changed.
        """
        if not isinstance(agent, str) or not agent.strip():
            raise UserError(f"an agent's name must be a text that is not empty, not {agent!r:.80}")
        _check_load(agent, load)
        self._holdings.put(agent, several(capabilities, f"capabilities of agent {agent!r}"))
        self._available[agent], self._load[agent] = bool(available), load
        self._changed()

    def unregister(self, agent: str) -> None:
        """Remove an agent. Raises `UnknownAgent`."""
        self._check_known(agent)
        self._holdings.remove(agent)
        del self._available[agent], self._load[agent]
        self._changed()

    def set_status(
        self, agent: str, *, available: bool | None = None, load: float | None = None
    ) -> None:
        """Set whether an agent can take work, and the load of the agent. `None` leaves a value
        unchanged.

        Raises `UnknownAgent`, and `UserError` for a negative or invalid load.
        """
        self._check_known(agent)
        if load is not None:
            _check_load(agent, load)
            self._load[agent] = load
        if available is not None:
            self._available[agent] = bool(available)

    def capabilities_of(self, agent: str) -> tuple[Capability, ...]:
        """The registered capabilities of an agent. Raises `UnknownAgent`."""
        self._check_known(agent)
        return self._holdings.capabilities[agent]

    def find(
        self,
        required: Iterable[str],
        *,
        exclude: Iterable[str] = (),
        min_score: float = MIN_SCORE,
        limit: int | None = None,
        available_only: bool = False,
    ) -> list[Match]:
        """Return the agents with a score of at least `min_score`, best match first, at most `limit`
        agents.

        The score is the mean proficiency of the agent in the required capabilities. A missing
        capability counts as 0, and a repeated name counts once. Agents with the same score are
        sorted by availability, then by lower load, then by name. Without requirements every agent
        has a score of 1. `exclude` contains the names of agents to leave out. These agents need not
        be registered.

        With an embedder, this call blocks while it computes missing vectors. To compute them in a
        thread, call `prepare` first. Raises `UserError` for an empty name, a text instead of a
        list, or a `min_score` outside 0 to 1.
        """
        _check_share("min_score", min_score)
        if limit is not None and limit < 1:
            raise UserError(f"limit must be 1 or more, or None for no limit, not {limit!r:.80}")
        excluded = frozenset(several(exclude, "agents to exclude"))
        wanted = requirements(required)
        columns = [self._holders(each) for each in wanted]
        found = [
            (-score, not available, load, agent)
            for agent, score in self._scores(columns, min_score).items()
            if agent not in excluded
            for available, load in [self._status(agent)]
            if available or not available_only
        ]
        return [_match(each, wanted, columns) for each in sorted(found)[:limit]]

    def best(
        self,
        required: Iterable[str],
        *,
        exclude: Iterable[str] = (),
        min_score: float = MIN_SCORE,
    ) -> Match | None:
        """Return the first available match of `find`, or `None`."""
        found = self.find(
            required, exclude=exclude, min_score=min_score, limit=1, available_only=True
        )
        return found[0] if found else None

    async def prepare(self, required: Iterable[str]) -> None:
        """Compute, in a thread, the vectors that `find` needs for these names.

        Does nothing without an embedder, or if every name is a registered name or tag.
        """
        unknown = [each.key for each in requirements(required) if self._is_unknown(each)]
        if self._meaning is None or not unknown:
            return
        declared, queries = self._meaning.missing_vectors(unknown)
        if declared or queries:
            texts = [*declared, *queries]
            vectors = await asyncio.to_thread(self._meaning.embedder.embed, texts)
            self._meaning.add_vectors(declared, queries, vectors)

    def _is_unknown(self, requirement: Requirement) -> bool:
        return not requirement.tag_only and not self._holdings.holders(requirement)

    def _holders(self, requirement: Requirement) -> Holders:
        if self._meaning is not None and self._is_unknown(requirement):
            return self._meaning.holders(requirement.key)
        return self._holdings.holders(requirement)

    def _scores(self, columns: Sequence[Holders], min_score: float) -> Mapping[str, float]:
        """The agents with at least `min_score`, in any order."""
        agents = self._holdings.capabilities
        if not columns:
            return dict.fromkeys(agents, 1.0)
        shares: dict[str, list[float]] = {}
        for holders in columns:
            for agent, held in holders.items():
                shares.setdefault(agent, []).append(held.score)
        count = len(columns)
        scores = dict.fromkeys(agents, 0.0) if min_score == 0 else {}
        for agent, share in shares.items():
            # A capability counts at most 1, so this agent cannot reach the score.
            if len(share) / count < min_score:
                continue
            # `fsum` does not round, so the order of the required names makes no difference.
            score = fsum(share) / count
            if score >= min_score:
                scores[agent] = score
        return scores

    def _status(self, agent: str) -> tuple[bool, float]:
        available, load = self._available[agent], self._load[agent]
        if self._ask_available is not None:
            available = bool(self._ask_available(agent))
        if self._ask_load is not None:
            load = self._ask_load(agent)
            _check_load(agent, load)
        return available, load

    def _check_known(self, agent: str) -> None:
        if agent not in self._holdings.capabilities:
            raise UnknownAgent(agent, known=self._holdings.capabilities)

    def _changed(self) -> None:
        if self._meaning is not None:
            self._meaning.changed()


def _match(
    rank: tuple[float, bool, float, str],
    wanted: Sequence[Requirement],
    columns: Sequence[Holders],
) -> Match:
    score, unavailable, load, agent = rank
    fits: list[Fit] = []
    missing: list[str] = []
    for each, holders in zip(wanted, columns, strict=True):
        held = holders.get(agent)
        if held is None:
            missing.append(each.text)
        else:
            fits.append(
                Fit(
                    required=each.text,
                    capability=held.capability.name,
                    proficiency=held.capability.proficiency,
                    by=held.by,
                    similarity=held.similarity,
                )
            )
    return Match(
        agent=agent,
        score=abs(score),
        matched=tuple(fit.required for fit in fits),
        missing=tuple(missing),
        by=max((fit.by for fit in fits), key=SUREST_FIRST.index, default="name"),
        fits=tuple(fits),
        available=not unavailable,
        load=load,
    )


def _check_share(what: str, value: float) -> None:
    if not isinstance(value, int | float) or not 0 <= value <= 1:
        raise UserError(f"{what} must be a number from 0 to 1, not {value!r:.80}")


def _check_load(agent: str, load: float) -> None:
    if not isinstance(load, int | float) or not 0 <= load < inf:
        raise UserError(
            f"the load of agent {agent!r} must be a finite number, 0 or more, not {load!r:.80}"
        )


_REMEMBERED = 256
"""The number of required names whose vectors are cached."""


class SemanticMatcher:
    """Finds the capabilities whose name or description is similar to a required name.

    Name and description are compared separately, and the higher similarity counts. If they were
    joined, few synonyms would be similar enough. Vectors are computed when they are first needed,
    and cached. Call `changed` after a change of `capabilities`.
    """

    def __init__(
        self,
        embedder: Embedder,
        capabilities: Mapping[str, tuple[Capability, ...]],
        *,
        min_similarity: float,
    ) -> None:
        self.embedder = embedder
        self._capabilities = capabilities
        self._min_similarity = min_similarity
        self._vectors: dict[str, NDArray[np.float32]] = {}
        self._queries: dict[str, NDArray[np.float32]] = {}
        """The vectors of required names."""
        self._owners: dict[str, list[tuple[str, Capability]]] | None = None
        """The agents and capabilities of each text. `None`: not computed yet."""
        self._matrix: NDArray[np.float32] | None = None
        """A row for every text in `_owners`, in their order."""

    def changed(self) -> None:
        """Discard cached texts after the capabilities of an agent have changed."""
        self._owners = self._matrix = None

    def missing_vectors(self, queries: Iterable[str]) -> tuple[list[str], list[str]]:
        """The texts that have no vectors yet: texts of capabilities, and required names."""
        declared = [text for text in self._texts() if text not in self._vectors]
        return declared, [text for text in dict.fromkeys(queries) if text not in self._queries]

    def add_vectors(
        self, declared: list[str], queries: list[str], vectors: NDArray[np.float32]
    ) -> None:
        """Store `vectors`: first the vectors of capability texts, then the vectors of required
        names."""
        self._vectors.update(zip(declared, vectors[: len(declared)], strict=True))
        self._queries.update(zip(queries, vectors[len(declared) :], strict=True))
        for text in list(self._queries)[: max(0, len(self._queries) - _REMEMBERED)]:
            del self._queries[text]

    def holders(self, query: str) -> Holders:
        """The best capability of each agent, by proficiency times similarity.

        This call blocks while it computes missing vectors.
        """
        declared, new = self.missing_vectors([query])
        if declared or new:
            self.add_vectors(declared, new, self.embedder.embed([*declared, *new]))
        owners = self._texts()
        if not owners:
            return {}
        near = self._rows() @ self._queries[query]
        found: dict[str, Held] = {}
        for text, cosine in zip(owners, near.tolist(), strict=True):
            if cosine >= self._min_similarity:
                for agent, capability in owners[text]:
                    _keep_best(found, agent, capability, min(cosine, 1.0))
        return found

    def _texts(self) -> Mapping[str, list[tuple[str, Capability]]]:
        if self._owners is None:
            self._owners = {}
            for agent, capabilities in self._capabilities.items():
                for each in capabilities:
                    for text in {folded(each.name), each.description.strip()} - {""}:
                        self._owners.setdefault(text, []).append((agent, each))
        return self._owners

    def _rows(self) -> NDArray[np.float32]:
        if self._matrix is None:
            owners = self._texts()
            self._vectors = {text: self._vectors[text] for text in owners}
            import numpy as np

            self._matrix = np.stack(list(self._vectors.values()))
        return self._matrix


def _keep_best(
    found: dict[str, Held], agent: str, capability: Capability, similarity: float
) -> None:
    score = capability.proficiency * similarity
    best = found.get(agent)
    if best is None or (-score, capability.name) < (-best.score, best.capability.name):
        found[agent] = Held(score, capability, "meaning", similarity)
