"""Defines `HandoffController`, for handoffs by people and programs, and `HandoffExecutor`, which
executes agreements as handoffs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ekiden.core.agent import Agent, Team
from ekiden.core.checks.fields import check_argument
from ekiden.core.conversation.model import Item, read_items, user_message
from ekiden.core.errors import (
    LeaseLost,
    SessionBusy,
    SessionNotFound,
    SessionNotWaiting,
    StoreUnavailable,
    UserError,
)
from ekiden.core.handoffs import (
    A_PERSON,
    A_PROGRAM,
    Actor,
    HandoffContext,
    HandoffRequest,
    HandoffResult,
    PolicyName,
)
from ekiden.core.values import check_id, check_line, dumps, new_id
from ekiden.handoff.records import HandoffRecord, read_handoff, read_handoffs
from ekiden.handoff.requests import FINAL, Asked, asked_in, find_request, session_of
from ekiden.runtime.config import RunConfig, RunOptions
from ekiden.runtime.handoff.requests import (
    actor,
    agent_name,
    capability_names,
    checked_condition,
    earlier_chain,
    one_policy,
    own_metadata,
    plain_json,
    plain_text,
    seconds,
    whole_number,
)
from ekiden.runtime.handoff_requests import HandoffRequestRunner
from ekiden.runtime.kinds.people import answer_as_person, answer_case
from ekiden.runtime.loop.advance import advance
from ekiden.runtime.loop.answer_wait import is_ready
from ekiden.runtime.loop.claim import claimed, resumed_run
from ekiden.runtime.results import RunResult
from ekiden.runtime.runner import Runner
from ekiden.sessions import Session
from ekiden.sessions.state import check_name, checked_value, is_shared_name
from ekiden.storage.base import NewSession, Store

if TYPE_CHECKING:
    from ekiden.collaboration import Collaboration


class HandoffController:
    """Lets a program start, read and cancel handoffs of sessions in a store.

    For example::

        controller = HandoffController(team, store)
        result = await controller.start("customer-42", to="billing", reason="asked for a refund")
        print(result.status, result.error)
    """

    def __init__(
        self,
        team: Agent[Any] | Team,
        store: Store,
        *,
        run_config: RunConfig | None = None,
        context: Any = None,
        options: RunOptions | None = None,
    ) -> None:
        """If `options` are passed, runs use these options instead of `run_config` and `context`."""
        self._team = team if isinstance(team, Team) else Team(team)
        self._store = store
        self._config = run_config or RunConfig()
        self._context = context
        self._given = options

    async def start(
        self,
        session_id: str,
        *,
        to: str | Agent[Any],
        reason: str = "",
        summary: str = "",
        context: Any = None,
        payload: Any = None,
        priority: int = 0,
        metadata: Mapping[str, Any] | None = None,
        policy: PolicyName | None = None,
        timeout_s: float | None = None,
        capabilities: tuple[str, ...] = (),
        by: Actor = A_PROGRAM,
        run: bool = True,
        wait_s: float | None = None,
    ) -> HandoffResult:
        """Hand the session to the agent `to`, and return the result.

        The session's agent must have a handoff to `to`. If no process runs the session, the target
        runs in this process until it answers. With ``run=False``, a worker runs the target. If a
        process already runs the session, that process makes the handoff: after the current step
        (`graceful`), or at once (`immediate`). An `immediate` request interrupts the step only if
        the handoff passes the checks. The call waits up to `timeout_s` seconds for the handoff, and
        the target must confirm the handoff within the same time. Without `timeout_s`, the call
        waits up to 300 seconds, and the policy of the handoff limits the time of the target. If
        another process runs the session, `wait_s` limits the wait for that process. After `wait_s`
        seconds the call returns the status ``initiated``. The request then stays open until it is
        done or cancelled.

        If the handoff has started but has not ended, for example because the run is out of budget,
        the status is `transferring`. The `request_id` of the result is always the id of the
        handoff.

        A refusal is returned as a result, and not raised as an exception. Raises `UserError` for
        invalid arguments, `SessionNotFound`, and `StoreUnavailable`.
        """
        plain_text("session_id", session_id)
        asked = self._request(
            session_id,
            to=to,
            reason=reason,
            summary=summary,
            context=context,
            payload=payload,
            priority=priority,
            metadata=metadata or {},
            policy=policy,
            timeout_s=timeout_s,
            capabilities=capabilities,
            by=by,
        )
        await self._store.open()
        await self._store.get(session_id)
        return await self._request_runner(session_id, asked, wait_s=wait_s).finish(run=run)

    async def initiate(
        self, request: HandoffRequest, *, run: bool = True, wait_s: float | None = None
    ) -> HandoffResult:
        """Hand over the task that `request` describes. The `task_id` in its context is the id of a
        session.

        The handoff appends `request.context.conversation_history` to the conversation, and sets the
        session's variables from `request.context.task_state`. If the handoff is refused or rolled
        back, neither change remains. A task without a session gets a new session, with the source
        as its active agent. The handoff is refused if the source does not exist or does not have
        the task. `request.context.metadata["handoff_chain"]` names agents that had the task in
        another system. They count in the checks for the maximum depth and for cycles. Without
        `request.context.timeout`, the timeout in the policy of the handoff applies. In all other
        respects the call works like `start`. The controller creates the id of the handoff. Pass the
        `request_id` of the result to `get` and `cancel`.
        """
        given = request.context
        source = agent_name("source", request.source)
        task_id = check_id(plain_text("task_id", given.task_id), what="task id")
        asked = self._request(
            task_id,
            source=source,
            to=request.target,
            reason=request.reason or given.reason,
            summary=given.summary,
            context=given.context,
            payload=given.payload,
            priority=given.priority,
            metadata=given.metadata,
            policy=request.policy,
            timeout_s=given.given_timeout,
            capabilities=request.capabilities,
            condition=request.condition,
            by=request.by,
            items=_items(given.conversation_history),
            variables=_own_variables(plain_json("task_state", dict(given.task_state))),
        )
        correlation = given.metadata.get("correlation_id") or task_id
        check_line(correlation, what="`correlation_id`")
        new = NewSession(
            id=task_id,
            agent=source if source in self._team else "",
            meta={"task_id": task_id, "correlation_id": correlation},
        )
        await self._store.open()
        return await self._request_runner(task_id, asked, wait_s=wait_s, new=new).finish(run=run)

    async def get(self, handoff_id: str) -> HandoffRecord:
        """Return the handoff with all its details. Raises `HandoffNotFound` if the store has no
        handoff with this id."""
        await self._store.open()
        return await read_handoff(self._store, handoff_id)

    async def cancel(
        self,
        handoff_id: str,
        *,
        reason: str = "",
        by: Actor = A_PERSON,
        wait_s: float | None = None,
    ) -> HandoffResult:
        """Roll back an unconfirmed handoff, or withdraw a handoff request.

        If later handoffs of the session are also unconfirmed, they are rolled back first. If the
        handoff has already finished, nothing changes, and the result shows its status. With
        `wait_s`, the call waits at most this many seconds for the process that runs the session,
        and then returns the current status. Raises `HandoffNotFound`.
        """
        plain_text("reason", reason)
        by = actor(by)
        await self._store.open()
        request = await find_request(self._store, handoff_id)
        if request is not None:
            asked = asked_in(request)
            runner = self._request_runner(session_of(request), asked, is_left=True)
            result = await runner.withdraw("cancelled", why=reason)
            if result.status in FINAL:
                return result
            handoff_id = result.request_id
        record = await read_handoff(self._store, handoff_id)
        if record.status in FINAL:
            return record.result()
        asked = Asked(
            id=new_id("hrq"),
            cancel=handoff_id,
            reason=reason,
            by=by,
            asked_us=self._config.clock.now_us(),
        )
        await self._request_runner(record.session_id, asked, wait_s=wait_s).finish(run=False)
        return (await read_handoff(self._store, handoff_id)).result()

    async def answer(
        self, session_id: str, text: str, *, by: str, give_back: bool = False
    ) -> RunResult:
        """Answer a session that waits for people, in the name of the person `by`.

        The text becomes the answer of the run. With `give_back`, the agent that handed the
        conversation to people gets the text, and continues. If that agent fails, the outcome
        contains the failure, and no exception is raised. Raises `SessionNotWaiting` if the session
        is not waiting for a person, and `SessionNotFound`. For example::

            result = await controller.answer("customer-42", "We replace it.", by="anna")
        """
        if not text.strip():
            raise UserError("the text of an answer must not be empty")
        await self._store.open()
        options = self._options()
        row = await self._store.get(session_id)
        agent = options.find(row.agent)
        if not agent.traits.is_human or row.status == "idle":
            raise SessionNotWaiting(session_id, agent=agent.name)
        item = await answer_case(self._store, session_id, text, by=by, give_back=give_back)
        claim, row = await claimed(self._store, session_id, self._config)
        async with resumed_run(options, self._store, claim, row) as run:
            if item is None:
                await answer_as_person(run, text, by=by, give_back=give_back)
            async for _ in advance(run):
                pass
        return RunResult(run)

    def _options(self) -> RunOptions:
        if self._given is not None:
            return self._given
        return RunOptions(root=self._team, config=self._config, context=self._context)

    def _request_runner(
        self,
        session_id: str,
        asked: Asked,
        *,
        is_left: bool = False,
        wait_s: float | None = None,
        new: NewSession | None = None,
    ) -> HandoffRequestRunner:
        return HandoffRequestRunner(
            self._options(), self._store, session_id, asked, is_left=is_left, wait_s=wait_s, new=new
        )

    def _request(self, session_id: str, *, metadata: Any, **given: Any) -> Asked:
        """The request for a handoff. Raises `UserError` for invalid arguments."""
        checked = {
            name: _CHECKS[name](name, value) if name in _CHECKS else value
            for name, value in given.items()
        }
        return Asked(
            id=f"{session_id}.{new_id('hrq')}",
            metadata=own_metadata(metadata),
            chain=earlier_chain(metadata),
            asked_us=self._config.clock.now_us(),
            **checked,
        )


_CHECKS: Mapping[str, Callable[[str, Any], Any]] = {
    "to": agent_name,
    "reason": plain_text,
    "summary": plain_text,
    "context": plain_json,
    "payload": plain_json,
    "priority": whole_number,
    "timeout_s": seconds,
    "policy": lambda _, value: one_policy(value),
    "capabilities": lambda _, value: capability_names(value),
    "condition": lambda _, value: checked_condition(value),
    "by": lambda _, value: actor(value),
}
"""The checks of a request's arguments, by name."""


def _items(history: Any) -> tuple[Item, ...]:
    if isinstance(history, str):
        return (user_message(history),)
    what = "conversation_history"
    check_argument(f"`{what}`", Iterable[Any], history)
    return tuple(plain_json(what, read_items(history, what)))


def _own_variables(variables: dict[str, Any]) -> dict[str, Any]:
    """The checked variables of the task. Raises `UserError` for a shared variable: a requester must
    not change the variables of users and apps."""
    for name, value in variables.items():
        check_name(name)
        checked_value(name, value)
        if is_shared_name(name):
            raise UserError(
                f"task_state has {name!r}, which belongs to a user or an app and not to the task: "
                "leave it out"
            )
    return variables


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

        If the result is not final, the handoff is still in progress. The target may wait for a
        person or an agent, another process may run the target, or the run may have ended before the
        handoff. A second call continues the session, if this is possible and no process runs it.
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
