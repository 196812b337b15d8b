"""When a message is so clearly another agent's that the one who has the conversation loses it."""

from __future__ import annotations

from ekiden.routing.decision import StageResult

MARGIN = 20
"""By how much more confidence the other agent must win."""


def clearly_another(active: str, rule: StageResult, semantic: StageResult) -> StageResult | None:
    """The stage that is sure of an agent other than `active`, by a clear margin; else `None`.

    A conversation moves reluctantly: meaning alone moves nothing to an agent whose rules say less
    than those of `active`.
    """
    if _is_clear(rule, active):
        return rule
    if not _is_clear(semantic, active):
        return None
    if _confidence(rule, active) > _confidence(rule, semantic.agent):
        return None
    return semantic


def _is_clear(stage: StageResult, active: str) -> bool:
    return (
        stage.sure
        and stage.agent is not None
        and stage.agent != active
        and stage.confidence - _confidence(stage, active) >= MARGIN
    )


def _confidence(stage: StageResult, agent: str | None) -> int:
    return next((each.confidence for each in stage.candidates if each.agent == agent), 0)
