"""Agents over HTTP."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from pydantic import BaseModel, Field

AgentKind: TypeAlias = Literal["supervisor", "router", "person", "runner", "code", "model"]


class TriggersModel(BaseModel):
    """What the router looks for."""

    keywords: list[str]
    patterns: list[str]
    priority: int
    examples: list[str]


class CapabilityModel(BaseModel):
    """Something that an agent can do."""

    name: str
    description: str
    proficiency: float
    tags: list[str]


class AgentModel(BaseModel):
    """An agent in short."""

    name: str
    title: str | None
    description: str | None
    scope: str
    model: str | None
    origin: str = Field(description="Where it comes from: a kind of file, `python`, or `people`.")
    path: str | None
    tools: list[str]
    handoffs: list[str] = Field(description="Whom it may hand to.")
    can_ask: list[str]
    can_tell: list[str]
    can_ask_people: list[str]
    kind: AgentKind
    triggers: TriggersModel
    capabilities: list[CapabilityModel]
    available: bool | None = Field(description="`null`: that is asked when it matters.")
    max_sessions: int | None


class AgentDetail(BaseModel):
    """Everything about an agent."""

    name: str
    title: str | None
    description: str | None
    scope: str
    model: str | None
    origin: str
    path: str | None
    tools: list[dict[str, Any]]
    handoffs: list[dict[str, Any]]
    can_ask: list[str]
    can_tell: list[str]
    can_ask_people: list[str]
    handoff_description: str | None
    triggers: TriggersModel
    capabilities: list[CapabilityModel]
    guardrails: dict[str, Any] | None
    memory: dict[str, Any] | None
    supervisor: dict[str, Any] | None
    available: bool | None = Field(description="`null`: that is asked when it matters.")
    max_sessions: int | None
    runs_on: list[str] = Field(description="Labels that a worker must have to run it.")
    kind: AgentKind
    instructions: str | None


class RunningModel(BaseModel):
    """A session that is being run."""

    session_id: str
    owner: str


class WaitModel(BaseModel):
    """That an agent waits, and for whom."""

    agent: str
    status: Literal["none", "internal", "user"]
    waiting_for: list[str] = Field(description="Agents, or people as `person:ROLE`.")
    reason: str
    message_id: str | None
    started_at: float | None
    session_id: str | None


class PresenceModel(BaseModel):
    """The sessions that an agent has, and its waits."""

    agent: str
    known: bool = Field(description="Whether the team has such an agent.")
    router: bool
    sessions: int
    idle: int
    ready: int
    waiting: int
    running: list[RunningModel]
    status: Literal["none", "internal", "user"]
    waits: list[WaitModel]


class DeadlockAskModel(BaseModel):
    """One question of a circle."""

    source: str = Field(alias="from", description="The agent that asked.")
    target: str = Field(alias="to", description="The agent that was to answer.")
    message_id: str
    text: str | None = Field(description="What was asked, in at most 300 characters.")
    given_up: bool = Field(description="It failed, so that the others could go on.")


class DeadlockModel(BaseModel):
    """Agents that wait, or waited, for each other in a circle."""

    id: str
    cycle: list[str]
    message_ids: list[str]
    victim: str | None
    given_up: list[str]
    policy: str | None
    found_at: float
    resolved: bool
    asks: list[DeadlockAskModel] = Field(
        description="Who asked whom what, in the order of the cycle; empty if it is not known."
    )
