"""State over HTTP."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from ekiden.api.texts import PLAIN
from ekiden.sessions.scopes import MAX_NAME, MAX_VARIABLES

Name = Annotated[str, Field(min_length=1, max_length=MAX_NAME, pattern=PLAIN)]


class ActionModel(BaseModel):
    """The last thing that happened."""

    type: str
    timestamp: float
    details: dict[str, Any]


class StateModel(BaseModel):
    """How a session stands, or stood after one of its events."""

    session_id: str
    seq: int = Field(description="The number of the event after which it is so.")
    version: int = Field(
        description="The number of the last event that changed `variables`; 0 if none did."
    )
    current_task: str | None = Field(description="What the session was asked last, shortened.")
    task_status: Literal["pending", "in_progress", "completed", "failed"]
    current_agent: str | None
    variables: dict[str, Any]
    last_action: ActionModel | None


_SAYS_SOMETHING: Any = {
    "anyOf": [
        {"required": ["set"], "properties": {"set": {"minProperties": 1}}},
        {"required": ["delete"], "properties": {"delete": {"minItems": 1}}},
    ]
}


class StateChange(BaseModel):
    """What to set and what to delete, as one change."""

    model_config = ConfigDict(extra="forbid", json_schema_extra=_SAYS_SOMETHING)

    set: dict[Name, Any] = Field(
        default_factory=dict,
        max_length=MAX_VARIABLES,
        description="New values by name.",
        examples=[{"tier": "gold"}],
    )
    delete: list[Name] = Field(
        default_factory=list,
        max_length=MAX_VARIABLES,
        description="Names of variables, each once.",
        json_schema_extra={"uniqueItems": True},
    )
    by: str | None = Field(
        default=None,
        min_length=1,
        max_length=200,
        pattern=PLAIN,
        description="Who does it, if it is not the caller; needs the scope `admin`.",
    )


class SessionStateChange(StateChange):
    """A change of a session's variables."""

    on_busy: Literal["refuse", "wait"] = Field(
        default="refuse", description="If somebody runs the session."
    )


class ChangedState(BaseModel):
    """The version after a change."""

    session_id: str
    version: int


class SharedVariableModel(BaseModel):
    """A variable of a user or an app."""

    value: Any
    version: int
    by: str = Field(description="Who wrote it: a person, or a session.")
    updated_at: float


class UserState(BaseModel):
    """The variables of a user."""

    user: str
    variables: dict[str, SharedVariableModel]


class AppState(BaseModel):
    """The variables of the app."""

    app: str
    variables: dict[str, SharedVariableModel]


class SharedStateChange(StateChange):
    """A change of the variables of a user or an app."""

    expected: dict[Name, Annotated[int, Field(ge=0)]] = Field(
        default_factory=dict,
        max_length=MAX_VARIABLES,
        description="Versions that were looked at, by name; 0 for what was not there. If one is "
        "another by now, nothing is written, and it is 412.",
    )


class ChangedUserState(BaseModel):
    """The new versions of a user's variables; 0 is one that is deleted."""

    user: str
    versions: dict[str, int]


class ChangedAppState(BaseModel):
    """The new versions of the app's variables; 0 is one that is deleted."""

    app: str
    versions: dict[str, int]
