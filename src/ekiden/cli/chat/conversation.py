"""A chat's state: the team, the session and its messages."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ekiden.cli.chat.screens.screen import CommandReply, Screen, told
from ekiden.cli.chat.typed.reader import Interrupts, Reader, Status
from ekiden.cli.exits import Exit
from ekiden.cli.projects import title_of
from ekiden.core.errors import EkidenError, SessionNotFound

if TYPE_CHECKING:
    from ekiden.cli.chat.roster import Roster
    from ekiden.cli.chat.turns import Start
    from ekiden.core.events import Event
    from ekiden.core.questions import InboxItem
    from ekiden.project.routing import AddressedMessage
    from ekiden.runtime import RunConfig
    from ekiden.sessions import Session
    from ekiden.storage.base import SessionRow, Store

AUTO = "auto"
"""The address of a message that is routed."""

_UNFINISHED = frozenset({None, "failed", "out_of_budget"})
"""Outcomes that `/resume` can continue from; `None` is an interrupted run."""


@dataclass(slots=True, kw_only=True, eq=False)
class Chat:
    """One person talking with one team, in one session at a time."""

    roster: Roster
    store: Store
    screen: Screen
    reader: Reader
    interrupts: Interrupts
    config: RunConfig
    session: Session
    row: SessionRow | None = None
    """The session as last stored; `None` if it has no messages."""
    is_over: bool = False
    live: bool = True
    """Whether answers are streamed."""

    @property
    def active(self) -> str:
        """The agent that gets the next message; ``auto`` when the router chooses."""
        team = self.roster.team
        name = team.entry.name if self.row is None else self.row.agent
        if name not in team:
            return name if team.router is None else AUTO
        return AUTO if team[name].traits.is_router else name

    @property
    def user(self) -> str | None:
        """The user of the chat; only sessions of that user are reachable. `None`: all are."""
        return self.roster.project.settings.user

    async def check_owner(self, session_id: str) -> None:
        """`UsageError` if the session belongs to another user."""
        from ekiden.cli.projects import check_owner

        await check_owner(self.store, session_id, self.user)

    @property
    def is_unfinished(self) -> bool:
        """Whether the last turn can be resumed."""
        return self.row is not None and self.row.seq > 0 and self.row.outcome in _UNFINISHED

    @property
    def is_waiting(self) -> bool:
        """Whether the last turn waits for an answer, or can resume after one."""
        row = self.row
        return row is not None and row.outcome == "waiting" and row.status != "idle"

    def status(self) -> Status:
        """For the prompt."""
        details = "/resume continues the stopped turn" if self.is_unfinished else ""
        if self.is_waiting:
            details = "waiting for an answer: /inbox; a new message withdraws the question"
        return Status(agent=self.active, session_id=self.session.session_id, details=details)

    async def questions(self) -> Sequence[InboxItem]:
        """The questions to people that the session waits for."""
        from ekiden.project.runs.stored_runs import questions_to_people

        return await questions_to_people(self.store, self.session.session_id)

    async def waits_for(self) -> str:
        """The people or agents that the session waits for, at the end of the chain."""
        from ekiden.runtime.loop.answer_wait import waiting_reason
        from ekiden.runtime.state.cursor import open_questions

        asked = {} if self.row is None else open_questions(self.row)
        return (await waiting_reason(self.store, asked)).removeprefix("person:")

    async def can_go_on(self) -> bool:
        """Whether the session's wait is over; `False` if that is unknown."""
        from ekiden.runtime.loop.answer_wait import is_ready

        with suppress(EkidenError):
            return self.is_waiting and await is_ready(self.store, self.session.session_id)
        return False

    async def ready(self) -> None:
        """Prepare the team for a turn, and show notes for the person."""
        for line in await self.roster.ready(self.screen.note):
            self.screen.note(line)

    async def send(self, address: AddressedMessage) -> int:
        """Send a message; returns the exit code of the turn."""
        from ekiden.project.runs.tasks import start_run

        if self.row is None:
            self.session.meta.setdefault("title", title_of(address.text))
        team, session = self.roster.team, self.session
        return await self._watch(
            lambda config: start_run(
                team,
                address.text,
                session,
                config=config,
                live=self.live,
                to=address.to,
                strategy=address.strategy,
            )
        )

    async def resume(self) -> int:
        """Resume the last turn, if it was stopped or failed."""
        from ekiden.project.runs.tasks import resume_run

        team, session = self.roster.team, self.session
        return await self._watch(
            lambda config: resume_run(team, session, config=config, live=self.live)
        )

    async def enter(self, session: Session) -> None:
        """Switch to another session, which may be new."""
        self.session = session
        await self.look()

    async def look(self) -> None:
        """Read the session's row again."""
        try:
            self.row = await self.session.row()
        except SessionNotFound:
            self.row = None

    async def events(self) -> Sequence[Event]:
        """All events of the session; none in a new one."""
        return await self.session.events()

    async def _watch(self, start: Start) -> int:
        from ekiden.cli.chat.turns import Turn

        turn = Turn(self.screen, self.interrupts)
        code = await turn.watch(start, self.config)
        await self.look()
        if turn.is_stopped:
            self.screen.reply(self._stopped())
            return Exit.INTERRUPTED
        if code == Exit.WAITING:
            self.screen.reply(await self._waiting())
        return code

    async def _waiting(self) -> CommandReply:
        from ekiden.cli.chat.turns import waiting_reply

        questions, reason = await self.questions(), await self.waits_for()
        return waiting_reply(self.session.session_id, questions, reason)

    def _stopped(self) -> CommandReply:
        if not self.is_unfinished:
            return told("stopped", "stopped; nothing was kept", session_id=self.session.session_id)
        return told(
            "stopped",
            "stopped; /resume continues, or type something else",
            session_id=self.session.session_id,
        )
