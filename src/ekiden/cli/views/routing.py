"""The full routing analysis of a request, for people."""

from __future__ import annotations

from ekiden.api.agents import RouteAnalysis, RouteStage
from ekiden.cli.output import say
from ekiden.cli.tables import print_pairs, print_table
from ekiden.cli.transcript import route_line
from ekiden.core.documents import to_json

_FEW = 20

SCORE_HEADERS = ("agent", "stage", "score", "confidence", "matched")


def print_route(route: RouteAnalysis) -> None:
    """The full analysis."""
    say(route_line(to_json(route)))
    say()
    print_pairs(reason_pairs(route))
    rows = score_rows(route, everybody=True)
    if rows:
        say()
        print_table(SCORE_HEADERS, rows)
    if route.fallback is not None:
        say()
        say(route.fallback)


def reason_pairs(route: RouteAnalysis) -> list[tuple[str, str]]:
    """The matches and each stage's verdict, as labels with texts.

    A reason that the line or a stage already shows is not repeated.
    """
    told = route.agent is None or any(each.reason == route.reason for each in route.stages)
    pairs = [("because", route.reason)] if route.reason and not told else []
    if route.matched_keywords:
        pairs.append(("keywords", ", ".join(route.matched_keywords)))
    if route.matched_patterns:
        pairs.append(("patterns", ", ".join(route.matched_patterns)))
    pairs += [(f"stage {stage.method}", _said(stage)) for stage in route.stages]
    pairs.append(("took", f"{route.elapsed_ms:.1f} ms, strategy {route.strategy}"))
    return pairs


def _said(stage: RouteStage) -> str:
    choice = f"{stage.agent}, {stage.confidence} %" if stage.agent else "no agent"
    return f"{choice}{' (decides)' if stage.sure else ''}: {stage.reason}"


def score_rows(route: RouteAnalysis, *, everybody: bool = False) -> list[tuple[str, ...]]:
    """The score of each agent at each stage, best first; the columns are `SCORE_HEADERS`.

    With `everybody`, agents that no stage mentions follow without scores, unless there are many.
    """
    told = [score for stage in route.stages for score in stage.candidates]
    scores = told or [each for each in route.candidates if each.method != "none"]
    rows: list[tuple[str, ...]] = [
        (
            score.agent,
            str(score.method),
            f"{score.score:.3g}",
            f"{score.confidence} %",
            ", ".join(
                (
                    *(score.matched_keywords or ()),
                    *(f"/{each}/" for each in score.matched_patterns or ()),
                )
            ),
        )
        for score in scores
    ]
    if not everybody or len(route.candidates) > _FEW:
        return rows
    rest = sorted({each.agent for each in route.candidates} - {score.agent for score in scores})
    return rows + [(name, "", "0", "0 %", "") for name in rest]
