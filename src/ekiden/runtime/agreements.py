"""Executes agreements of two agents as handoffs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ekiden.core.agent import Agent, Team
from ekiden.core.conversation.model import user_message
from ekiden.core.errors import (
    LeaseLost,
    SessionBusy,
    SessionNotFound,
    StoreUnavailable,
    UserError,
)
from ekiden.core.handoffs import Actor, HandoffContext, HandoffRequest, HandoffResult
from ekiden.core.values import dumps
from ekiden.handoff.records import HandoffRecord, read_handoffs
from ekiden.handoff.requests import FINAL
from ekiden.runtime.config import RunConfig
from ekiden.runtime.handoffs import HandoffController
from ekiden.runtime.loop.answer_wait import is_ready
from ekiden.runtime.runner import Runner
from ekiden.sessions import Session
from ekiden.storage.base import Store

if TYPE_CHECKING:
    from ekiden.collaboration import Collaboration

_MAX_REASON = 500


class HandoffExecutor:
    """Executes agreements of `Collaborations`: the initiator hands the task to its partner.

    The ``session_id`` in the context of the collaboration names the session of the task. Without a
    ``session_id``, a new session is created. Its id is the id of the collaboration, and its first
    message is the task. The usual checks of handoffs apply: the initiator must have a handoff to
    its partner. One agreement makes one handoff, even if its execution is started several times::

        executor = HandoffExecutor(team, store)
        collaborations = Collaborations(bus, executor=executor)
    """

    def __init__(
        self,
        team: Agent[Any] | Team,
        store: Store,
        *,
        run_config: RunConfig | None = None,
        context: Any = None,
        run: bool = True,
    ) -> None:
        """With ``run=False``, this process does not run the partner. The session becomes `ready`
        for the workers, and the result is checked again later."""
        self._team = team if isinstance(team, Team) else Team(team)
        self._store = store
        self._config = run_config
        self._context = context
        self._run = run
        self._controller = HandoffController(
            self._team, store, run_config=run_config, context=context
        )

    async def execute(self, collaboration: Collaboration) -> HandoffResult:
        """Hand over the agreed work, and return the result.

        If the result is not final, the handoff is still in progress: the target waits for a person
        or an agent, another process runs the target, or the run ended before the handoff. A second
        call continues the session, if this is possible and no process runs it.
        """
        agreed, partner = collaboration.agreed, collaboration.partner
        if agreed is None or partner is None:
            raise UserError(f"collaboration {collaboration.id} has not agreed on anything")
        named = collaboration.context.get("session_id")
        session_id = str(named) if named else collaboration.id
        started = await self._started_handoff(session_id, collaboration.id)
        if started is not None:
            return await self._finish(started)
        by = Actor(kind="program", name=collaboration.id)
        terms = agreed.terms.body
        task = terms["task"] if isinstance(terms, dict) and "task" in terms else dumps(terms)
        reason = f"agreed: {task}"[:_MAX_REASON]
        if named:
            return await self._controller.start(
                session_id, to=partner, reason=reason, context=terms, by=by, run=self._run
            )
        request = HandoffRequest(
            source=collaboration.initiator,
            target=partner,
            context=HandoffContext(
                task_id=session_id,
                conversation_history=[user_message(str(task))],
                context=terms,
                metadata={"correlation_id": collaboration.id},
            ),
            reason=reason,
            by=by,
        )
        return await self._controller.initiate(request, run=self._run)

    async def _started_handoff(self, session_id: str, agreement: str) -> HandoffRecord | None:
        """The handoff of the agreement from an earlier call, for example before a crash."""
        try:
            await self._store.get(session_id)
        except SessionNotFound:
            return None
        for record in await read_handoffs(self._store, session_id):
            if record.by.name == agreement:
                return record
        return None

    async def _finish(self, record: HandoffRecord) -> HandoffResult:
        failure: Exception | None = None
        is_open = self._run and record.status not in FINAL
        if is_open and await is_ready(self._store, record.session_id):
            session = Session(record.session_id, store=self._store)
            try:
                await Runner.resume(
                    self._team, session, context=self._context, run_config=self._config
                )
            except StoreUnavailable:
                raise
            except (SessionBusy, LeaseLost):
                pass  # Another process runs the session and continues the handoff.
            except Exception as exc:
                failure = exc
        record = await self._controller.get(record.id)
        if failure is not None and record.status not in FINAL:
            raise failure
        return record.result()
