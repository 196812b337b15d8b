"""What a run brings along."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ekiden.core.agent import Agent
from ekiden.core.conversation.model import ModelDelta
from ekiden.core.errors import UserError
from ekiden.core.errors.memory import NoMemory
from ekiden.core.events import Event
from ekiden.core.hooks import RunHooks
from ekiden.core.team import Team
from ekiden.runtime.config import RunConfig
from ekiden.storage.base import DocumentWrite, SessionStatus, Store

if TYPE_CHECKING:
    from ekiden.memory.memory import Memory


def memory_for(
    agent: Agent[Any], *, store: Store, user_id: str | None, config: RunConfig
) -> Memory:
    """What the agent remembers for this user; `NoMemory` if it has no memory."""
    if agent.memory is None:
        raise NoMemory(
            f"agent {agent.name!r} has no memory: give it one, `memory=MemorySettings()`, or "
            "`memory: {enabled: true}` in its file"
        )
    from ekiden.memory import Memory

    return Memory(
        store,
        user=user_id,
        app=config.app,
        settings=agent.memory,
        embedder=config.embedder,
        agent=agent.name,
    )


AUTO = "auto"
"""As an addressee: whomever the team's router chooses."""


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class Circumstances:
    """What a run brings along and a store does not keep."""

    root: Agent[Any] | Team
    config: RunConfig
    context: Any = None
    hooks: RunHooks[Any] | None = None
    live: bool = False
    left_as: SessionStatus = "idle"
    """What the session is when the run is cancelled: `ready` if others are to go on with it."""

    drives: bool = True
    """Whether whoever runs the session also runs those whom it asks; else others do."""
    serves: Container[str] | None = None
    """The agents that may be run here; a session that another one gets is left for others.
    `None`: all of them."""
    is_reachable: bool = True
    """Whether others can know of the session, and want something of it while it runs."""
    show: Callable[[Event | ModelDelta], None] | None = None
    """Shown what happens here: whoever watches the run that asked this one, however deep."""
    to: str | None = None
    """Whom a new message goes to: an agent's name, or `AUTO`; `None`: who has the session."""
    route_options: Mapping[str, Any] | None = None
    """Of this one message, for the router."""
    keeps_limits: bool = True
    """Whether limits that were stored with the run hold; else those of `config` alone."""
    is_polite: bool = False
    """Whether a message waits, or is refused with `SessionBusy`, while the session has work that
    nobody has taken up yet; else that is broken off, as what waits for people is."""
    along: Callable[[int], DocumentWrite] | None = None
    """What is stored together with the message, made of the number of its run: if that is refused,
    so is the message."""
    handed_over: Callable[[str, int], None] | None = None
    """Told the id of a handoff that a program asked for and the number of its run, when that is
    worked on here."""

    @property
    def team(self) -> Team:
        """Everybody who may get the conversation."""
        if isinstance(self.root, Agent):
            self.root = Team(self.root)
        return self.root

    def check_addressee(self) -> None:
        """`UnknownAgent` or `UserError` if nobody is there whom `to` names."""
        if self.to == AUTO:
            if self.team.router is None:
                raise UserError(
                    "nobody routes in this team: give it a router, as in Team(router.agent, …), "
                    "or name an agent"
                )
        elif self.to is not None:
            self.find(self.to)

    def is_served(self, agent: Agent[Any]) -> bool:
        """Whether the agent may be run here."""
        return self.serves is None or agent.name in self.serves

    @property
    def entry(self) -> Agent[Any]:
        """Who gets a new conversation."""
        return self.root.entry if isinstance(self.root, Team) else self.root

    def find(self, name: str) -> Agent[Any]:
        """A member of the team; `UnknownAgent`."""
        if isinstance(self.root, Agent) and self.root.name == name:
            return self.root
        return self.team[name]
