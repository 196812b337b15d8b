"""Finding agents by capability, as the command does it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ekiden.app.matching import capable
from ekiden.app.matching import parse_names as parse_names
from ekiden.capabilities import Fit, Match, missing_capabilities
from ekiden.cli.errors import NobodyCapable, UsageError
from ekiden.core.suggest import suggestion

if TYPE_CHECKING:
    from ekiden.app.project import Project

HEADERS = ("agent", "score", "matched", "missing", "how")
_LISTED = 20
_SHOWN = 200


def search(
    project: Project, required: Sequence[str], *, exclude: Iterable[str] = (), min_score: float
) -> list[Match]:
    """Everybody but those to `exclude`, the best first; also who is below `min_score`.

    `UsageError` for nothing required or a bad `min_score`, `UnknownAgent` for a name in `exclude`
    that the team does not have.
    """
    if not required:
        raise UsageError("name what is required, as in `ekiden agents match refunds,invoices`")
    if not 0 <= min_score <= 1:
        raise UsageError(f"--min-score is a number from 0 to 1, not {min_score:g}")
    return capable(project, required, exclude=exclude)


def rows(found: Iterable[Match]) -> list[tuple[str, ...]]:
    """A line of the table for each match."""
    return [
        (
            match.agent,
            f"{match.score:.2f}",
            ", ".join(match.matched),
            ", ".join(match.missing),
            ", ".join(filter(None, map(_how, match.fits))) or ("name" if match.fits else ""),
        )
        for match in found
    ]


def nobody(project: Project, found: Sequence[Match], min_score: float) -> NobodyCapable:
    """What to say when none of those who were asked is good enough."""
    if not found:
        return NobodyCapable("no agent is left: --exclude names all of them")
    best = found[0]
    start = f"no agent has a score of {min_score:g} or more for {_asked(best)}"
    if best.fits:
        lacks = f", which lacks {', '.join(best.missing)}" if best.missing else ""
        return NobodyCapable(f"{start}; the nearest is {best.agent} with {best.score:.2f}{lacks}")
    known = sorted({own.name for each in found for own in project.team[each.agent].capabilities})
    if not known:
        return NobodyCapable(f"{start}: none says what it can do, with `capabilities` in its file")
    meant = next(filter(None, (suggestion(name, known) for name in best.missing)), "")
    more = f" and {len(known) - _LISTED} more" if len(known) > _LISTED else ""
    there = f"{', '.join(known[:_LISTED])}{more}{meant}"
    return NobodyCapable(f"{start}; there are {there}{_not_compared(project, best.missing)}")


def _asked(match: Match) -> str:
    text = ", ".join((*match.matched, *match.missing))
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _how(fit: Fit) -> str:
    match fit.by:
        case "name":
            return ""
        case "tag":
            return f"tag of {fit.capability}"
        case "meaning":
            return f"like {fit.capability} ({fit.similarity:.2f})"


def _not_compared(project: Project, names: Sequence[str]) -> str:
    """That meanings could have told more, if nobody in the team uses one of the names."""
    from ekiden.embeddings.local import MISSING, local_embedder

    held = [own for agent in project.agents.values() for own in agent.capabilities]
    if local_embedder() is not None or not missing_capabilities(names, held):
        return ""
    return f"; meanings were not compared: {MISSING}"
