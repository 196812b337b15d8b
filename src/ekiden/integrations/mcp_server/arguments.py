"""What the tools take."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from ekiden.api.values import SESSION_ID

_MAX_TEXT = 1_000_000

SessionId = Annotated[
    str,
    Field(
        min_length=1,
        max_length=128,
        pattern=SESSION_ID,
        description="The session's id, as ask_team and list_sessions give it.",
    ),
]
RunId = Annotated[
    str, Field(min_length=3, max_length=140, description="The run's id: SESSION:NUMBER.")
]
Said = Annotated[
    str, Field(min_length=1, max_length=_MAX_TEXT, description="The message, in plain words.")
]
AgentName = Annotated[str, Field(min_length=1, max_length=200)]
Wait = Annotated[
    float,
    Field(
        ge=0,
        le=3600,
        description="Seconds to wait for the answer; the run continues afterwards, and get_run "
        "waits for it.",
    ),
]
Limit = Annotated[int, Field(ge=1, le=200, description="How many at most.")]
Cursor = Annotated[str | None, Field(max_length=500, description="next_cursor of the page before.")]


class Arguments(BaseModel):
    """What one tool takes; anything else is refused."""

    model_config = ConfigDict(extra="forbid")


class ListAgents(Arguments):
    """Nothing."""


class Route(Arguments):
    """A request to be routed."""

    input: Said
    strategy: Annotated[
        Literal["rule", "semantic", "llm", "hybrid"] | None,
        Field(description="The routing strategy; by default as in the settings."),
    ] = None


class AskTeam(Arguments):
    """Something new for the team."""

    input: Said
    agent: Annotated[
        str | None,
        Field(
            max_length=200,
            description='Who is to take it; "auto" lets the router decide; else the team\'s entry.',
        ),
    ] = None
    title: Annotated[str | None, Field(max_length=500, description="For lists.")] = None
    user_id: Annotated[
        str | None, Field(max_length=500, description="Whose conversation it is.")
    ] = None
    wait_s: Wait = 120


class ContinueSession(Arguments):
    """Something more in a session."""

    session_id: SessionId
    input: Said
    agent: Annotated[
        str | None,
        Field(
            max_length=200,
            description="The agent to take it; by default the one that has the session.",
        ),
    ] = None
    wait_s: Wait = 120


class GetRun(Arguments):
    """A run, perhaps once it is over."""

    run_id: RunId
    wait_s: Wait = 0


class CancelRun(Arguments):
    """A run to be stopped."""

    run_id: RunId


class ListSessions(Arguments):
    """Which sessions."""

    agent: Annotated[
        str | None, Field(max_length=200, description="Only those that this agent has.")
    ] = None
    status: Annotated[
        Literal["idle", "ready", "waiting"] | None, Field(description="Only those so.")
    ] = None
    limit: Limit = 20
    cursor: Cursor = None


class GetSession(Arguments):
    """A session with the end of its conversation."""

    session_id: SessionId
    last: Annotated[
        int, Field(ge=1, le=1000, description="How many items of the conversation, from its end.")
    ] = 50


class ListInbox(Arguments):
    """Which questions to people."""

    session_id: Annotated[
        str | None, Field(max_length=128, description="Only what this session waits for.")
    ] = None
    role: Annotated[str | None, Field(max_length=200, description="Only for this role.")] = None
    limit: Limit = 20
    cursor: Cursor = None


class AnswerInbox(Arguments):
    """A person's decision."""

    item_id: Annotated[str, Field(min_length=1, max_length=128, description="As list_inbox gives.")]
    choice: Annotated[
        str | None,
        Field(max_length=1000, description="One of the item's options, if it has any."),
    ] = None
    text: Annotated[
        str, Field(max_length=100_000, description="In the person's words; needed without options.")
    ] = ""
    seen_version: Annotated[
        int | None,
        Field(ge=0, description="The item's version that the person saw; another is refused."),
    ] = None
    wait_s: Wait = 120


class HandOver(Arguments):
    """A session for another agent."""

    session_id: SessionId
    to: Annotated[AgentName, Field(description="Who gets it.")]
    reason: Annotated[str, Field(max_length=2000, description="Why; shown to people.")] = ""
    summary: Annotated[
        str, Field(max_length=20_000, description="What the new agent should know.")
    ] = ""
    wait_s: Wait = 120
