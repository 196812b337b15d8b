"""The keys of `guardrails`, and what they make."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ekiden.agents.checks import function_fault
from ekiden.agents.definition import GuardrailDefinition, Place
from ekiden.agents.keys.kinds import AnyMapping
from ekiden.agents.keys.objects import Field, Object
from ekiden.agents.yaml import nodes
from ekiden.core.checks.kinds import Choice, Text

_FUNCTION = Text(check=function_fault, code="bad_function", max_length=500)

GUARDRAILS = Object(
    Field(
        name="output_schema",
        kind=AnyMapping("a JSON Schema as a mapping, such as {type: object}"),
        text="A JSON Schema (2020-12) that every answer must fit.",
    ),
    Field(
        name="custom_validator",
        kind=_FUNCTION,
        text="A function of the answer that gives (valid, error), as module:function.",
        example="checks:polite",
    ),
    Field(
        name="on_failure",
        kind=Choice(("reject", "repair", "warn")),
        text="What happens to a value that does not pass: reject ends the run; repair tells "
        "its author why and tries again; warn continues, marked.",
        default="reject",
    ),
    Field(
        name="input_validator",
        kind=_FUNCTION,
        text="The same of what the agent is given, before its model is asked.",
        example="checks:no_homework",
    ),
    Field(
        name="handoff_validator",
        kind=_FUNCTION,
        text="The same of what the agent passes on when it hands over, a HandoffRequest.",
        example="checks:no_cards",
    ),
    Field(
        name="tool_input_validator",
        kind=_FUNCTION,
        text="The same of a tool's name and the arguments, before each call of the agent's tools.",
        example="checks:small_sums",
    ),
    Field(
        name="tool_output_validator",
        kind=_FUNCTION,
        text="The same of a tool's name and its output, before the model sees it.",
        example="checks:no_keys",
    ),
    wanted="a mapping with output_schema, custom_validator, on_failure and others",
)


def guardrail_definition(node: nodes.Node, values: Mapping[str, Any]) -> GuardrailDefinition:
    """What `GUARDRAILS` read of the node."""
    return GuardrailDefinition(**values, places=dict(_places(node)))


def _places(node: nodes.Node) -> Iterator[tuple[str, Place]]:
    """Where each value stands, by its JSON Pointer from `guardrails`, keys in snake_case."""
    if not isinstance(node, nodes.Mapping):
        return
    names = {key: each.name for each in GUARDRAILS.fields for key in (each.camel, each.name)}
    waiting = [(f"/{names.get(key.text, key.text)}", inner) for key, inner in node.entries]
    while waiting:
        path, inner = waiting.pop()
        yield path, (inner.line, inner.column)
        if isinstance(inner, nodes.Mapping):
            waiting += [(f"{path}/{_part(key.text)}", each) for key, each in inner.entries]
        elif isinstance(inner, nodes.Sequence):
            waiting += [(f"{path}/{at}", each) for at, each in enumerate(inner.items)]


def _part(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
