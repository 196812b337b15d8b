"""Finding a project's agents by what they can do."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ekiden.capabilities import CapabilityMatcher, Match

if TYPE_CHECKING:
    from ekiden.app.project import Project


def parse_names(words: Iterable[str]) -> list[str]:
    """The names in `words`, each of which may be several with commas between, also Chinese ones."""
    commas = str.maketrans("，、", ",,")
    split = (name.strip() for word in words for name in word.translate(commas).split(","))
    return [name for name in split if name]


def capable(project: Project, required: Sequence[str], *, exclude: Iterable[str]) -> list[Match]:
    """Everybody but those to `exclude`, the best first; also who has nothing of it.

    `UnknownAgent` for a name in `exclude` that the team does not have.
    """
    from ekiden.embeddings.local import local_embedder

    left_out = [project.team[name.removeprefix("@")].name for name in exclude]
    matcher = CapabilityMatcher.of(project.agents.values(), embedder=local_embedder())
    return matcher.find(required, exclude=left_out, min_score=0)
