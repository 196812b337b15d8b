"""What a streamed run shows while it goes on.

An event of an agent that works as a tool of another one has its `depth` (1 for a tool of the
agent that was started) and its `agent`; an event of the run itself has the depth 0.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias


@dataclass
class RawResponsesStreamEvent:
    """An event of the model, in the format of the package `openai`."""

    data: Any
    type: Literal["raw_response_event"] = "raw_response_event"
    agent: Any = field(default=None, kw_only=True, compare=False, repr=False)
    depth: int = field(default=0, kw_only=True, compare=False, repr=False)


@dataclass
class RunItemStreamEvent:
    """A new item: a message, a tool call or an output."""

    name: str
    item: Any
    type: Literal["run_item_stream_event"] = "run_item_stream_event"
    agent: Any = field(default=None, kw_only=True, compare=False, repr=False)
    depth: int = field(default=0, kw_only=True, compare=False, repr=False)


@dataclass
class AgentUpdatedStreamEvent:
    """Another agent has the conversation."""

    new_agent: Any
    type: Literal["agent_updated_stream_event"] = "agent_updated_stream_event"
    depth: int = field(default=0, kw_only=True, compare=False, repr=False)

    @property
    def agent(self) -> Any:
        """The new agent."""
        return self.new_agent


StreamEvent: TypeAlias = RawResponsesStreamEvent | RunItemStreamEvent | AgentUpdatedStreamEvent
