"""Every key of an entry of `handoffs`, and what the entry becomes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from unicodedata import normalize

from ekiden.agents.checks import filter_fault, short_target_fault, target_fault
from ekiden.agents.definition import HandoffDefinition
from ekiden.agents.handoff_rules import HANDOFF_RULES, check_handoff
from ekiden.agents.handoff_trigger import TRIGGER
from ekiden.agents.kinds import ConditionText
from ekiden.agents.objects import Entry, Field, FlagOr, ListOf, Object, Placed
from ekiden.agents.values import BUDGET, CAPABILITIES, QUESTION, SECONDS
from ekiden.core.handoff_terms import DEFAULT_TIMEOUT_S, Budget, HandoffTrigger
from ekiden.core.kinds import Choice, Flag, FlagOrWord, Text
from ekiden.core.profile import Confirmation

_PERSON = r"^\s*person:"
_ROLE = r"[^\s!-/:-@\[-`{-~][^\s!-,./:-@\[-^`{-~]{0,99}\s*$"
_TARGET = {"anyOf": [{"pattern": _PERSON + _ROLE}, {"not": {"pattern": _PERSON}}]}
_WANTED = "the name of an agent, as a text"

_CONFIRM = Object(
    Field(
        name="prompt_template",
        kind=QUESTION,
        text="What the person is asked; {tool_name} and {tool_args} are filled in.",
        default="Make the handoff {tool_name} with {tool_args}?",
    ),
    Field(
        name="timeout",
        kind=SECONDS,
        text="Seconds after which the question expires, and the handoff is not made. By default "
        "30 for a person who is asked directly, and none in the inbox.",
    ),
    wanted="a mapping with prompt_template, timeout",
)

_HANDOFF = Object(
    Field(
        name="to",
        kind=Text(what=_WANTED, check=target_fault, code="bad_target", in_schema=_TARGET),
        text="Who gets the conversation: an agent; person: and a role; or * for the agent that is "
        "best at `capabilities`.",
        required=True,
        example="fixer",
    ),
    Field(
        name="when",
        kind=Choice(("manual", "auto", "conditional")),
        text="Whether the model is offered it, a trigger makes it, or the model is offered it "
        "while a condition holds. Without it manual, and auto where there is a trigger.",
    ),
    Field(
        name="description",
        kind=Text(),
        text="When to hand over, told to the model.",
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
        text="Whether work under way is cancelled or finished first; conditional: finished, if a "
        "condition holds.",
        default="graceful",
    ),
    Field(
        name="condition",
        kind=ConditionText(),
        text="What must hold, for when: conditional and policy: conditional.",
        example="error_count > 3",
    ),
    Field(
        name="trigger",
        kind=TRIGGER,
        text="What makes the handoff without the model: a mapping, or a condition.",
        example={"type": "event", "event": "deploy.failed"},
    ),
    Field(
        name="allow_return",
        kind=FlagOrWord("always"),
        text="Whether it may lead back to an agent that already had the conversation, if "
        "something changed since; always: also if nothing did.",
        default=False,
    ),
    Field(
        name="capabilities",
        kind=CAPABILITIES,
        text="What the target must be able to do.",
        example=["python"],
    ),
    Field(
        name="confirm",
        kind=FlagOr(
            inside=_CONFIRM, wanted="true, false or a mapping with prompt_template, timeout"
        ),
        text="Whether a person must agree, and how the person is asked.",
        default=False,
    ),
    Field(
        name="timeout",
        kind=SECONDS,
        text="Seconds within which the source must finish, and then the target answer.",
        default=DEFAULT_TIMEOUT_S,
    ),
    Field(
        name="restrict_tools",
        kind=Flag(),
        text="Whether the target may use only tools that the source may use, too.",
        default=False,
    ),
    Field(name="budget", kind=BUDGET, text="The most that the target may spend."),
    Field(
        name="completes",
        kind=Choice(("answer", "result")),
        text="What confirms the handoff: the target's first answer, or the end of its work.",
        default="answer",
    ),
    Field(
        name="filters",
        kind=ListOf(
            item=Text(what="a filter, as a text", check=filter_fault, code="bad_filter"),
            wanted="a list, such as [keep_last(20)]",
        ),
        text="What the target does not see, by the names of ready filters.",
        example=["keep_last(20)"],
    ),
    wanted="a mapping with to, when, description and others, or the name of an agent",
    check=check_handoff,
    rules=HANDOFF_RULES,
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
    """What an entry says, which names its target; what follows from a trigger is filled in."""
    values: dict[str, Any] = dict(entry.value)
    trigger: HandoffTrigger | None = values.pop("trigger", None)
    values["to"] = normalize("NFC", values["to"])
    if "when" not in values and trigger is not None and trigger.type != "explicit":
        values["when"] = "auto"
    when = values.get("when")
    if "condition" not in values and "conditional" in (when, values.get("policy")):
        values["condition"] = None if trigger is None else trigger.expression
        # It says when the handoff is offered: it must not make the handoff besides.
        trigger = None if when == "conditional" and values["condition"] else trigger
    if "timeout" in values:
        values["timeout_s"] = values.pop("timeout")
    values["confirm"] = _confirmation(values.get("confirm", False))
    values["budget"] = Budget(**values["budget"]) if values.get("budget") else None
    return HandoffDefinition(**values, trigger=trigger, line=entry.line, column=entry.column)


def _confirmation(said: bool | Mapping[str, Any]) -> Confirmation | None:
    if isinstance(said, bool):
        return Confirmation() if said else None
    default = Confirmation()
    return Confirmation(
        prompt_template=said.get("prompt_template", default.prompt_template),
        timeout_s=said.get("timeout"),
    )
