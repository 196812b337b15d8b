"""Digests: short names of values, to tell whether something is still what it was.

The version of a tool or an agent is the digest of what runs. It is computed from the objects of the
process and never from source files, because files may have changed since the process loaded them.
Equal agents have equal versions in all processes with the same minor version of Python, because
another one compiles functions differently.

The version of a function covers its bytecode, its default values, the constants and functions in
its closure, and the functions and constants (names in capital letters) of its module that it names.
It does not cover functions of other modules, lists, dicts and other objects: they may change while
the process runs. Functions of Ekiden do not count, so an upgrade changes no version; the functions
that were given to them do.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache, partial
from hashlib import blake2b
from types import CodeType, FunctionType, MethodType
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from ekiden.core.documents import to_json

if TYPE_CHECKING:
    from ekiden.core.agent import Agent
    from ekiden.core.handoffs import Handoff
    from ekiden.core.tools.tool import FunctionTool

DIGEST_BYTES = 16
_CACHE = "_version"
"""The attribute of an object with what its version was computed from, and the version."""
_MOST_CODE = 1024
"""How many functions are remembered: programs make tools of the same functions again and again."""
_DIGESTS = "digest of."
_MOST_CHANGES = 20
_LONGEST_VALUE = 300
_SCALARS = (str, int, float, complex, bool, bytes, type(None), type(...))


def digest(value: Any) -> str:
    """The digest of a JSON value. The order of keys does not count.

    Raises `TypeError` or `ValueError` if the value is not JSON.
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=DIGEST_BYTES).hexdigest()


_signatures: WeakKeyDictionary[FunctionTool, str] = WeakKeyDictionary()
_SIGNATURE_LENGTH = 10
NEEDS_APPROVAL = "?"
"""The beginning of the signature of a tool whose calls need approval."""


def tool_signature(tool: FunctionTool) -> str:
    """The digest of everything that a call of the tool depends on: name, description, schema, and
    whether calls need approval. It does not depend on the code of the tool, because a call is
    repeated with corrected code. It is short, because it is stored with each call."""
    known = _signatures.get(tool)
    if known is None:
        needs_approval = bool(tool.confirmation)
        parts = [tool.name, tool.description, tool.params_json_schema, needs_approval]
        if tool.origin is not None:
            parts.append(tool.origin)
        mark = NEEDS_APPROVAL if tool.confirmation else ""
        known = _signatures[tool] = mark + digest(parts)[:_SIGNATURE_LENGTH]
    return known


def tool_version(tool: FunctionTool[Any, Any]) -> str:
    """The digest of the tool: its definition for the model, its origin, and its code or the text
    `version`. It is computed at the first call, and again after a change of these fields. For
    example::

        print(tool_version(agent.tools[0]))
    """
    spec = tool.spec
    made_of = (spec, tool.origin, tool.version, tool.on_invoke_tool, tool.agent)
    return _computed_once(tool, made_of, _of_tool)


def agent_version(agent: Agent[Any, Any]) -> str:
    """The digest of the agent: its instructions, model, settings, tools, handoffs, guardrails and
    code. It is computed at the first call, and again after a change of these fields. For example::

        print(agent_version(agent)[:16])
    """
    made_of = (
        agent.name,
        agent.instructions,
        agent.model,
        agent.model_settings,
        *agent.tools,
        *agent.handoffs,
        *agent.input_guardrails,
        *agent.output_guardrails,
        *agent.handoff_guardrails,
        agent.output_type,
        agent.run,
        agent.can_ask,
        agent.can_tell,
        agent.can_ask_people,
    )
    return _computed_once(agent, made_of, _of_agent)


def _computed_once(value: Any, made_of: tuple[Any, ...], compute: Any) -> str:
    """The version of the value, computed unless it is known for the objects in `made_of`."""
    known: tuple[tuple[Any, ...], str] | None = value.__dict__.get(_CACHE)
    if known is not None and known[0] == made_of:
        return known[1]
    version: str = compute(value)
    setattr(value, _CACHE, (made_of, version))
    return version


def _of_tool(tool: FunctionTool[Any, Any]) -> str:
    return digest(_parts_of(tool))


def _parts_of(tool: FunctionTool[Any, Any], *, is_inner: bool = False) -> dict[str, Any]:
    """The parts of the version. The agent behind a tool counts with its own parts. Agents behind
    tools of this agent count by name, because agents can be tools of each other."""
    agent: Any = None if tool.agent is None else tool.agent.name
    if tool.agent is not None and not is_inner:
        agent = [agent, _of_agent(tool.agent, is_inner=True)]
    code = _Described().value(tool.on_invoke_tool) if tool.version is None else tool.version
    return {
        "name": tool.name,
        "description": tool.description,
        "arguments": tool.spec.parameters,
        "strict": tool.spec.strict,
        "server": tool.origin,
        "agent": agent,
        "code": digest(code),
    }


def tool_definition(tool: FunctionTool[Any, Any]) -> dict[str, Any]:
    """What the version of the tool consists of, for `definition_changes`. For a tool of another
    program these are the values themselves, and otherwise their digests."""
    parts = _parts_of(tool)
    shown = parts if tool.origin is not None else {}
    code = parts.pop("code")
    digests = {"code": code[:8], **{name: digest(each)[:8] for name, each in parts.items()}}
    return {**shown, "digest of": digests if not shown else {"code": code[:8]}}


def definition_changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """The differences between two definitions of a tool, one per line, for people."""
    found = list(_differences("", before, now))
    more = [f"… and {len(found) - _MOST_CHANGES} more"] if len(found) > _MOST_CHANGES else []
    return [*found[:_MOST_CHANGES], *more]


def _differences(place: str, before: Any, now: Any) -> Iterator[str]:
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        for name in dict.fromkeys([*before, *now]):
            inner = f"{place}.{name}" if place else str(name)
            yield from _differences(inner, before.get(name), now.get(name))
    elif before != now and place.startswith(_DIGESTS):
        yield f"{place.removeprefix(_DIGESTS)} changed"
    elif before != now:
        yield f"{place}: {_short(before)} → {_short(now)}"


def _short(value: Any) -> str:
    text = "nothing" if value is None else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 1]}…"


def _of_agent(agent: Agent[Any, Any], *, is_inner: bool = False) -> str:
    described = _Described()
    guardrails = (*agent.input_guardrails, *agent.output_guardrails, *agent.handoff_guardrails)
    return digest(
        {
            "name": agent.name,
            "instructions": described.value(agent.instructions),
            "model": _model_of(agent),
            "settings": described.value(to_json(agent.model_settings)),
            "tools": [
                digest(_parts_of(tool, is_inner=True)) if is_inner else tool_version(tool)
                for tool in agent.tools
            ],
            "handoffs": [_handoff(each, described) for each in agent.handoffs],
            "guardrails": [each.get_name() for each in guardrails],
            "output": _output_of(agent.output_type),
            "run": described.value(agent.run),
            "asks": [[*agent.can_ask], [*agent.can_tell], [*agent.can_ask_people]],
            "kind": [agent.traits.name, agent.kind, agent.person, agent.memory is not None],
        }
    )


def _model_of(agent: Agent[Any, Any]) -> str | None:
    model = agent.model
    if model is None or isinstance(model, str):
        return model
    name = getattr(model, "name", None)
    return name if isinstance(name, str) else _name_of(type(model))


def _output_of(output_type: Any) -> Any:
    """The output type as JSON: its schema if it has one, otherwise its name."""
    if output_type is None or output_type is str:
        return None
    from pydantic import PydanticUserError, TypeAdapter

    try:
        return TypeAdapter(output_type).json_schema()
    except PydanticUserError:
        return repr(output_type)


def _handoff(edge: Agent[Any, Any] | Handoff[Any, Any], described: _Described) -> Any:
    from ekiden.core.agent import Agent

    if isinstance(edge, Agent):
        return [edge.name, edge.handoff_description or edge.description]
    return [
        edge.agent_name,
        to_json(edge.spec),
        described.value(to_json(edge.terms)),
        edge.include_context,
        described.value(edge.input_filter),
        described.value(edge.needs_approval),
        described.value(edge.on_invoke_handoff) if edge.has_callback else None,
    ]


class _Described:
    """Describes functions and fixed values as JSON. Every function is described once; where it
    appears again, the description is its name."""

    def __init__(self) -> None:
        self._seen: set[Any] = set()

    def value(self, value: Any) -> Any:
        """The description of a function, of a fixed value, or of a list or dict of these. For any
        other object it is the name of its class."""
        if isinstance(value, str | bool | int | float | None):
            return value
        if isinstance(value, list | tuple):
            return [self.value(each) for each in value]
        if isinstance(value, Mapping):
            return {str(key): self.value(each) for key, each in value.items()}
        if callable(value):
            return self._callable(value)
        return _fixed(value) if isinstance(value, _SCALARS) else _name_of(type(value))

    def _callable(self, value: Any) -> Any:
        if isinstance(value, partial):
            return [self.value(value.func), self._held(value.args), self._held_by_name(value)]
        if isinstance(value, MethodType):
            return [_name_of(type(value.__self__)), self.value(value.__func__)]
        inner = getattr(value, "__wrapped__", None)
        if not isinstance(value, FunctionType):
            if isinstance(value, type):
                return _name_of(value)
            called = inner or getattr(type(value), "__call__", None)  # noqa: B004
            is_code = isinstance(called, FunctionType)
            return [_name_of(type(value)), self.value(called) if is_code else None]
        if value in self._seen:
            return value.__qualname__
        self._seen.add(value)
        if _is_own(value):
            return self._given_to(value)
        return self._function(value)

    def _held_by_name(self, value: partial[Any]) -> Any:
        return dict(zip(value.keywords, self._held(value.keywords.values()), strict=True))

    def _held(self, values: Iterable[Any]) -> list[Any]:
        return [each for value in values for each in self._if_fixed(value)]

    def _if_fixed(self, value: Any) -> Iterator[Any]:
        """Nothing for values that may change while the process runs."""
        if callable(value):
            yield self.value(value)
        elif _is_fixed(value):
            yield _fixed(value)

    def _given_to(self, function: FunctionType) -> Any:
        """The functions of others in the closure of one of our functions. Their order does not
        count, because it depends on our code."""
        found = []
        for value in _cells(function).values():
            inner = getattr(value, "on_invoke_tool", value)
            if isinstance(inner, partial | MethodType | FunctionType):
                described = self.value(inner)
                if described:
                    found.append(described)
        return sorted(found, key=json.dumps)

    def _function(self, function: FunctionType) -> Any:
        code = function.__code__
        rebound = _rebound(code) if code.co_freevars else ()
        cells = {name: value for name, value in _cells(function).items() if name not in rebound}
        return [
            _code(code),
            self._held(function.__defaults__ or ()),
            [[name, *self._if_fixed(v)] for name, v in (function.__kwdefaults__ or {}).items()],
            [[name, *self._if_fixed(value)] for name, value in sorted(cells.items())],
            [[name, self.value(value)] for name, value in _named(function)],
        ]


def _is_own(function: FunctionType) -> bool:
    return (function.__module__ or "").partition(".")[0] == "ekiden"  # `exec` may give none.


def _cells(function: FunctionType) -> dict[str, Any]:
    """The values in the closure of the function, by name; without names that have no value yet."""
    found: dict[str, Any] = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            found[name] = cell.cell_contents
        except ValueError:
            continue
    return found


@lru_cache(maxsize=_MOST_CODE)
def _rebound(code: CodeType) -> set[str]:
    """The names of enclosing functions that the code assigns: they count something, or remember."""
    from dis import get_instructions

    found = {each.argval for each in get_instructions(code) if each.opname == "STORE_DEREF"}
    return found.union(*map(_rebound, _inner(code)))


def _inner(code: CodeType) -> Iterator[CodeType]:
    return (each for each in code.co_consts if isinstance(each, CodeType))


@lru_cache(maxsize=_MOST_CODE)
def _names(code: CodeType) -> set[str]:
    return set(code.co_names).union(*map(_names, _inner(code)))


def _named(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """The functions and constants of the function's module that the function names."""
    known = function.__globals__
    for name in sorted(_names(function.__code__)):
        value = known.get(name)
        if _is_beside(value, function):
            yield name, value
        elif name.isupper() and value is not None and _is_fixed(value):
            yield name, _fixed(value)


def _is_beside(value: Any, function: FunctionType) -> bool:
    """Whether the value is a function of the same module."""
    return isinstance(value, FunctionType) and value.__module__ == function.__module__


@lru_cache(maxsize=_MOST_CODE)
def _code(code: CodeType) -> str:
    """The digest of the code, without line numbers and names of local variables."""
    return digest(
        [
            code.co_code.hex(),
            code.co_exceptiontable.hex(),
            [
                _code(each) if isinstance(each, CodeType) else _fixed(each)
                for each in code.co_consts
            ],
            [*code.co_names],
            [*code.co_freevars],
            [code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags],
        ]
    )


def _is_fixed(value: Any) -> bool:
    """Whether the value cannot change."""
    if isinstance(value, tuple | frozenset):
        return all(map(_is_fixed, value))
    return isinstance(value, _SCALARS)


def _fixed(value: Any) -> Any:
    """A fixed value as JSON, which tells values of different types apart."""
    if isinstance(value, tuple):
        return [_fixed(each) for each in value]
    if isinstance(value, frozenset):
        return ["set", *sorted(repr(each) for each in value)]
    if isinstance(value, str | bool | None):
        return value
    return [type(value).__name__, repr(value)]


def _name_of(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"
