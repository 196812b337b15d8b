"""A tool that an agent may call, and its arguments as a strict JSON Schema."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from copy import deepcopy
from dataclasses import field
from typing import TYPE_CHECKING, Any, Generic, TypeAlias

from ekiden.core.checks.fields import Seconds, check_fields
from ekiden.core.context import Parameterized, RunContextWrapper, TContext, ToolContext, TOutput
from ekiden.core.conversation.model import ToolSpec
from ekiden.core.dataclass import dataclass
from ekiden.core.errors import UserError
from ekiden.core.profile import Confirmation, check_title
from ekiden.core.text.wording import lazy_pattern

if TYPE_CHECKING:
    from ekiden.core.tools.guardrails import ToolInputGuardrail, ToolOutputGuardrail


ToolErrorFunction: TypeAlias = Callable[[RunContextWrapper[Any], Exception], Any]
"""A sync or async function that turns an exception of a tool into an error text for the model."""

Enabled: TypeAlias = bool | Callable[[RunContextWrapper[Any], Any], bool | Awaitable[bool]]
"""Whether something is available in a turn: a fixed value, or a function of the context and the
agent."""

ApprovalFunction: TypeAlias = Callable[..., bool | Awaitable[bool]]
"""A function that decides whether a call needs approval. It has one parameter, the arguments as a
dict, or three parameters: the context, the arguments and the id of the call."""

ScopeFunction: TypeAlias = Callable[[str], str]
"""A function that returns the scope of a call, such as the program that the call runs or the host
that it contacts. The function gets the arguments as JSON text. It raises an exception if the
arguments have no scope."""


@dataclass(eq=False)
class FunctionTool(Parameterized, Generic[TContext, TOutput]):
    """A function that the model may call, with its schema. `function_tool` creates this object.

    You can also create a tool yourself, with a schema from another source::

        async def ask_remote(ctx: ToolContext, arguments: str) -> str:
            return await remote.call(arguments)

        FunctionTool("remote", "Ask the remote side.", remote.schema, ask_remote)

    The type parameters are for type checkers. The first is the type of the context, and the second
    is the type that `CodeContext.call` returns. If the function of the tool returns a text, a
    number, a list of texts or a dict, the second type is its return type. Otherwise it is `Any`,
    because `CodeContext.call` returns the result as JSON.
    """

    name: str
    description: str
    params_json_schema: dict[str, Any]
    on_invoke_tool: Callable[[ToolContext[TContext], str], Awaitable[TOutput]]
    """The function that runs the tool. It gets the context and the JSON text of the arguments."""
    strict_json_schema: bool = True
    is_enabled: Enabled = True
    timeout_seconds: Seconds | None = None
    """The timeout of a call, in seconds. `None` means `RunConfig.tool_timeout_s`."""
    failure_error_function: ToolErrorFunction | None = None
    """A function that turns an exception of the tool into an error text for the model. If `None`,
    an exception of the tool ends the run."""
    confirmation: Confirmation | None = None
    """If set, every call needs human approval. See `RunConfig.approver`."""
    needs_approval: bool | ApprovalFunction = False
    """If `True`, every call needs human approval, as with `confirmation`. A function is called
    before each tool call, and returns whether the call needs approval. If this function raises an
    exception, a warning is recorded, and the tool does not run."""
    confirmation_scope: ScopeFunction | None = None
    """When a person approves a call and chooses "always", later calls need no approval. This
    function limits these calls: it returns a text for a call, such as the contacted host. The
    approval then covers only calls with the same text. If `None`, the approval covers all calls of
    the tool."""
    tool_input_guardrails: list[ToolInputGuardrail[Any]] | None = None
    """Guardrails that run one after the other before every call. The tool runs only if all of them
    allow the call."""
    tool_output_guardrails: list[ToolOutputGuardrail[Any]] | None = None
    """Guardrails that check the output one after the other. The model sees the output only if all
    of them allow it."""
    read_only: bool = False
    """Whether the tool has no effects. After an interruption, a call of such a tool is never in
    doubt."""
    agent: Any = None
    """For a tool from `Agent.as_tool`: the agent that the tool calls. This agent becomes a member
    of the team."""
    version: str | None = None
    """A text that you change when the tool does something else. If `None`, Ekiden compares the code
    of the function instead. See `ekiden.core.versions`."""
    origin: Mapping[str, Any] | None = field(default=None, repr=False)
    """For a tool of another program, such as an MCP server: JSON that identifies this program and
    the tool in it."""
    spec: ToolSpec = field(init=False, repr=False)
    """The tool definition that the model sees."""

    def __post_init__(self) -> None:
        self._check_name()
        check_fields(self, f"tool {self.name!r}")
        if self.needs_approval:
            if callable(self.needs_approval):
                check_approval_function(self.needs_approval, self.name)
            self.confirmation = self.confirmation or Confirmation()
        if self.confirmation is not None and self.confirmation.title is not None:
            check_title(self.confirmation.title, self.params_json_schema, self.name)
        if self.tool_input_guardrails is not None or self.tool_output_guardrails is not None:
            from ekiden.core.tools.guardrails import check_guardrails

            check_guardrails(self.name, self.tool_input_guardrails, self.tool_output_guardrails)
        self.spec = ToolSpec(
            name=self.name,
            description=self.description,
            parameters=self.params_json_schema,
            strict=self.strict_json_schema,
        )

    def _check_name(self) -> None:
        # A subclass for tools that are not imported overrides this.
        check_tool_name(self.name, "the name of a tool")


Tool: TypeAlias = FunctionTool


def check_approval_function(function: ApprovalFunction, tool: str) -> int:
    """Return the number of arguments that the function takes, 1 or 3. Raises `UserError` for other
    numbers."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return 1
    for count in (1, 3):
        try:
            signature.bind(*[None] * count)
        except TypeError:
            continue
        return count
    raise UserError(
        f"`needs_approval` of the tool {tool!r} takes the arguments of a call, or the context, the "
        f"arguments and the call's id, not {signature}"
    )


_NAME = lazy_pattern(r"[a-zA-Z0-9_-]{1,64}")
"""Tool names that every provider accepts."""


def check_tool_name(name: object, what: str) -> None:
    """Raise `UserError` for a name that a model's API would refuse. `what` is the noun for the
    error message, such as "the name of a tool"."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise UserError(
            f"{name!r:.80} cannot be {what} (1 to 64 ASCII letters, digits, _ and -, as every "
            "model's API takes it)"
        )


_SCHEMA_MAPS = ("$defs", "definitions", "properties")
_SCHEMA_LISTS = ("anyOf", "allOf", "prefixItems")


def ensure_strict_json_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a strict copy of `schema`. The copy of a strict schema is equal to the schema.

    Objects get ``additionalProperties: false``, and all their properties become ``required``.
    ``oneOf`` becomes ``anyOf``. An ``allOf`` with one entry is merged. A ``default`` of null is
    removed. A ``$ref`` at the root, or with other keywords beside it, is replaced by its target. An
    empty schema becomes an object without fields.

    Raises `UserError` for a schema without a strict form: an object with free keys (such as
    ``dict``), a root that is not an object, or a ``$ref`` without a target.
    """
    if not isinstance(schema, dict):
        raise UserError(f"a JSON schema must be an object, not {type(schema).__name__}")
    root: dict[str, Any] = deepcopy(schema) if schema else {"type": "object", "properties": {}}
    if "$ref" in root:
        target = deepcopy(_resolve(root.pop("$ref"), root, "#"))
        root = {**target, **root}
    strict = _strict(root, root, "#", ())
    if strict.get("type") != "object":
        raise UserError(
            "the root of a strict JSON schema must be an object: wrap the value in a model "
            "with one field, or set strict_json_schema=False where that is offered"
        )
    return strict


def _strict(
    value: Any, root: dict[str, Any], path: str, expanding: tuple[str, ...]
) -> dict[str, Any]:
    """Make `value` strict in place; `expanding` are the references that are being expanded."""
    if not isinstance(value, dict):
        raise UserError(f"{path} of the JSON schema must be an object, found {value!r}")
    node, expanding = _expand_ref(value, root, path, expanding)
    if "oneOf" in node:
        node["anyOf"] = [*node.get("anyOf", ()), *node.pop("oneOf")]
    if len(node.get("allOf", ())) == 1:
        (only,) = node.pop("allOf")
        merged = {**only, **node}
        node.clear()
        node.update(merged)
        return _strict(node, root, path, expanding)
    for key in _SCHEMA_MAPS:
        for name, child in node.get(key, {}).items():
            node[key][name] = _strict(child, root, f"{path}/{key}/{name}", expanding)
    for key in _SCHEMA_LISTS:
        if key in node:
            node[key] = [
                _strict(child, root, f"{path}/{key}/{index}", expanding)
                for index, child in enumerate(node[key])
            ]
    if isinstance(node.get("items"), dict):
        node["items"] = _strict(node["items"], root, f"{path}/items", expanding)
    if node.get("default", ...) is None:
        del node["default"]
    if node.get("type") == "object" or "properties" in node:
        _close(node, path)
    return node


def _close(node: dict[str, Any], path: str) -> None:
    """Forbid unknown keys and require the known ones."""
    if node.setdefault("additionalProperties", False) is not False:
        raise UserError(
            f"{path} of the JSON schema allows keys that it does not name (a dict, or "
            "extra='allow'), which strict schemas cannot: name the fields, or turn strict mode off"
        )
    node.setdefault("properties", {})
    node["required"] = list(node["properties"])


def _expand_ref(
    node: dict[str, Any], root: dict[str, Any], path: str, expanding: tuple[str, ...]
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Replace a ``$ref`` that has other keywords beside it by its target and these keywords.

    Within its own expansion, a recursive reference loses these keywords instead.
    """
    reference = node.get("$ref")
    neighbours = [key for key in node if key not in ("$ref", "$defs", "definitions")]
    if not isinstance(reference, str) or not neighbours:
        return node, expanding
    if reference in expanding:
        return {"$ref": reference}, expanding
    target = deepcopy(_resolve(reference, root, path))
    del node["$ref"]
    return {**target, **node}, (*expanding, reference)


def _resolve(reference: str, root: dict[str, Any], path: str) -> dict[str, Any]:
    found: Any = root
    for part in reference.removeprefix("#/").split("/") if reference.startswith("#/") else ["?"]:
        name = part.replace("~1", "/").replace("~0", "~")
        found = found.get(name) if isinstance(found, dict) else None
    if not isinstance(found, dict):
        raise UserError(f"{path} of the JSON schema refers to {reference!r}, which is not in it")
    return found
