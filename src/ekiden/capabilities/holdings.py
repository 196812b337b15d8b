"""Which agent has which capability, to be asked by name, tag, or both."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple, TypeAlias

from ekiden.capabilities.match import By
from ekiden.capabilities.names import Requirement, checked, several
from ekiden.core.errors import UserError
from ekiden.core.profile import Capability


class Held(NamedTuple):
    """A capability that meets a requirement, and how."""

    score: float
    """What it counts, 0 to 1."""
    capability: Capability
    by: By
    similarity: float | None = None


Holders: TypeAlias = Mapping[str, Held]
"""By agent: the best that it has for one requirement."""


class Holdings:
    """An index from folded names and tags to those who have them."""

    def __init__(self) -> None:
        self.capabilities: dict[str, tuple[Capability, ...]] = {}
        """By agent, as registered."""
        self._by_name: dict[str, dict[str, Held]] = {}
        self._by_tag: dict[str, dict[str, Held]] = {}
        self._keys: dict[str, tuple[Collection[str], Collection[str]]] = {}
        """By agent: under which names and tags it stands in the index."""

    def put(self, agent: str, capabilities: Iterable[Capability]) -> None:
        """Let `agent` have these and no others; on a `UserError` nothing has changed."""
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
        """Forget `agent`, if it is known."""
        self.capabilities.pop(agent, None)
        names, tags = self._keys.pop(agent, ((), ()))
        _drop(self._by_name, agent, names)
        _drop(self._by_tag, agent, tags)

    def holders(self, requirement: Requirement) -> Holders:
        """Those who have it: by name, and else by tag."""
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
    """Of equals the one whose name is first, so that the order given does not count."""
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
