"""The keys of an entry of `handoffs`, their rules, and the definition that they form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from unicodedata import normalize

from ekiden.agents import yaml_nodes as nodes
from ekiden.agents.definition import HandoffDefinition, ProblemReport, shown
from ekiden.agents.keys.kinds import (
    INVALID,
    ConditionText,
    filter_fault,
    short_target_fault,
    target_fault,
)
from ekiden.agents.keys.objects import (
    BUDGET,
    CAPABILITIES,
    QUESTION,
    SECONDS,
    Entry,
    Field,
    FlagOr,
    ListOf,
    Object,
    Placed,
    budget_of,
    confirmation_of,
)
from ekiden.agents.yaml_nodes import Node, Scalar
from ekiden.core.checks.kinds import Choice, Flag, FlagOrWord, Number, Text
from ekiden.core.dataclass import dataclass
from ekiden.core.handoffs import DEFAULT_TIMEOUT_S, HandoffTrigger

BEST = "*"
"""The handoff target that means the agent that best matches `capabilities`."""

_EXAMPLE = "such as condition: error_count > 3"


def _check_handoff(
    node: nodes.Mapping, values: Mapping[str, Any], at: str, report: ProblemReport
) -> None:
    """Report keys that need others. Wrong values are reported by the reader."""
    written: dict[str, nodes.Node] = {}
    for key, value in node.entries:
        written.setdefault(key.text, value)
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
    written: Mapping[str, nodes.Node], values: Mapping[str, Any], at: str, report: ProblemReport
) -> None:
    conditional = [key for key in ("when", "policy") if values.get(key) == "conditional"]
    if "condition" in written:
        invalid = [key for key in ("when", "policy") if key in written and key not in values]
        if not conditional and not invalid:
            report.error(
                written["condition"],
                "no_effect",
                f"`{at}.condition` has no effect like this; add when: conditional to offer the "
                "handoff while it holds, or policy: conditional to make it only if it holds",
            )
        return
    trigger = values.get("trigger")
    has_condition = isinstance(trigger, HandoffTrigger) and trigger.type == "condition"
    if has_condition or ("trigger" in written and trigger is None):
        return
    if "policy" in conditional:
        words = f"`{at}.policy` is conditional, and there is no `condition`; add one, {_EXAMPLE}"
        report.error(written["policy"], "missing_key", words)


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
_IS_CONDITIONAL = {"anyOf": [_is("when", "conditional"), _is("policy", "conditional")]}

_HANDOFF_RULES: Sequence[Mapping[str, Any]] = (
    _if(_is("policy", "conditional"), _HAS_CONDITION),
    _if({"required": ["condition"]}, _IS_CONDITIONAL),
    _if(
        {"properties": {"to": {"pattern": r"^\s*\*\s*$"}}, "required": ["to"]},
        {"properties": {"capabilities": {"minItems": 1}}, "required": ["capabilities"]},
    ),
)


_TYPES = ("condition", "event", "explicit", "timeout", "error", "capability")
_KEY = {
    "condition": "expression",
    "event": "event",
    "timeout": "seconds",
    "error": "errors",
    "capability": "capabilities",
}
"""The key of each type; it is required, except `errors`."""
_TYPE = {key: kind for kind, key in _KEY.items()}
_NEEDED = {kind: key for kind, key in _KEY.items() if key != "errors"}
_MAX_PRIORITY = 1_000

_FIELDS = (
    Field(
        name="type",
        kind=Choice(_TYPES),
        text="What starts the handoff. `explicit`: only the model, a person or a program "
        "starts it.",
        required=True,
        example="condition",
    ),
    Field(
        name="expression",
        kind=ConditionText(),
        text="For the type `condition`: the trigger fires when this condition holds.",
        example="error_count > 3",
    ),
    Field(
        name="event",
        kind=Text(what="the name of an event, as a text", max_length=200),
        text="For `event`: the trigger fires when a tool or a program publishes this event.",
        example="deploy.failed",
    ),
    Field(
        name="seconds",
        kind=SECONDS,
        text="For `timeout`: the trigger fires after the agent has worked this many seconds.",
        example=60,
    ),
    Field(
        name="errors",
        kind=ListOf(
            item=Text(what="the name of an error, as a text", max_length=200),
            wanted="a list of names, such as [ModelError, tool.failed]",
        ),
        text="For `error`: the trigger fires at these error classes or codes, by default at any "
        "error.",
        example=["ModelError"],
    ),
    Field(
        name="capabilities",
        kind=CAPABILITIES,
        text="For `capability`: the trigger fires if the agent lacks one of these capabilities.",
        example=["python"],
    ),
    Field(
        name="priority",
        kind=Number(low=-_MAX_PRIORITY, high=_MAX_PRIORITY, whole=True),
        text="If several triggers fire, the one with the highest priority wins. Among equal "
        "priorities, the first one wins.",
        default=0,
    ),
)


def _rules() -> list[dict[str, Any]]:
    rules: list[dict[str, Any]] = []
    for kind, key in _KEY.items():
        is_kind = {"properties": {"type": {"enum": [kind]}}}
        rules.append({"anyOf": [{"not": {"required": [key]}}, is_kind]})
        if kind in _NEEDED:
            some = {"minItems": 1} if key == "capabilities" else {}
            needs = {"required": [key], **({"properties": {key: some}} if some else {})}
            rules.append({"anyOf": [{"not": {**is_kind, "required": ["type"]}}, needs]})
    return rules


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger:
    """The kind of a trigger: a mapping, or a condition as a text. The parsed value is a
    `HandoffTrigger`."""

    inside: Object
    condition: ConditionText

    def read(self, node: Node, at: str, report: ProblemReport) -> Any:
        if isinstance(node, Scalar):
            text = self.condition.read(node, at, report)
            return text if text is INVALID else HandoffTrigger(type="condition", expression=text)
        values = self.inside.read(node, at, report)
        if values is INVALID or not isinstance(node, nodes.Mapping):
            return INVALID
        all_valid = len(values) == len(node.entries)
        if not _fits_type(node, values, at, report) or not all_valid:
            return INVALID
        return HandoffTrigger(**values)

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [self.inside.schema(), self.condition.schema()]}


def _fits_type(
    node: nodes.Mapping, values: Mapping[str, Any], at: str, report: ProblemReport
) -> bool:
    """Whether a trigger has the keys of its type; faults are reported."""
    kind = values.get("type")
    if kind is None:
        return False
    fits = True
    written = {key.text: value for key, value in node.entries}
    for key, _ in node.entries:
        owner = _TYPE.get(key.text)
        if owner is not None and owner != kind:
            path = shown(f"{at}.{key.text}")
            words = f"there is no key {path} in a trigger of type {kind}; it belongs to {owner}"
            report.error(key, "unknown_key", words)
            fits = False
    needed = _NEEDED.get(kind)
    if needed is not None and needed not in written:
        words = f"`{at}` is of type {kind} and has no `{needed}`; add it{_example(needed)}"
        report.error(node, "missing_key", words)
        fits = False
    elif needed is not None and values.get(needed) == ():
        words = f"`{at}.{needed}` is empty; write at least one{_example(needed)}"
        report.error(written[needed], "empty_value", words)
        fits = False
    return fits


def _example(name: str) -> str:
    example = next(each.example for each in _FIELDS if each.name == name)
    if isinstance(example, list):
        return f", such as {name}: [{', '.join(example)}]"
    return f", such as {name}: {example}"


TRIGGER = Trigger(
    inside=Object(
        *_FIELDS, wanted="a mapping with type and others, or a condition as a text", rules=_rules()
    ),
    condition=ConditionText("a mapping with type and others, or a condition as a text"),
)

_PERSON = r"^\s*person:"
_ROLE = r"[^\s!-/:-@\[-`{-~][^\s!-,./:-@\[-^`{-~]{0,99}\s*$"
_TARGET = {"anyOf": [{"pattern": _PERSON + _ROLE}, {"not": {"pattern": _PERSON}}]}
_WANTED = "the name of an agent, as a text"

_CONFIRM = Object(
    Field(
        name="prompt_template",
        kind=QUESTION,
        text="Text of the approval question; `{tool_name}` and `{tool_args}` are filled in.",
        default="Make the handoff {tool_name} with {tool_args}?",
    ),
    Field(
        name="timeout",
        kind=SECONDS,
        text="Seconds after which the question expires and the handoff fails. Default: 30 for an "
        "`Approver`, none for a question in the inbox.",
    ),
    wanted="true, false or a mapping with prompt_template, timeout",
)

_HANDOFF = Object(
    Field(
        name="to",
        kind=Text(what=_WANTED, check=target_fault, code="bad_target", in_schema=_TARGET),
        text="Target: an agent, `person:` plus a role, or `*` for the best match of "
        "`capabilities`.",
        required=True,
        example="fixer",
    ),
    Field(
        name="when",
        kind=Choice(("manual", "auto", "conditional")),
        text="`manual`: the model decides. `auto`: a trigger starts the handoff. `conditional`: "
        "the model decides while `condition` holds. Default: `auto` with a trigger whose type is "
        "not `explicit`, otherwise `manual`.",
    ),
    Field(
        name="description",
        kind=Text(),
        text="Tells the model when to hand over.",
        example="When the cause is known.",
    ),
    Field(
        name="include_context",
        kind=Flag(),
        text="Whether the target sees the conversation.",
        default=True,
    ),
    Field(
        name="policy",
        kind=Choice(("immediate", "graceful", "conditional")),
        text="What happens to work in progress of the source: `immediate` cancels it, `graceful` "
        "finishes it first. `conditional` acts like `graceful` if `condition` holds, and otherwise "
        "refuses the handoff.",
        default="graceful",
    ),
    Field(
        name="condition",
        kind=ConditionText(),
        text="Condition for `when: conditional` and `policy: conditional`.",
        example="error_count > 3",
    ),
    Field(
        name="trigger",
        kind=TRIGGER,
        text="Mapping or condition that starts the handoff without the model.",
        example={"type": "event", "event": "deploy.failed"},
    ),
    Field(
        name="allow_return",
        kind=FlagOrWord("always"),
        text="Whether the target may be an agent that had the task before. `true` allows it only "
        "if there is new work or data since then, `always` in every case.",
        default=False,
    ),
    Field(
        name="capabilities",
        kind=CAPABILITIES,
        text="Capabilities that the target must have, by name or tag; `tag:x` matches tags only.",
        example=["python"],
    ),
    Field(
        name="confirm",
        kind=FlagOr(inside=_CONFIRM),
        text="Require human approval. A mapping also sets the question and its timeout.",
        default=False,
    ),
    Field(
        name="timeout",
        kind=SECONDS,
        text="Time limit in seconds for the source to finish; the same limit then applies to the "
        "target's answer.",
        default=DEFAULT_TIMEOUT_S,
    ),
    Field(
        name="restrict_tools",
        kind=Flag(),
        text="Whether the target may use only tools that the source also has.",
        default=False,
    ),
    Field(
        name="budget",
        kind=BUDGET,
        text="Spending limit of the target; the source's remaining budget also applies.",
    ),
    Field(
        name="completes",
        kind=Choice(("answer", "result")),
        text="What confirms the handoff: `answer` is the target's first answer, `result` is the "
        "end of its work.",
        default="answer",
    ),
    Field(
        name="filters",
        kind=ListOf(
            item=Text(what="a filter, as a text", check=filter_fault, code="bad_filter"),
            wanted="a list, such as [keep_last(20)]",
        ),
        text="Filters of the conversation that the target sees, such as `keep_last(20)` or "
        "`remove_all_tools`.",
        example=["keep_last(20)"],
    ),
    wanted="a mapping with to, when, description and others, or the name of an agent",
    check=_check_handoff,
    rules=_HANDOFF_RULES,
)

HANDOFFS = ListOf(
    item=Entry(
        inside=_HANDOFF,
        short="to",
        kind=Text(
            what=_WANTED,
            check=short_target_fault,
            code="bad_target",
            in_schema={**_TARGET, "not": {"pattern": r"^\s*\*\s*$"}},
        ),
    ),
    wanted="a list of mappings with to, when, description and others",
)


def handoff_definition(entry: Placed) -> HandoffDefinition:
    """Return the definition of a handoff from an entry that has a target. Values that follow from
    the trigger are filled in."""
    values: dict[str, Any] = dict(entry.value)
    trigger: HandoffTrigger | None = values.pop("trigger", None)
    values["to"] = normalize("NFC", values["to"])
    if "when" not in values and trigger is not None and trigger.type != "explicit":
        values["when"] = "auto"
    when = values.get("when")
    if "condition" not in values and "conditional" in (when, values.get("policy")):
        values["condition"] = None if trigger is None else trigger.expression
        # The condition only controls the offer: it must not also start the handoff.
        trigger = None if when == "conditional" and values["condition"] else trigger
    if (when == "auto" and trigger is None) or (
        when == "conditional" and not values.get("condition")
    ):
        values["when"] = "manual"
    if "timeout" in values:
        values["timeout_s"] = values.pop("timeout")
    confirm: bool | Mapping[str, Any] = values.pop("confirm", False)
    values["budget"] = budget_of(values.get("budget"))
    return HandoffDefinition(
        **values,
        trigger=trigger,
        confirm=None if confirm is False else confirmation_of({} if confirm is True else confirm),
        line=entry.line,
        column=entry.column,
    )
