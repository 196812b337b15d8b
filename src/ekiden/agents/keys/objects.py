"""Kinds of values that contain other values (mappings and lists), and keys that several sections
share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, NamedTuple, TypeAlias
from unicodedata import normalize

from ekiden.agents import yaml_nodes as nodes
from ekiden.agents.definition import Peer, ProblemReport, shown
from ekiden.agents.keys.kinds import INVALID, Kind, duplicate_key, read, template_fault, wrong_type
from ekiden.agents.yaml_nodes import Node, Scalar, value_of
from ekiden.core.checks.kinds import Flag, Number, Text
from ekiden.core.dataclass import dataclass
from ekiden.core.profile import Budget, Confirmation
from ekiden.core.text.wording import did_you_mean

_YEAR_S = 365 * 24 * 3600
_MAX_TOKENS = 1_000_000_000_000
_MAX_MONEY = 1_000_000_000
SECONDS = Number(low=0, high=_YEAR_S, above_low=True)
QUESTION = Text(
    strip=False,
    check=template_fault,
    code="bad_template",
    in_schema={"pattern": r"^(?:[^{}]|\{tool_name\}|\{tool_args\})+$"},
)
"""The text of an approval question."""


class Placed(NamedTuple):
    """A value with its place in the file."""

    value: Any
    line: int
    column: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A key of a mapping."""

    name: str
    """The name in snake_case. The reader also accepts camelCase."""
    kind: Kind
    text: str
    """The description of the key for the JSON Schema and the documentation."""
    required: bool = False
    default: Any = None
    """The default in the schema. It is `None` if the default is not a fixed value."""
    example: Any = None

    @property
    def camel(self) -> str:
        """The name in camelCase."""
        first, *rest = self.name.split("_")
        return first + "".join(part.capitalize() for part in rest)


Check: TypeAlias = Callable[[nodes.Mapping, Mapping[str, Any], str, ProblemReport], None]
"""A function that reports wrong combinations of keys. Its arguments are the mapping, the values by
name, the path of the mapping, and the report."""


class Object:
    """A mapping with known keys. Unknown keys are refused.

    `check` reports wrong combinations of keys. `rules` contains the same rules as JSON Schemas.
    """

    def __init__(
        self,
        *fields: Field,
        wanted: str,
        check: Check | None = None,
        rules: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        self.fields = fields
        self.wanted = wanted
        self._check = check
        self._rules = rules
        self._by_key = {key: each for each in fields for key in (each.camel, each.name)}
        self._required = [each for each in fields if each.required]

    def read(self, node: Node, at: str, report: ProblemReport) -> Any:
        """Return the valid values by name, and report the faults of the others."""
        if not isinstance(node, nodes.Mapping):
            return wrong_type(node, at, self.wanted, report)
        values: dict[str, Any] = {}
        seen: dict[str, Scalar] = {}
        misspelt: set[str | None] = set()
        for key, inner in node.entries:
            found = self._by_key.get(key.text)
            if found is None:
                misspelt.add(self._unknown(key, at, report))
                continue
            name = found.name
            if name in seen:
                duplicate_key(key, at, seen[name], report)
                continue
            seen[name] = key
            value = read(found.kind, inner, f"{at}.{key.text}" if at else key.text, report)
            if value is not INVALID:
                values[name] = value
        for each in self._required:
            if each.name not in seen and each.name not in misspelt:
                self._missing(node, at, each, report)
        if self._check is not None:
            self._check(node, values, at, report)
        return values

    def _unknown(self, key: Scalar, at: str, report: ProblemReport) -> str | None:
        """Report the key; returns the key that was probably meant."""
        path = f"{at}.{key.text}" if at else key.text
        home = next((each.name for each in self.fields if _has_inside(each.kind, key.text)), None)
        near = did_you_mean(key.text, [each.name for each in self.fields])
        if near is not None:
            advice = f"did you mean {near!r}?"
        elif home is not None:
            advice = f"it belongs under `{home}:`, indented"
        else:
            advice = f"known: {', '.join(each.name for each in self.fields)}"
        report.error(key, "unknown_key", f"there is no key {shown(path)}; {advice}")
        return near

    def _missing(self, node: Node, at: str, missing: Field, report: ProblemReport) -> None:
        example = f", such as {missing.name}: {missing.example}" if missing.example else ""
        where = f"`{at}`" if at else "the front matter"
        report.error(node, "missing_key", f"{where} has no `{missing.name}`; add it{example}")

    def has(self, key: str) -> bool:
        """Whether the mapping may have the key `key`."""
        return key in self._by_key

    def schema(self) -> dict[str, Any]:
        properties: dict[str, Any] = {}
        rules = [dict(rule) for rule in self._rules]
        for each in self.fields:
            properties[each.name] = _field_schema(each)
            if each.camel != each.name:
                text = f"The same as {each.name}."
                properties[each.camel] = {**each.kind.schema(), "description": text}
                rules.append({"not": {"required": [each.name, each.camel]}})
        made: dict[str, Any] = {
            "type": "object",
            "properties": properties,
            "additionalProperties": False,
        }
        if self._required:
            made["required"] = [each.name for each in self._required]
        if rules:
            made["allOf"] = rules
        return made


def _field_schema(each: Field) -> dict[str, Any]:
    made = {**each.kind.schema(), "description": each.text}
    if each.default is not None:
        made["default"] = each.default
    if each.example is not None:
        made["examples"] = [each.example]
    return made


def _has_inside(kind: Kind, key: str) -> bool:
    inner = getattr(kind, "inside", None)
    if isinstance(inner, Object):
        return inner.has(key)
    return isinstance(kind, Object) and kind.has(key)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOf:
    """A list whose items are all of one kind."""

    item: Kind
    wanted: str
    max_items: int | None = None

    @property
    def inside(self) -> Any:
        """The kind of the items if they are mappings, otherwise `None`."""
        return getattr(self.item, "inside", None)

    def read(self, node: Node, at: str, report: ProblemReport) -> Any:
        if not isinstance(node, nodes.Sequence):
            return wrong_type(node, at, self.wanted, report)
        if self.max_items is not None and len(node.items) > self.max_items:
            report.error(
                node, "too_many", f"`{at}` has {len(node.items)} items, at most {self.max_items}"
            )
            return INVALID
        values = [
            read(self.item, item, f"{at}[{index}]", report) for index, item in enumerate(node.items)
        ]
        return tuple(value for value in values if value is not INVALID)

    def schema(self) -> dict[str, Any]:
        most = {} if self.max_items is None else {"maxItems": self.max_items}
        return {"type": "array", "items": self.item.schema(), **most}


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A mapping, or a text that stands for a mapping with only its most important key. The parsed
    value is a `Placed` mapping."""

    inside: Object
    short: str
    """The key that gets the value if the entry is a text."""
    kind: Kind

    def read(self, node: Node, at: str, report: ProblemReport) -> Any:
        if isinstance(node, Scalar):
            value = read(self.kind, node, at, report)
            return value if value is INVALID else _placed({self.short: value}, node)
        return _placed(self.inside.read(node, at, report), node)

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [self.inside.schema(), self.kind.schema()]}


@dataclass(frozen=True, slots=True, kw_only=True)
class FlagOr:
    """True or false, or a value of the kind `inside`, which means true with details."""

    inside: Object | Names

    def read(self, node: Node, at: str, report: ProblemReport) -> Any:
        value = value_of(node) if isinstance(node, Scalar) else None
        return value if isinstance(value, bool) else self.inside.read(node, at, report)

    def schema(self) -> dict[str, Any]:
        inner = self.inside.schema()
        return {"anyOf": [{"type": "boolean"}, *inner.get("anyOf", [inner])]}


@dataclass(frozen=True, slots=True)
class OnePlaced:
    """One value of a kind. The parsed value is `Placed`."""

    kind: Kind

    def read(self, node: Node, at: str, report: ProblemReport) -> Any:
        return _placed(read(self.kind, node, at, report), node)

    def schema(self) -> dict[str, Any]:
        return self.kind.schema()


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """A list of names, or a text with names separated by commas. The parsed names are `Placed`."""

    name: Kind
    wanted: str = "a list of names, such as [read_file, shell]"
    in_schema: Mapping[str, Any] = field(default_factory=dict)
    """Additions to the JSON Schema of the text form."""

    def read(self, node: Node, at: str, report: ProblemReport) -> Any:
        if isinstance(node, nodes.Mapping) or (
            isinstance(node, Scalar) and not isinstance(value_of(node), str)
        ):
            return wrong_type(node, at, self.wanted, report)
        items = node.items if isinstance(node, nodes.Sequence) else split_names(node)
        placed: dict[str, Placed] = {}
        for index, item in enumerate(items):
            value = read(self.name, item, f"{at}[{index}]", report)
            if value is INVALID:
                continue
            if value in placed:
                words = f"`{at}` has {shown(value)} twice; one of them is enough"
                report.warning(item, "repeated", words)
                continue
            placed[value] = Placed(value, item.line, item.column)
        return tuple(placed.values())

    def schema(self) -> dict[str, Any]:
        items = {"type": "array", "items": self.name.schema()}
        return {"anyOf": [items, {"type": "string", **self.in_schema}]}


@dataclass(frozen=True, slots=True, kw_only=True)
class NamesOr:
    """A list of names, or a mapping that has such a list as the value of `key`."""

    names: Names
    inside: Object
    key: str

    def read(self, node: Node, at: str, report: ProblemReport) -> Any:
        if isinstance(node, nodes.Mapping):
            return self.inside.read(node, at, report)
        value = self.names.read(node, at, report)
        return value if value is INVALID else {self.key: value}

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [self.inside.schema(), *self.names.schema()["anyOf"]]}


def split_names(node: Scalar) -> list[Node]:
    """The names in a text that are separated by commas. A comma in round brackets is part of a
    name."""
    found: list[Node] = []
    depth = start = 0
    shift = 0 if node.plain else 1
    for index, sign in enumerate(f"{node.text},"):
        if index == len(node.text) or (sign == "," and depth <= 0):
            part = node.text[start:index]
            lead = len(part) - len(part.lstrip())
            if part.strip():
                column = node.column + shift + start + lead
                found.append(Scalar(part.strip(), False, node.line, column))
            start = index + 1
        depth += (sign == "(") - (sign == ")")
    return found


def _placed(value: Any, node: Node) -> Any:
    return value if value is INVALID else Placed(value, node.line, node.column)


def peer_of(name: Placed) -> Peer:
    """The reference to the agent with this name."""
    return Peer(name=normalize("NFC", name.value), line=name.line, column=name.column)


def budget_of(values: Mapping[str, Any] | None) -> Budget | None:
    """The budget in the parsed values of a `BUDGET` section, or `None` if there are no values."""
    return Budget(**values) if values else None


def confirmation_of(values: Mapping[str, Any]) -> Confirmation:
    """The approval settings with the template and the timeout in the values. Other values are
    ignored."""
    return Confirmation(
        prompt_template=values.get("prompt_template", Confirmation().prompt_template),
        timeout_s=values.get("timeout"),
    )


NOT_PEOPLE = {"not": {"pattern": r"(?:^|,)\s*person:"}}
"""A JSON Schema that accepts names of agents and refuses roles of people."""

CAPABILITIES = ListOf(
    item=Text(what="the name of a capability, as a text", max_length=200),
    wanted="a list of names, such as [refunds, python]",
)

BUDGET = Object(
    Field(
        name="tokens",
        kind=Number(low=0, high=_MAX_TOKENS, above_low=True, whole=True),
        text="Tokens of all model calls.",
        example=20_000,
    ),
    Field(name="seconds", kind=SECONDS, text="Working time in seconds, without waits for people."),
    Field(
        name="money",
        kind=Number(low=0, high=_MAX_MONEY, above_low=True),
        text="Money, in the currency of the run's prices.",
    ),
    wanted="a mapping with tokens, seconds, money",
)

TOOLS = Names(name=Text(what="the name of a tool, as a text", max_length=200))

CONFIRMATION = Object(
    Field(
        name="require_confirmation",
        kind=TOOLS,
        text="Tools that need human approval; a tool of an MCP server is `mcp:server/tool` or "
        "`server__tool`.",
        example=["shell"],
    ),
    Field(
        name="prompt_template",
        kind=QUESTION,
        text="Text of the approval question; `{tool_name}` and `{tool_args}` are filled in.",
        default=Confirmation().prompt_template,
    ),
    Field(
        name="timeout",
        kind=SECONDS,
        text="Seconds after which the question expires and the tool does not run. Default: 30 for "
        "an `Approver`, none for a question in the inbox.",
    ),
    wanted="a mapping with require_confirmation, prompt_template, timeout",
)

MODEL_SETTINGS = Object(
    Field(
        name="temperature",
        kind=Number(low=0, high=100),
        text="Randomness of answers; 0 is the least.",
        example=0.2,
    ),
    Field(
        name="top_p",
        kind=Number(low=0, high=1),
        text="Nucleus sampling: the share of the most probable tokens that the model may use.",
    ),
    Field(
        name="max_tokens",
        kind=Number(low=1, high=_MAX_TOKENS, whole=True),
        text="Maximum length of an answer, in tokens.",
        example=1_000,
    ),
    Field(
        name="tool_choice",
        kind=Text(max_length=200),
        text="`auto`, `required`, `none` or the name of a tool.",
    ),
    Field(
        name="parallel_tool_calls",
        kind=Flag(),
        text="Whether the model may call several tools at once.",
    ),
    Field(
        name="reasoning_effort",
        kind=Text(max_length=40),
        text="Effort of a reasoning model, such as `low`.",
        example="low",
    ),
    wanted="a mapping with temperature, top_p, max_tokens and others",
)
