"""Defines `handoff(agent)`, which creates a handoff with its tool and its arguments."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, overload

from ekiden.core.agent import Agent
from ekiden.core.checks.fields import Text, checked_arguments, either
from ekiden.core.context import RunContextWrapper, TContext
from ekiden.core.errors import ModelBehaviorError, UserError
from ekiden.core.handoffs import (
    DEFAULT_TERMS,
    DEFAULT_TIMEOUT_S,
    Completion,
    Handoff,
    HandoffInputFilter,
    HandoffPolicy,
    HandoffTerms,
    HandoffTrigger,
    HandoffWhen,
    PolicyName,
    no_input,
    transfer_tool_name,
)
from ekiden.core.profile import Budget, Confirmation
from ekiden.core.tools.tool import ApprovalFunction, Enabled, ensure_strict_json_schema

if TYPE_CHECKING:
    from typing import TypedDict, Unpack

    from pydantic import TypeAdapter, ValidationError

    class _Options(TypedDict, total=False):
        """The options of `handoff`, without its callback."""

        tool_name_override: str | None
        tool_description_override: str | None
        tool_name: str | None
        tool_description: str | None
        input_filter: HandoffInputFilter | None
        is_enabled: Enabled
        include_context: bool
        when: HandoffWhen | None
        policy: PolicyName | HandoffPolicy
        condition: str | None
        trigger: HandoffTrigger | None
        allow_return: bool | Literal["always"]
        capabilities: Iterable[str]
        confirm: bool | Confirmation
        needs_approval: bool | Confirmation | ApprovalFunction
        timeout_s: float
        restrict_tools: bool
        budget: Budget | None
        completes: Completion


T = TypeVar("T")
CONFIRM_HANDOFF = Confirmation(prompt_template="Make the handoff {tool_name} with {tool_args}?")
BEST = "*"
"""The target of a handoff to the best match: the member of the team that best matches the required
capabilities."""
_CODE_TARGET = "_ekiden_agent"
PERSON = "person:"
"""The prefix of the names of agents that stand for people."""


def validate_json(
    json_str: str, type_adapter: TypeAdapter[T], partial: bool = False, strict: bool | None = None
) -> T:
    """Parse `json_str` as the type of the adapter. With `partial`, the JSON text may be cut off.

    With `strict`, values are not converted, so ``"25"`` is not a number. Raises
    `ModelBehaviorError` with all problems and their positions, so that the model can correct them.
    """
    from pydantic import ValidationError

    try:
        return type_adapter.validate_json(
            json_str,
            strict=strict,
            experimental_allow_partial="trailing-strings" if partial else False,
        )
    except ValidationError as exc:
        raise ModelBehaviorError(f"Invalid JSON: {_problems(exc)}") from exc


def _problems(error: ValidationError) -> str:
    """Each problem as ``position: problem``, without the values."""
    found: list[Any] = error.errors(include_url=False, include_context=False, include_input=False)
    return "; ".join(
        f"{'.'.join(str(part) for part in one['loc']) or 'arguments'}: {one['msg']}"
        for one in found
    )


TInput = TypeVar("TInput")

OnHandoffWithInput: TypeAlias = Callable[[RunContextWrapper[Any], TInput], Any]
OnHandoffWithoutInput: TypeAlias = Callable[[RunContextWrapper[Any]], Any]

_Invoke: TypeAlias = Callable[[RunContextWrapper[Any], str], Awaitable[Agent[TContext]]]


@overload
def handoff(
    agent: Agent[TContext] | Callable[[Any], Awaitable[Any]] | Literal["*"],
    *,
    on_handoff: OnHandoffWithoutInput | None = None,
    **options: Unpack[_Options],
) -> Handoff[TContext, Agent[TContext]]: ...
@overload
def handoff(
    agent: Agent[TContext] | Callable[[Any], Awaitable[Any]] | Literal["*"],
    *,
    on_handoff: OnHandoffWithInput[TInput],
    input_type: type[TInput],
    **options: Unpack[_Options],
) -> Handoff[TContext, Agent[TContext]]: ...
@checked_arguments
def handoff(
    agent: Any,
    *,
    tool_name_override: Text | None = None,
    tool_description_override: str | None = None,
    tool_name: Text | None = None,
    tool_description: str | None = None,
    on_handoff: Callable[..., Any] | None = None,
    input_type: Any = None,
    input_filter: HandoffInputFilter | None = None,
    is_enabled: Enabled = True,
    include_context: bool = True,
    when: HandoffWhen | None = None,
    policy: PolicyName | HandoffPolicy = "graceful",
    condition: str | None = None,
    trigger: HandoffTrigger | None = None,
    allow_return: bool | Literal["always"] = False,
    capabilities: Iterable[str] = (),
    confirm: bool | Confirmation = False,
    needs_approval: bool | Confirmation | ApprovalFunction = False,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    restrict_tools: bool = False,
    budget: Budget | None = None,
    completes: Completion = "answer",
) -> Handoff[TContext, Agent[TContext]]:
    """Create a handoff to `agent`.

    `on_handoff`, sync or async, is called when the model requests the transfer. The function gets
    the context; with an `input_type` it also gets the arguments as an object of this type.
    `input_filter` changes the conversation that the target sees. Without a filter,
    ``include_context=False`` shows the target only the user's last message and the transfer.
    `is_enabled`, a bool or a function of the context and the source agent, is evaluated each turn::

        triage = Agent("triage", handoffs=[handoff(billing, input_filter=keep_last(20))])

    `agent` may also be an async function, which becomes an agent without a model. If `agent` is
    ``"*"``, the target is the member of the team that best matches the `capabilities`. The other
    arguments set the policy of the handoff, which `HandoffTerms` describes. A `trigger` starts the
    handoff without the model. The model then sees the handoff only with ``when="manual"``.
    ``confirm=True`` or ``needs_approval=True`` requires human approval. A function as
    `needs_approval` decides which handoffs need approval, as in `function_tool`. `tool_name` is
    short for `tool_name_override`, and `tool_description` is short for `tool_description_override`.

    Raises `UserError` for an invalid agent, an `on_handoff` with a wrong signature, an `input_type`
    without a strict JSON schema, and contradictory arguments. Raises `ConditionError` for an
    invalid condition.
    """
    decides = needs_approval if callable(needs_approval) else None
    if decides is None:
        confirm = either("confirm", confirm, "needs_approval", needs_approval)
    terms = make_terms(
        when=when,
        policy=policy,
        condition=condition,
        trigger=trigger,
        allow_return=allow_return,
        capabilities=tuple(capabilities),
        confirm=confirm or decides is not None,
        timeout_s=timeout_s,
        restrict_tools=restrict_tools,
        budget=budget,
        completes=completes,
    )
    tool_name = either("tool_name_override", tool_name_override, "tool_name", tool_name)
    description: str | None = either(
        "tool_description_override", tool_description_override, "tool_description", tool_description
    )
    if isinstance(agent, str):
        if on_handoff is not None or input_type is not None:
            raise UserError("a handoff to '*' has no `on_handoff` and no `input_type`")
        best = _to_best_match(agent, terms, tool_name, description, is_enabled)
        best.input_filter, best.include_context = input_filter, include_context
        best.needs_approval = decides
        return best
    if inspect.iscoroutinefunction(agent):
        agent = code_target(agent)
    if not isinstance(agent, Agent):
        raise UserError(f"handoff() needs an Agent, not {agent!r:.80} ({type(agent).__name__})")
    if input_type is None:
        invoke, schema = _without_input(agent, on_handoff), no_input()
    else:
        invoke, schema = _with_input(agent, on_handoff, input_type)
    return Handoff(
        tool_name=tool_name or Handoff.default_tool_name(agent),
        tool_description=description or Handoff.default_tool_description(agent),
        input_json_schema=schema,
        on_invoke_handoff=invoke,
        agent_name=agent.name,
        input_filter=input_filter,
        is_enabled=EnabledCheck(is_enabled) if callable(is_enabled) else is_enabled,
        agent=agent,
        include_context=include_context,
        has_callback=on_handoff is not None,
        terms=terms,
        needs_approval=decides,
    )


def make_terms(
    *,
    when: HandoffWhen | None = None,
    confirm: bool | Confirmation = False,
    **others: Any,
) -> HandoffTerms:
    """Create the policy of a handoff, and fill in missing fields from the trigger and from
    ``confirm=True``. Conditions are parsed here, so that errors appear when the team is created."""
    trigger: HandoffTrigger | None = others.get("trigger")
    if when is None:
        when = "manual" if trigger is None or trigger.type == "explicit" else "auto"
    confirmation: Confirmation | None = None
    if confirm:
        confirmation = CONFIRM_HANDOFF if confirm is True else confirm
    terms = HandoffTerms(when=when, confirm=confirmation, **others)
    for text in (terms.condition, None if trigger is None else trigger.expression):
        if text is not None:
            from ekiden.conditions import compile_condition

            compile_condition(text)
    return DEFAULT_TERMS if terms == DEFAULT_TERMS else terms


def _to_best_match(
    name: str,
    terms: HandoffTerms,
    tool_name: str | None,
    description: str | None,
    is_enabled: Enabled,
) -> Handoff[Any, Agent[Any]]:
    if name != BEST:
        raise UserError(f"handoff() needs an Agent or '*', not the name {name[:80]!r}")
    if not terms.capabilities:
        raise UserError("a handoff to '*' needs `capabilities`: what the agent must be able to do")
    wanted = ", ".join(terms.capabilities)

    async def never_called(context: RunContextWrapper[Any], arguments: str) -> Agent[Any]:
        raise UserError("a handoff to '*' needs a run: only it knows the team")

    return Handoff(
        tool_name=tool_name or transfer_tool_name("best_at_" + "_".join(terms.capabilities)),
        tool_description=description
        or f"Hand the conversation over to the agent that is best at: {wanted}.",
        input_json_schema=no_input(),
        on_invoke_handoff=never_called,
        agent_name=BEST,
        is_enabled=EnabledCheck(is_enabled) if callable(is_enabled) else is_enabled,
        has_callback=False,
        terms=terms,
    )


def code_target(function: Callable[[Any], Awaitable[Any]]) -> Agent[Any]:
    """The code agent that runs the function and has its name. The same function always gives the
    same object."""
    agent: Agent[Any] | None = getattr(function, _CODE_TARGET, None)
    if agent is None:
        doc = inspect.getdoc(function)
        description = doc.partition("\n\n")[0].replace("\n", " ") if doc else None
        agent = Agent(function.__name__.strip("_"), run=function, description=description)
        with contextlib.suppress(AttributeError):
            setattr(function, _CODE_TARGET, agent)
    return agent


def person(role: str, *, description: str | None = None) -> Agent[Any]:
    """Create an agent that represents the people with a role. After a handoff to this agent, the
    session waits until one of these people answers.

    For example::

        triage = Agent("triage", handoffs=[person("support", description="A human colleague.")])
    """
    name = role.strip() if isinstance(role, str) else ""
    if not name:
        raise UserError("a person needs a role, such as 'support'")
    return Agent(PERSON + name, person=name, description=description)


class EnabledCheck:
    """A sync or async function for `is_enabled`, as an async function."""

    __slots__ = ("function",)

    def __init__(self, function: Callable[[RunContextWrapper[Any], Any], Any]) -> None:
        self.function = function

    async def __call__(self, context: RunContextWrapper[Any], agent: Any) -> bool:
        return bool(await _settled(self.function(context, agent)))


def _without_input(
    agent: Agent[TContext], on_handoff: Callable[..., Any] | None
) -> _Invoke[TContext]:
    if on_handoff is None:

        async def arrive(context: RunContextWrapper[Any], arguments: str) -> Agent[TContext]:
            return agent

        return arrive

    _check_signature(on_handoff, ("ctx",))

    async def invoke(context: RunContextWrapper[Any], arguments: str) -> Agent[TContext]:
        await _settled(on_handoff(context))
        return agent

    return invoke


def _with_input(
    agent: Agent[TContext], on_handoff: Callable[..., Any] | None, input_type: Any
) -> tuple[_Invoke[TContext], dict[str, Any]]:
    if on_handoff is None:
        raise UserError(
            "You must provide on_handoff when input_type is provided: without it the input "
            "would not be used"
        )
    _check_signature(on_handoff, ("ctx", "data"))
    from pydantic import TypeAdapter

    adapter: TypeAdapter[Any] = TypeAdapter(input_type)
    schema = ensure_strict_json_schema(adapter.json_schema())

    async def invoke(context: RunContextWrapper[Any], arguments: str) -> Agent[TContext]:
        if not arguments:
            raise ModelBehaviorError(f"the handoff to {agent.name!r} needs arguments, got none")
        await _settled(on_handoff(context, validate_json(arguments, adapter, strict=True)))
        return agent

    return invoke, schema


def _check_signature(on_handoff: Any, parameters: tuple[str, ...]) -> None:
    """Raise `UserError` if `on_handoff` does not take these positional arguments."""
    if not callable(on_handoff):
        raise UserError(f"on_handoff must be callable, not {type(on_handoff).__name__}")
    try:
        signature = inspect.signature(on_handoff)
    except ValueError:  # a function in C without a signature
        return
    try:
        signature.bind(*parameters)
    except TypeError:
        wanted = ", ".join(parameters)
        raise UserError(
            f"on_handoff must take ({wanted}), but takes {signature}: with input_type it gets the "
            "context and the input, without it the context only"
        ) from None


async def _settled(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value
