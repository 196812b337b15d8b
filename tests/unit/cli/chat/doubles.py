"""A chat without a terminal: what is read is given, what is shown is kept."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from ekiden.cli.chat.local import LocalChat, Roster, Watcher
from ekiden.cli.chat.loop import ChatLoop
from ekiden.cli.chat.reader import Interrupts
from ekiden.cli.chat.screen import CommandReply, drawn_plain
from ekiden.cli.errors import BadInput
from ekiden.cli.run_observer import Reported
from ekiden.core.agent import Agent, Team
from ekiden.core.conversation.model import ModelDelta
from ekiden.core.events import Event
from ekiden.project.project import Project
from ekiden.project.settings import load_settings
from ekiden.routing import Router
from ekiden.runtime import RunConfig, RunResult
from ekiden.sessions import Session
from ekiden.storage.base import Store
from ekiden.storage.memory import MemoryStore


class GivenInputs:
    """A `Reader` that reads what it was given; a choice is a number, or `None`."""

    def __init__(
        self, inputs: Iterable[str | BadInput] = (), *, choices: Iterable[int | None] | None = None
    ) -> None:
        self.inputs = list(inputs)
        self.choices = None if choices is None else list(choices)
        self.offered: list[tuple[str, list[str], int]] = []

    @property
    def can_choose(self) -> bool:
        return self.choices is not None

    async def begin(self) -> None:
        """Nothing to begin."""

    async def abandon(self) -> None:
        """Nothing was begun."""

    async def read(self) -> str | None:
        if not self.inputs:
            return None
        given = self.inputs.pop(0)
        if isinstance(given, BadInput):
            raise given
        return given

    @asynccontextmanager
    async def aside(self) -> AsyncIterator[None]:
        """Nothing is on a screen."""
        yield

    async def ask(self, question: str) -> str | None:
        return None

    async def choose(self, title: str, options: Sequence[str], *, start: int = 0) -> int | None:
        assert self.choices is not None
        self.offered.append((title, list(options), start))
        return self.choices.pop(0)


class KeptScreen:
    """A `Screen` that keeps everything."""

    def __init__(self) -> None:
        self.shown: list[Event | ModelDelta] = []
        self.results: list[RunResult] = []
        self.replies: list[CommandReply] = []
        self.notes: list[str] = []
        self.errors: list[tuple[str, str]] = []
        self.broken_off = 0

    def show(self, shown: Event | ModelDelta) -> None:
        self.shown.append(shown)

    def show_child(self, event: Event) -> None:
        self.notes.append(f"{event.agent}: {event.type}")

    def end(self, result: Reported) -> None:
        self.results.append(result)

    def break_off(self) -> None:
        self.broken_off += 1

    def reply(self, reply: CommandReply) -> None:
        self.replies.append(reply)

    def note(self, text: str) -> None:
        self.notes.append(text)

    def error(self, code: str, message: str) -> None:
        self.errors.append((code, message))

    @property
    def text(self) -> str:
        """The last reply, as a person reads it."""
        return "".join(drawn_plain(shape) for shape in self.replies[-1].shapes)

    @property
    def outputs(self) -> list[Any]:
        """What the agents answered."""
        return [result.final_output for result in self.results]


def project_of(*agents: Agent[Any], root: Path = Path("/nowhere"), routed: bool = False) -> Project:
    """A project of these agents; `routed` begins with the router, else with the first."""
    router = Router(agents)
    team = Team(*agents, router.agent, entry=router.agent.name if routed else agents[0].name)
    loaded = load_settings(root, home=root / "home")
    return Project(root=root, team=team, router=router, loaded=loaded)


def chat_of(
    *agents: Agent[Any],
    reader: GivenInputs | None = None,
    store: Store | None = None,
    session: str | None = "s",
    project: Project | None = None,
    watcher: Watcher | None = None,
    routed: bool = False,
) -> LocalChat:
    """A chat with these agents, whose screen is a `KeptScreen`."""
    project = project or project_of(*agents, routed=routed)
    kept: Store = MemoryStore() if store is None else store
    return LocalChat(
        roster=Roster(project, load=lambda: project, watcher=watcher),
        store=kept,
        screen=KeptScreen(),
        reader=reader or GivenInputs(),
        interrupts=Interrupts(stops_turns=True),
        config=RunConfig(),
        session=Session(session, store=kept),
    )


def screen_of(chat: LocalChat) -> KeptScreen:
    """What the chat has shown."""
    assert isinstance(chat.screen, KeptScreen)
    return chat.screen


async def talk(chat: LocalChat, *inputs: str | BadInput) -> int:
    """Say these things one after the other, and give the exit code."""
    assert isinstance(chat.reader, GivenInputs)
    chat.reader.inputs.extend(inputs)
    return await ChatLoop(chat).run()
