"""The declared traits of agents: kind, labels, triggers, capabilities, approval, memory, budget."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from string import Formatter
from typing import Annotated, Any, Final, Literal, TypeAlias

from ekiden.core.checks.fields import Checked, Count, Name, Positive, Seconds, Text, check_fields
from ekiden.core.checks.kinds import Allowed
from ekiden.core.dataclass import dataclass
from ekiden.core.documents import Value
from ekiden.core.errors import UserError
from ekiden.core.text.wording import lazy_pattern, pattern_fault

LABEL: Final = r"[A-Za-z0-9](?:[A-Za-z0-9._/-]{0,61}[A-Za-z0-9])?"
LABEL_RULE: Final = (
    "a label has up to 63 letters, digits and . _ / -, with a letter or digit at both ends"
)
_LABEL = lazy_pattern(LABEL)


def check_labels(labels: object, whose: str) -> frozenset[str]:
    """Return the labels as a set. Raises `UserError` for invalid labels, with a message that begins
    with `whose`."""
    if isinstance(labels, str) or not isinstance(labels, Iterable):
        raise UserError(f"{whose} must be a set of texts, such as {{'gpu'}}, not {labels!r:.60}")
    found = list(labels)
    for each in found:
        if not is_label(each):
            raise UserError(f"{whose} have {each!r:.80}: {LABEL_RULE}")
    return frozenset(found)


def is_label(value: object) -> bool:
    """Whether the value is a valid label."""
    return isinstance(value, str) and _LABEL.fullmatch(value) is not None


Scope: TypeAlias = Literal["project", "user", "system"]
"""The origin of an agent. Routing never chooses `system` agents, such as the router itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Triggers(Value):
    """Describes the requests that routing should give to an agent.

    For example::

        Agent("debugger", triggers=Triggers(keywords=("error", "报错"), priority=80))
    """

    keywords: tuple[Text, ...] = ()
    patterns: tuple[Text, ...] = ()
    """Regular expressions in the syntax of RE2. They ignore case."""
    priority: Annotated[int, Allowed(high=100)] = 50
    """The weight of this agent's score in routing by rules, from 0 to 100."""
    examples: tuple[Text, ...] = ()
    """Examples of requests that this agent should get. The routing strategy `semantic` compares new
    requests with them."""

    def __post_init__(self) -> None:
        check_fields(self)
        for pattern in self.patterns:
            fault = pattern_fault(pattern)
            if fault is not None:
                raise UserError(f"Triggers.patterns has {pattern!r:.80}: {fault}")


NO_TRIGGERS = Triggers()
"""The triggers of agents that declare none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capability(Checked, Value):
    """Something that an agent can do. Handoffs and searches choose agents by their capabilities.

    For example::

        Agent("debugger", capabilities=(Capability(name="debugging", tags=("python",)),))
    """

    name: Name
    description: str = ""
    proficiency: Annotated[float, Allowed(high=1)] = 1.0
    """How well the agent can do this, from 0 to 1."""
    tags: tuple[Name, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirmation:
    """Requires human approval: a tool with a `Confirmation` runs only after a person approved the
    call.

    For example::

        FunctionTool("pay", "Pay a bill.", schema, pay, confirmation=Confirmation(timeout_s=120))
    """

    prompt_template: str = "Run {tool_name} with {tool_args}?"
    """The question to the person. The placeholders ``{tool_name}`` and ``{tool_args}`` are replaced
    by the name and the arguments of the tool."""
    timeout_s: Seconds | None = None
    """The time for an answer, in seconds. After this time the question expires, and the tool does
    not run. `None` means 30 seconds if an `Approver` asks the person, and no deadline if the
    question is in the inbox."""
    title: Text | None = None
    """The title of the question in the inbox, such as ``Refund {amount} {currency}``. Each name in
    braces is replaced by the tool's argument with this name. If `None`, the title names the agent
    and the tool."""

    def __post_init__(self) -> None:
        check_fields(self)
        if self.title is not None:
            title_arguments(self.title)


def title_arguments(title: str) -> list[str]:
    """Return the names of the arguments in a title. Raises `UserError` for an invalid title."""
    try:
        parts = list(Formatter().parse(title))
    except ValueError as exc:
        raise UserError(f"the title {title!r:.80} cannot be read: {exc}") from None
    names = [name for _, name, _, _ in parts if name is not None]
    if any(form or how for _, _, form, how in parts) or not all(map(str.isidentifier, names)):
        raise UserError(
            f"the title {title!r:.80} has more than names of arguments in braces: write {{amount}}"
        )
    return names


def check_title(title: str, schema: Mapping[str, Any], tool: str) -> None:
    """Raise `UserError` if the title names an argument that the tool does not have."""
    known: Any = schema.get("properties")
    is_open = not isinstance(known, Mapping) or schema.get("additionalProperties")
    for name in () if is_open else title_arguments(title):
        if name not in known:
            raise UserError(
                f"the title {title!r:.80} names {name!r}, which is not an argument of tool "
                f"{tool!r}; it has: {', '.join(known) or 'none'}"
            )


MemoryKind: TypeAlias = Literal["key_value", "vector"]
"""`key_value`: searches compare words. `vector`: searches compare words and meaning."""
MemoryScope: TypeAlias = Literal["user", "app"]
"""The owner of the memories: the session's user, or all users of the app."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySettings(Checked):
    """Settings of an agent's long-term memory and of its search.

    For example::

        Agent("concierge", memory=MemorySettings(type="vector", top_k=3))
    """

    type: MemoryKind = "key_value"
    scope: MemoryScope = "user"
    """Whether the memories belong to the user or to the app. With `user`, a session without a user
    has no memory, and every memory call raises `NoMemory`."""
    backend: Name | None = None
    """The name of the back end for the search, such as ``pinecone``. If `None`, the session's store
    does the search."""
    top_k: Annotated[int, Allowed(low=1, high=100)] = 5
    """The maximum number of memories that `recall` returns."""
    threshold: Annotated[float | None, Allowed(high=1)] = None
    """The lowest similarity of a search result, from 0 to 1. `None` means the default of the memory
    type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KindTraits:
    """The traits that all agents of one kind share. The runtime treats agents according to their
    traits.

    `Agent.traits` returns the traits of an agent::

        KindTraits(name="council", is_human=True)
    """

    name: str
    """The name of the kind, as lists of agents show it, such as ``code``. Agents of a registered
    kind have this name as `Agent.kind`."""
    uses_model: bool = False
    """Whether each turn of the agent is a model call. The answer of the model is parsed as the
    agent's `output_type`."""
    is_router: bool = False
    """Whether the agent only routes conversations to other agents. Routing never chooses such an
    agent, and lists omit it."""
    is_human: bool = False
    """Whether people answer instead of a model. Routing, plans and negotiations do not choose such
    an agent."""
    is_supervisor: bool = False
    """Whether the agent gives tasks to other agents. Its turn ends with an answer that combines
    their answers."""


MODEL = KindTraits(name="model", uses_model=True)
ROUTER = KindTraits(name="router", is_router=True)
SUPERVISOR = KindTraits(name="supervisor", is_supervisor=True)
CODE = KindTraits(name="code")
PERSON = KindTraits(name="person", is_human=True)
RUNNER = KindTraits(name="runner")

NOT_CODE = frozenset(each.name for each in (MODEL, ROUTER, SUPERVISOR, PERSON, RUNNER))
"""The kinds of agents whose turns are not code that runs again from its start."""

BY_FIELD = (
    ("router", ROUTER),
    ("plan", SUPERVISOR),
    ("run", CODE),
    ("person", PERSON),
    ("runner", RUNNER),
)
"""The fields of `Agent` that determine the kind of the agent. If none of them is set, the agent is
a model agent."""

_built_in = {each.name for each in (MODEL, *(traits for _, traits in BY_FIELD))}
_registered: dict[str, KindTraits] = {}


def add_traits(traits: KindTraits) -> None:
    """Register a kind, or replace the kind of the same name. Raises `UserError` for a built-in
    name."""
    if not traits.name.strip():
        raise UserError("a kind of agent needs a name that is not empty")
    if traits.name in _built_in:
        raise UserError(f"the kind {traits.name!r} is built in: give yours another name")
    _registered[traits.name] = traits


def traits_named(kind: str) -> KindTraits:
    """Return the traits of a registered kind. Raises `UserError` for an unknown kind."""
    try:
        return _registered[kind]
    except KeyError:
        known = ", ".join(sorted(_registered)) or "none"
        raise UserError(
            f"no kind of agent is registered as {kind!r}; registered: {known}; call "
            "register_agent_kind() before agents of the kind are made"
        ) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget(Checked):
    """A budget for an agent, for the target of a handoff, or for a task. `None` in a field means no
    limit. An agent that hands over work cannot give the target more than the rest of its own
    budget.

    For example::

        handoff(researcher, budget=Budget(tokens=20_000, seconds=120))
    """

    tokens: Count | None = None
    seconds: Seconds | None = None
    """The maximum time of work, in seconds. Time spent waiting for people does not count."""
    money: Positive | None = None
    """The maximum cost of model calls, in the currency of `RunConfig.prices`."""
