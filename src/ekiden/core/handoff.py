"""A handoff: a connection from one agent to another, shown to the model as a tool."""

from __future__ import annotations

import logging
import re
import unicodedata
import zlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, TypeAlias

from ekiden.core.checks.fields import check_fields
from ekiden.core.context import RunContextWrapper, TContext
from ekiden.core.conversation.model import Item, ToolSpec
from ekiden.core.conversation.run_items import RunItem
from ekiden.core.handoff_terms import DEFAULT_TERMS, HandoffTerms
from ekiden.core.tool import Enabled, check_tool_name
from ekiden.core.values import dumps

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    TAgent = TypeVar("TAgent", default=Any)
else:
    from typing import TypeVar

    TAgent = TypeVar("TAgent")

_log = logging.getLogger("ekiden.handoff")

_PREFIX = "transfer_to_"
_MAX_NAME = 64
"""The longest tool name that every provider accepts."""


@dataclass(frozen=True, slots=True)
class HandoffInputData:
    """What the target of a handoff will see; a filter returns a changed copy.

    For example::

        def only_the_question(data: HandoffInputData) -> HandoffInputData:
            return data.clone(input_history=data.input_history[-1:], pre_handoff_items=())
    """

    input_history: str | tuple[Item, ...]
    """The conversation before this run."""
    pre_handoff_items: tuple[RunItem, ...]
    """The run's items before the turn that requested the handoff."""
    new_items: tuple[RunItem, ...]
    """The items of that turn, including the handoff's own call and output."""
    run_context: RunContextWrapper[Any] | None = None
    input_items: tuple[RunItem, ...] | None = None
    """If set, the target sees these instead of `new_items`, which stay the run's output."""

    def clone(self, **changes: Any) -> HandoffInputData:
        """A copy with some fields changed."""
        return replace(self, **changes)


HandoffInputFilter: TypeAlias = Callable[
    [HandoffInputData], HandoffInputData | Awaitable[HandoffInputData]
]


@dataclass(eq=False)
class Handoff(Generic[TContext, TAgent]):
    """A connection to another agent; `ekiden.handoff` makes one.

    For example::

        triage = Agent("triage", handoffs=[handoff(billing, tool_name_override="to_billing")])
    """

    tool_name: str
    tool_description: str
    input_json_schema: dict[str, Any]
    on_invoke_handoff: Callable[[RunContextWrapper[Any], str], Awaitable[TAgent]]
    """Called with the context and the JSON text of the arguments; returns the target.

    Raises `ModelBehaviorError` when the arguments are invalid."""
    agent_name: str
    input_filter: HandoffInputFilter | None = None
    """Changes what the target sees; overrides the run's own filter."""
    strict_json_schema: bool = True
    is_enabled: Enabled = True
    """Evaluated each turn; a disabled handoff is not shown to the model."""
    agent: TAgent | None = None
    """The target, if it is known before the handoff is invoked."""
    include_context: bool = True
    """Whether the target sees the conversation, or only the handoff's message."""
    has_callback: bool = True
    """Whether `on_invoke_handoff` does more than return `agent`: then it must be awaited."""
    terms: HandoffTerms = DEFAULT_TERMS
    """The handoff's policy: when and how it is made, and the target's limits."""
    spec: ToolSpec = field(init=False, repr=False)
    """As the model sees it; created once."""

    def __post_init__(self) -> None:
        check_tool_name(self.tool_name, "the tool name of a handoff")
        check_fields(self)
        self.spec = ToolSpec(
            name=self.tool_name,
            description=self.tool_description,
            parameters=self.input_json_schema,
            strict=self.strict_json_schema,
        )

    def get_transfer_message(self, agent: Any) -> str:
        """What the model reads after the transfer."""
        return dumps({"assistant": agent.name})

    @staticmethod
    def default_tool_name(agent: Any) -> str:
        """``transfer_to_<name>`` for an agent; warns if the name loses punctuation."""
        tool_name = transfer_tool_name(agent.name)
        is_person = getattr(agent, "person", None) is not None
        if not is_person and _ODD_ASCII.search(agent.name):
            _log.warning(
                "the name %r contains invalid characters for function calling; its handoff is "
                "called %r: pass tool_name_override to choose another name",
                agent.name,
                tool_name,
            )
        return tool_name

    @staticmethod
    def default_tool_description(agent: Any) -> str:
        """Names the target, and its description if it has one."""
        base = f"Hand the conversation over to the agent {agent.name}, who then handles it."
        described = agent.handoff_description or agent.description
        return f"{base} {described}" if described else base


_ODD_ASCII = re.compile(r"[!-,./:-@\[-^`{-~\x00-\x08\x0e-\x1b\x7f]")
_NOT_WORD = re.compile(r"[^a-z0-9_]")


def transfer_tool_name(agent_name: str) -> str:
    """``transfer_to_<name>`` in letters, digits and ``_``, at most 64 characters.

    Spaces and ASCII punctuation become ``_``. Characters that a tool name cannot hold (other
    scripts, a very long name) are replaced by a short hash of the whole name, so that two Chinese
    names stay different; the hash is the same on every machine.
    """
    plain = unicodedata.normalize("NFKD", agent_name).encode("ascii", "ignore").decode().lower()
    slug = _NOT_WORD.sub("_", plain)
    room = _MAX_NAME - len(_PREFIX)
    if agent_name.isascii() and len(slug) <= room and slug.strip("_"):
        return _PREFIX + slug
    digest = f"{zlib.crc32(agent_name.encode('utf-8', 'surrogatepass')):08x}"
    head = slug.strip("_")[: room - len(digest) - 1].rstrip("_")
    return f"{_PREFIX}{head}_{digest}" if head else _PREFIX + digest
