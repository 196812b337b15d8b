"""Declared capabilities: comparable names, the index of agents, matches and missing names."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from functools import cache
from typing import Final, Literal, NamedTuple, TypeAlias, TypeVar
from unicodedata import normalize

from ekiden.core.dataclass import dataclass
from ekiden.core.documents import Value
from ekiden.core.errors import UserError
from ekiden.core.profile import Capability

T = TypeVar("T")

TAG = "tag:"
"""Prefix of a required name that matches tags only."""

_LONG = 1_000
"""Longer names are not normalized, because the time of normalization grows with the square."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """One required capability."""

    text: str
    """The name as the caller wrote it."""
    key: str
    """The name or tag in the form of `folded`."""
    tag_only: bool = False


def requirements(required: Iterable[str]) -> tuple[Requirement, ...]:
    """Return the requirements in order, without duplicates.

    Raises `UserError` for an invalid name, and for one text instead of a list.
    """
    found: dict[tuple[str, bool], Requirement] = {}
    for name in several(required, "required capabilities"):
        each = _requirement(name)
        found.setdefault((each.key, each.tag_only), each)
    return tuple(found.values())


def several(given: Iterable[T], what: str) -> Iterable[T]:
    """Return `given` unchanged. Raises `UserError` for a single text, which would be read as a list
    of letters."""
    if isinstance(given, str):
        raise UserError(f"{what} are a list of names, not one text: write [{given!r:.80}]")
    return given


def folded(name: str) -> str:
    """Return the form in which names and tags are compared. Only a blank text has an empty form.

    The form does not depend on case, full width, spaces, underscores and hyphens. For example,
    ``Code-Review``, ``code_review`` and ``ＣＯＤＥ ＲＥＶＩＥＷ`` have the same form.
    """
    if name.isascii():
        plain = name.lower()
    elif len(name) > _LONG:
        plain = name.casefold()
    else:
        plain = normalize("NFKC", normalize("NFKC", name).casefold())
    return _separators().sub(" ", plain).strip() or name.strip()


def checked(name: object, what: str) -> str:
    """Return the form of `folded`. Raises `UserError` if `name` is not a text, or is empty."""
    key = folded(name) if isinstance(name, str) else ""
    if not key:
        raise UserError(f"{what} must be a text that is not empty, not {name!r:.80}")
    return key


def _requirement(name: str) -> Requirement:
    key = checked(name, "a required capability")
    if not key.startswith(TAG):
        return Requirement(text=name.strip(), key=key)
    tag = checked(key.removeprefix(TAG), f"what follows {TAG!r} in a required capability")
    return Requirement(text=name.strip(), key=tag, tag_only=True)


@cache
def _separators() -> re.Pattern[str]:
    return re.compile(r"[\s_\-\u2010-\u2015\u2212]+")


By: TypeAlias = Literal["name", "tag", "meaning"]
"""How a capability was matched with the required one."""
SUREST_FIRST: Final[tuple[By, ...]] = ("name", "tag", "meaning")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit(Value):
    """One required capability that an agent has.

    For example::

        for fit in match.fits:
            print(fit.required, "is met by", fit.capability, "found by", fit.by)
    """

    required: str
    """The required name, as passed to `find`."""
    capability: str
    """The name of the agent's capability that meets `required`."""
    proficiency: float
    """The proficiency of the agent in that capability."""
    by: By
    similarity: float | None = None
    """For a match by meaning, the similarity of the two capabilities, from 0 to 1. `None` for other
    matches."""

    @property
    def score(self) -> float:
        """The score, from 0 to 1. For a match by name or tag, it is the proficiency. For a match by
        meaning, it is the proficiency multiplied by the similarity."""
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
    """The mean score of all required capabilities, from 0 to 1. A missing capability counts as
    0."""
    matched: tuple[str, ...] = ()
    """The required names that the agent has, in the requested order."""
    missing: tuple[str, ...] = ()
    """The required names that the agent lacks, in the requested order."""
    by: By = "name"
    """How the capabilities were matched: by name, tag or meaning. If they were matched in several
    ways, this is the least certain way."""
    fits: tuple[Fit, ...] = ()
    """The matched capabilities, in the requested order."""
    available: bool = True
    load: float = 0.0
    """The workload of the agent, in any unit that the caller chooses."""


class Held(NamedTuple):
    """A capability that meets a requirement."""

    score: float
    """The score, 0 to 1."""
    capability: Capability
    by: By
    similarity: float | None = None


Holders: TypeAlias = Mapping[str, Held]
"""The best capability of each agent for one requirement."""


class Holdings:
    """An index from folded names and tags to agents."""

    def __init__(self) -> None:
        self.capabilities: dict[str, tuple[Capability, ...]] = {}
        """The registered capabilities by agent."""
        self._by_name: dict[str, dict[str, Held]] = {}
        self._by_tag: dict[str, dict[str, Held]] = {}
        self._keys: dict[str, tuple[Collection[str], Collection[str]]] = {}
        """The names and tags of each agent in the index."""

    def put(self, agent: str, capabilities: Iterable[Capability]) -> None:
        """Set the capabilities of `agent`. After a `UserError`, nothing is changed."""
        held = tuple(capabilities)
        by_name: dict[str, Held] = {}
        by_tag: dict[str, Held] = {}
        for each in held:
            grade = _grade(agent, each)
            what = f"the name of a capability of agent {agent!r}"
            _keep_best(by_name, checked(each.name, what), Held(grade, each, "name"))
            what = f"a tag of capability {each.name!r} of agent {agent!r}"
            for tag in several(each.tags, f"tags of capability {each.name!r} of agent {agent!r}"):
                _keep_best(by_tag, checked(tag, what), Held(grade, each, "tag"))
        self.remove(agent)
        self.capabilities[agent] = held
        self._keys[agent] = tuple(by_name), tuple(by_tag)
        _add(self._by_name, agent, by_name)
        _add(self._by_tag, agent, by_tag)

    def remove(self, agent: str) -> None:
        """Remove `agent`, if it is in the index."""
        self.capabilities.pop(agent, None)
        names, tags = self._keys.pop(agent, ((), ()))
        _drop(self._by_name, agent, names)
        _drop(self._by_tag, agent, tags)

    def holders(self, requirement: Requirement) -> Holders:
        """The agents with a capability of the required name or with the required tag. With
        `tag_only`, only the tag counts."""
        tagged = self._by_tag.get(requirement.key, {})
        named = {} if requirement.tag_only else self._by_name.get(requirement.key, {})
        return {**tagged, **named} if tagged and named else named or tagged


def _grade(agent: str, capability: Capability) -> float:
    if not isinstance(capability, Capability):
        raise UserError(
            f"agent {agent!r} has {capability!r:.80} among its capabilities: give Capability "
            "objects"
        )
    grade = capability.proficiency
    if isinstance(grade, bool) or not isinstance(grade, int | float) or not 0 <= grade <= 1:
        raise UserError(
            f"the proficiency of capability {capability.name!r:.80} of agent {agent!r} is a number "
            f"from 0 to 1, not {grade!r:.80}"
        )
    return float(grade)


def _keep_best(found: dict[str, Held], key: str, held: Held) -> None:
    """Keep the best capability; ties go to the first name, so that the order does not matter."""
    best = found.get(key)
    if best is None or (-held.score, held.capability.name) < (-best.score, best.capability.name):
        found[key] = held


def _add(index: dict[str, dict[str, Held]], agent: str, held: Mapping[str, Held]) -> None:
    for key, each in held.items():
        index.setdefault(key, {})[agent] = each


def _drop(index: dict[str, dict[str, Held]], agent: str, keys: Iterable[str]) -> None:
    for key in keys:
        holders = index[key]
        del holders[agent]
        if not holders:
            del index[key]


def missing_capabilities(
    required: Iterable[str], capabilities: Iterable[Capability]
) -> tuple[str, ...]:
    """The names in `required` that match no name and no tag of `capabilities`.

    The result has these names unchanged and in order, without duplicates. ``tag:name`` matches only
    tags. The proficiency does not matter, and names are not compared by meaning. Raises `UserError`
    for an empty name, and for a text instead of a list::

        missing_capabilities(["refunds", "tag:money", "visa"], billing.capabilities)  # ("visa",)
    """
    wanted = requirements(required)
    if not wanted:
        return ()
    held: set[str] = set()
    tags: set[str] = set()
    for each in capabilities:
        held.add(folded(each.name))
        tags.update(map(folded, each.tags))
    return tuple(
        each.text
        for each in wanted
        if each.key not in tags and (each.tag_only or each.key not in held)
    )
