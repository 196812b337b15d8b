"""Runs over HTTP."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from ekiden.api.texts import SESSION_ID
from ekiden.server.models.items import ItemsInput, TextInput

RunStatusName = Literal[
    "queued", "running", "waiting", "stopped", "done", "refused", "failed", "out_of_budget"
]


class ErrorModel(BaseModel):
    """Why a run failed."""

    code: str
    message: str


class RunModel(BaseModel):
    """A run as it stands."""

    run_id: str
    session_id: str
    status: RunStatusName
    agent: str = Field(description="Who has the session.")
    output: Any = Field(description="The answer; `null` unless the run is done.")
    outcome: str | None
    chain: list[str] = Field(description="Who had the run, beginning with `user`.")
    handoffs: list[str] = Field(description="Ids of the handoffs that were made.")
    usage: dict[str, Any]
    error: ErrorModel | None
    questions: list[str] = Field(description="Ids of the inbox items that it waits for.")
    started_at: float
    updated_at: float


class NewRun(BaseModel):
    """A message for a team."""

    model_config = ConfigDict(extra="forbid")

    input: TextInput | ItemsInput = Field(
        description="What to say: a text, or items as the OpenAI Responses API has them.",
        examples=["Where is my order 1042?"],
    )
    session_id: str | None = Field(
        default=None,
        min_length=1,
        max_length=128,
        pattern=SESSION_ID,
        description="Go on in this session, or begin it; without it, a new one.",
    )
    agent: str | None = Field(
        default=None,
        min_length=1,
        max_length=200,
        description="Who gets it: a name, or `auto` for the router; else who has the session.",
    )
    strategy: Literal["rule", "semantic", "llm", "hybrid"] | None = Field(
        default=None, description="How the router chooses."
    )
    user_id: str | None = Field(default=None, min_length=1, max_length=500)
    title: str | None = Field(default=None, max_length=200)
    correlation_id: str | None = Field(default=None, min_length=1, max_length=200)
    priority: Literal["low", "normal", "high", "urgent"] = Field(
        default="normal", description="Of a new session: the more important ones are run first."
    )
    max_turns: int | None = Field(default=None, ge=1, le=10_000)
    on_busy: Literal["refuse", "wait"] = Field(
        default="refuse", description="If somebody else runs the session."
    )
    stream: bool = Field(
        default=False, description="Answer with server-sent events, as `Accept` can say, too."
    )
    background: bool = Field(
        default=False, description="Answer at once, with 202, and do not wait for the end."
    )
    timeout_s: float | None = Field(
        default=None, gt=0, le=600, description="How long to wait for the end; then it is 202."
    )


class ResumeRun(BaseModel):
    """How to go on with a run."""

    model_config = ConfigDict(extra="forbid")

    max_turns: int | None = Field(default=None, ge=1, le=10_000)
    background: bool = Field(default=False, description="Answer at once, with 202.")
    timeout_s: float | None = Field(default=None, gt=0, le=600)
