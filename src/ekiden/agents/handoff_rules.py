"""What must fit together within an entry of `handoffs`: for the reader, and as JSON Schema."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ekiden.agents import nodes
from ekiden.agents.report import Report
from ekiden.core.handoff_terms import HandoffTrigger

BEST = "*"
"""As the target: the agent that is best at `capabilities`."""

_EXAMPLE = "such as condition: error_count > 3"


def check_handoff(node: nodes.Mapping, values: Mapping[str, Any], at: str, report: Report) -> None:
    """Report keys that need others; what is wrong by itself was reported before."""
    written: dict[str, nodes.Node] = {}
    for key, value in node.entries:
        written.setdefault(key.text, value)
    if values.get("when") == "auto" and "trigger" not in written:
        report.error(
            written["when"],
            "missing_key",
            f"`{at}.when` is auto, and there is no `trigger`; add one, such as "
            "trigger: {type: event, event: deploy.failed}",
        )
    _check_condition(written, values, at, report)
    is_open = "capabilities" not in written or values.get("capabilities") == ()
    if values.get("to") == BEST and is_open:
        report.error(
            written["to"],
            "missing_key",
            f'`{at}.to` is "{BEST}", the agent that is best at `capabilities`; add those, such as '
            "capabilities: [python]",
        )


def _check_condition(
    written: Mapping[str, nodes.Node], values: Mapping[str, Any], at: str, report: Report
) -> None:
    asking = [key for key in ("when", "policy") if values.get(key) == "conditional"]
    if "condition" in written:
        unread = [key for key in ("when", "policy") if key in written and key not in values]
        if not asking and not unread:
            report.error(
                written["condition"],
                "no_effect",
                f"`{at}.condition` has no effect as it is; add when: conditional to offer the "
                "handoff while it holds, or policy: conditional to make it only if it holds",
            )
        return
    trigger = values.get("trigger")
    serves = isinstance(trigger, HandoffTrigger) and trigger.type == "condition"
    if serves or ("trigger" in written and trigger is None):
        return
    for key in asking:
        words = f"`{at}.{key}` is conditional, and there is no `condition`; add one, {_EXAMPLE}"
        report.error(written[key], "missing_key", words)


def _is(key: str, *words: str) -> dict[str, Any]:
    return {"properties": {key: {"enum": list(words)}}, "required": [key]}


def _if(this: Mapping[str, Any], then: Mapping[str, Any]) -> dict[str, Any]:
    return {"anyOf": [{"not": this}, then]}


_HAS_CONDITION = {
    "anyOf": [
        {"required": ["condition"]},
        {
            "properties": {"trigger": {"anyOf": [{"type": "string"}, _is("type", "condition")]}},
            "required": ["trigger"],
        },
    ]
}
_ASKS = {"anyOf": [_is("when", "conditional"), _is("policy", "conditional")]}

HANDOFF_RULES: Sequence[Mapping[str, Any]] = (
    _if(_is("when", "auto"), {"required": ["trigger"]}),
    _if(_ASKS, _HAS_CONDITION),
    _if({"required": ["condition"]}, _ASKS),
    _if(
        {"properties": {"to": {"pattern": r"^\s*\*\s*$"}}, "required": ["to"]},
        {"properties": {"capabilities": {"minItems": 1}}, "required": ["capabilities"]},
    ),
)
