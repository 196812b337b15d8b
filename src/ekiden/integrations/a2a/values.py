"""The settings of a remote agent, without secrets, and the state of its task."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal, TypeAlias

from ekiden.core.checks.addresses import card_address, origin_of, variable_fault
from ekiden.core.checks.fields import Seconds, check_fields
from ekiden.core.errors import UserError
from ekiden.core.errors.integrations import RemoteAgentUnavailable
from ekiden.core.privacy.masking import keep_secret


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteA2A:
    """Settings of a remote A2A agent: the address of its card, the environment variables with the
    credentials, and time limits.

    Only the names of the variables are stored. Ekiden reads the values from the environment when it
    needs them, and never stores, logs or sends them elsewhere::

        RemoteA2A(card="https://partner.example", token_env="PARTNER_TOKEN")
    """

    card: str
    """The address of the agent card. If the address has no path, the well-known path of A2A is
    used. The scheme must be `https`; `http` is allowed only on this machine. The agent must be on
    the same host as its card."""
    token_env: str | None = None
    """The environment variable with the token for `Authorization: Bearer`."""
    headers_env: Mapping[str, str] = field(default_factory=dict)
    """Further HTTP headers. The keys are names of headers. The values are the names of the
    environment variables that contain the values of the headers."""
    timeout_s: Seconds = 300.0
    """The timeout of one task, in seconds. Time spent waiting for people does not count."""
    patience_s: Seconds = 30.0
    """Seconds for which the remote agent may be unreachable before the task fails."""
    poll_s: Seconds = 1.0
    """The first polling interval, in seconds, for a remote agent that does not send updates. Later
    intervals are longer."""

    def __post_init__(self) -> None:
        check_fields(self)
        object.__setattr__(self, "card", card_address(self.card))
        for name in filter(None, (self.token_env, *self.headers_env.values())):
            if fault := variable_fault(name):
                raise UserError(f"{name!r:.80} is not the name of an environment variable: {fault}")

    @property
    def origin(self) -> tuple[str, str, int]:
        """The scheme, host and port of the card. Ekiden contacts only this address for the
        agent."""
        return origin_of(self.card)

    def headers(self, agent: str) -> dict[str, str]:
        """The HTTP headers with the credentials. Raises `RemoteAgentUnavailable` if a variable is
        not set, or if its value has invalid characters."""
        made = {name: _variable(agent, each) for name, each in self.headers_env.items()}
        if self.token_env is not None:
            made["Authorization"] = f"Bearer {_variable(agent, self.token_env)}"
        return made

    def to_json(self) -> dict[str, Any]:
        """The settings as JSON, for stored compensations."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return {**values, "headers_env": dict(self.headers_env)}


def _variable(agent: str, name: str) -> str:
    value = os.environ.get(name, "").strip()
    if not value:
        raise RemoteAgentUnavailable(agent, f"the environment variable {name} is not set")
    keep_secret([value])
    if not value.isascii() or not value.isprintable():
        raise RemoteAgentUnavailable(
            agent,
            f"the environment variable {name} has characters that are invalid in a header: use "
            "one line of printable ASCII",
        )
    return value


MAX_TEXT = 200_000
"""The maximum length of the stored text of an answer, in characters. The rest is cut off."""

State: TypeAlias = Literal[
    "working", "done", "asks", "failed", "canceled", "rejected", "unavailable", "invalid"
]
"""`asks`: the remote task waits for an answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """The state of a remote task."""

    state: State
    task_id: str = ""
    context_id: str = ""
    text: str = ""
    """The answer, the question or the error."""
    data: Any = None
    """The answer, if it is JSON instead of text."""
    options: tuple[str, ...] = ()
    """The options of the question."""
    item: str = ""
    """The id of the question, if the remote agent is an Ekiden agent."""

    def to_json(self) -> dict[str, Any]:
        """The view as JSON, as steps store it."""
        return {**asdict(self), "options": list(self.options)}


def view_from_json(data: dict[str, Any]) -> View:
    """Create a view from the result of `View.to_json`."""
    return View(**{**data, "options": tuple(data["options"])})


def problem(state: State, text: str) -> View:
    """Return the view of a failed call."""
    return View(state=state, text=text[:MAX_TEXT])


def clean(text: str) -> str:
    """The text without lone surrogates, which UTF-8 cannot encode."""
    return text.encode("utf-8", "replace").decode("utf-8")
