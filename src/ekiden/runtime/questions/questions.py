"""Questions and notices of a run to agents and to people. Each of them is stored once, like its
answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from ekiden.core.conversation.messages import (
    AgentMessage,
    GroupMode,
    Letter,
    agent_queue,
    error_of,
    timeout_of,
    wait_node,
)
from ekiden.core.errors import UserError
from ekiden.core.errors.messages import (
    AgentUnavailableError,
    BusError,
    InboxItemClosed,
    MailboxFull,
)
from ekiden.core.questions import DEFAULT_ROLE, ApprovalRequest, Ask, InboxAnswer, InboxItem
from ekiden.core.values import dumps, new_id, priority_number
from ekiden.runtime.questions.cancel_question import REPLACED, withdraw_item, withdraw_query
from ekiden.runtime.questions.sessions import QUERY_TIMER, notice_session, question_session
from ekiden.runtime.state.cursor import OpenQuestion
from ekiden.runtime.state.journal import OF, Journal, Place, digest_of, replaced
from ekiden.runtime.state.state import RunState
from ekiden.runtime.state.variables import check_variable
from ekiden.storage.base import (
    DocumentWrite,
    MessageFilter,
    QueuePut,
    QueueStore,
    SessionOpening,
    Store,
)
from ekiden.storage.records import NORMAL
from ekiden.storage.timers import Timer, timer_write

if TYPE_CHECKING:
    from ekiden.inbox import Inbox


class Suspended(BaseException):
    """Raised to leave code that waits for an answer. The code runs again when the answer comes.

    This class is no `Exception`, so that user code with ``except Exception`` does not catch it.
    """


def is_suspended(exc: BaseException) -> bool:
    """Whether `exc` only means that code waits. A task group wraps `Suspended` in an exception
    group."""
    if isinstance(exc, BaseExceptionGroup):
        _, others = exc.split(Suspended)
        return others is None
    return isinstance(exc, Suspended)


FOR_EVER_S = 3.2e9
"""The lease of a question in the mailbox. Only the session that was opened for the question may
answer it."""


class CodeQuestions:
    """The questions of one piece of code, which its journal identifies."""

    __slots__ = ("_in_progress", "_run", "_step", "_task", "journal")

    def __init__(
        self,
        run: RunState,
        step: str,
        *,
        task: str | None = None,
        in_progress: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        """`in_progress` is a context that is open while a question is prepared. The code is
        suspended only after it is closed, so that concurrent questions are asked in one commit."""
        self._run = run
        self.journal = Journal(run, step)
        self._step = step
        self._task = task or run.task_id
        """The task of the asked agents. It is a node of the wait-for graph."""
        self._in_progress = in_progress

    async def ask(self, questions: Sequence[Ask], *, mode: GroupMode) -> list[tuple[str, Any]]:
        """Return the stored answers. Raises `Suspended` while an answer is missing."""
        if not questions:
            raise UserError("nothing was asked: the list of questions is empty")
        most = self._run.config.bus.max_payload
        for question in questions:
            _check_payload(question, most)
        positions = [self.journal.position("ask") for _ in questions]
        asked = list(zip(positions, questions, strict=True))
        with self._in_progress():
            places = [await self._place_of(*each) for each in asked]
            if mode == "any" and not all(place.is_known for place in places):
                answer = self._good_answer(places, questions)
                if answer is not None:
                    return [answer]
                # Questions that an unused answer had withdrawn are asked again.
                places = [await self._place_of(*each, anew=True) for each in asked]
            group = f"{self._run.session_id}:{positions[0]}" if mode == "any" else None
            await self._stage(places, questions, group, mode)
        keys = [place.key for place in places]
        if mode == "any":
            return [self._first(keys, questions)]
        return self._all(keys, questions)

    async def _place_of(self, position: str, question: Ask, *, anew: bool = False) -> Place:
        known = {}
        for key in self.journal.has_no_digest(position):
            before = await self._asked_before(key, question)
            if before is not None:
                known[key] = _digest_of_ask(before)
        memo, of = self._run.memo, _digest_of_ask(question)
        place = self.journal.find(position, of, known=known)
        while anew and place.is_known and memo.get(place.key, {}).get("state") == "cancelled":
            place = self.journal.find(position, of, known=known, but=(*place.earlier, place.key))
        if not place.is_known:
            await self.journal.limit_changes(place, f"asked {question.agent!r}")
        return place

    async def _asked_before(self, key: str, question: Ask) -> Ask | None:
        """The question that was stored under this key, from its message; `None` if there is none.
        The message has no budget and no words, so these count as equal."""
        found = await self._run.store.find_messages(
            MessageFilter(keys=[_id_of(self._run, key)]), limit=1
        )
        if not found:
            return None
        message = Letter.from_json(found[0].body).message
        return replace(
            question,
            agent=message.to_agent or "",
            subject=message.subject,
            payload=message.payload,
        )

    async def tell(self, note: Ask, *, ttl_s: float | None) -> None:
        """Send a notice with the next commit, unless it was sent before a restart."""
        run = self._run
        _check_payload(note, self._run.config.bus.max_payload)
        position = self.journal.position("tell")
        of = digest_of("tell", note.agent, note.subject, note.payload)
        # Older data has no digests of notices.
        place = self.journal.find(
            position, of, known=dict.fromkeys(self.journal.has_no_digest(position), of)
        )
        if place.is_known:
            return
        await self.journal.limit_changes(place, f"told {note.agent!r}")
        self._check_depth(note.agent)
        message = self._message("notify", note, ttl_s=ttl_s)
        opening, letter = None, None
        if note.agent in run.team:
            opening = notice_session(run, message)
        else:
            await self._check_room(note.agent)
            letter = QueuePut(
                queue=agent_queue(note.agent),
                key=message.id,
                body=Letter(message=message).to_json(),
                priority=message.priority,
                ttl_s=ttl_s,
            )
        run.put_message(partial(self._send, place, of, message, opening, letter))

    def _send(
        self,
        place: Place,
        of: str,
        message: AgentMessage,
        opening: SessionOpening | None,
        letter: QueuePut | None,
    ) -> None:
        run = self._run
        if opening is not None:
            run.side_writes.openings.append(opening)
            run.children.notified = list(
                dict.fromkeys((*(run.children.notified or ()), opening.new.id))
            )
        if letter is not None:
            run.side_writes.messages.append(letter)
        details: dict[str, Any] = {
            "id": message.id,
            "to": message.to_agent,
            "subject": message.subject,
        }
        if opening is not None:
            details["session"] = opening.new.id
        if place.earlier:
            details["changed"] = True
        run.record("message", details={"tells": details})
        run.remember(place.key, {OF: of})

    async def request_approval(self, request: ApprovalRequest) -> InboxAnswer:
        """Return a person's decision. Raises `Suspended` until a person has decided."""
        run = self._run
        check_variable("the context of a question to people", request.context)
        position = self.journal.position("approval")
        of = _digest_of_request(request)
        known = {}
        for key in self.journal.has_no_digest(position):
            before = await read_item(run.store, _id_of(run, key))
            if before is not None:
                known[key] = _digest_of_request(before)
        place = self.journal.find(position, of, known=known)
        if not place.is_known:
            await self.journal.limit_changes(place, "asked people")
            with self._in_progress():
                await self._replace(place)
                now_us = await run.store.now_us()
            item = InboxItem(
                kind="approval",
                from_agent=run.agent.name,
                subject=request.subject,
                body=request.body,
                options=request.options,
                context=request.context,
                priority=own_priority(run, priority_number(request.priority)),
                created_at_us=now_us,
                deadline_us=deadline(now_us, request.deadline_s),
                default=request.default,
                role=request.role or DEFAULT_ROLE,
                session_id=run.session_id,
            )
            post(run, place.key, item, of=of)
        return decided(run, place.key)

    def value(self, name: str, new: Callable[[], Any]) -> Any:
        """See `AskScope`."""
        run, position = self._run, self.journal.position("value")
        place = self.journal.find(position, name)
        if place.is_known:
            return run.memo[place.key]["value"]
        value = new()
        run.remember(place.key, {OF: name, "value": value})
        return value

    def now_us(self) -> int:
        """See `AskScope`."""
        now_us: int = self.value("now", self._run.config.clock.now_us)
        return now_us

    async def sleep(self, seconds: float) -> None:
        """Wait with the session suspended. Raises `Suspended` until the time is over."""
        run, position = self._run, self.journal.position("sleep")
        of = digest_of("sleep", seconds)
        place = self.journal.find(position, of)
        if not place.is_known:
            await self.journal.limit_changes(place, "slept")
            with self._in_progress():
                await self._replace(place)
                now_us = await run.store.now_us()
            run.put_question(place.key, partial(pause, run, place.key, seconds, now_us, of))
        if place.key not in run.memo:
            raise Suspended

    async def _replace(self, place: Place) -> None:
        """Withdraw the open questions that the code asked at this position before.

        If a person has answered meanwhile, the answer is collected and kept, but not used.
        """
        run = self._run
        for key in place.earlier:
            question = run.cursor.questions.open.get(key)
            if question is None:
                continue
            if question.kind == "inbox":
                by = run.agent.name
                if await withdraw_item(run.store, question, by, REPLACED) == "answered":
                    continue
                withdraw = None
            else:
                withdraw = withdraw_query
            run.put_question(key, partial(self._put_replaced, key, question, withdraw))

    def _put_replaced(
        self,
        key: str,
        question: OpenQuestion,
        withdraw: Callable[[RunState, OpenQuestion], None] | None,
    ) -> None:
        run = self._run
        if withdraw is not None:
            withdraw(run, question)
            about = {"id": question.id, "from": question.recipient, "state": "cancelled"}
            run.record("message", details={"answer": {**about, "reason": REPLACED}})
        else:
            about = {"item": question.id, "status": "cancelled", "by": run.agent.name}
            run.record("inbox", details={**about, "kind": "approval", "reason": REPLACED})
        entry = {"id": question.id, "who": question.recipient, "by": run.agent.name}
        run.remember(key, replaced({**entry, "state": "cancelled", "answer": None}))
        run.cursor.questions.open.pop(key, None)

    async def follow(self, items: Sequence[str]) -> None:
        """Wait until one of these inbox items, which another session posted, is closed.

        Raises `Suspended` until then. This adds no item to the inbox, so people see each item once.
        """
        run = self._run
        keys = {f"{self._step}.q.{item}": item for item in items}
        for key, item in keys.items():
            if key not in run.memo and key not in run.cursor.questions.open:
                run.put_question(key, partial(self._follow, key, item))
        if not all(key in run.memo for key in keys):
            raise Suspended

    def _follow(self, key: str, item: str) -> None:
        run = self._run
        run.cursor.questions.open[key] = OpenQuestion("inbox", item, run.config.operator)

    async def _stage(
        self,
        places: Sequence[Place],
        questions: Sequence[Ask],
        group: str | None,
        mode: GroupMode,
    ) -> None:
        """Prepare the questions that are new."""
        run = self._run
        fresh = [
            (place, question)
            for place, question in zip(places, questions, strict=True)
            if not place.is_known
        ]
        if not fresh:
            return
        nodes = [await self._node(question.agent) for _, question in fresh]
        now_us = await run.store.now_us()
        together = None if group is None else (group, mode)
        for (place, question), node in zip(fresh, nodes, strict=True):
            await self._replace(place)
            put = partial(self._post, place.key, question, node, together, now_us)
            run.put_question(place.key, put)

    def check(self, question: Ask) -> None:
        """Raise `UserError` or `BusError` if the question cannot be asked."""
        _check_payload(question, self._run.config.bus.max_payload)
        self._check_depth(question.agent)

    def put(self, key: str, question: Ask, *, now_us: int) -> None:
        """Ask an agent of the team. The question is stored in the commit that suspends the step."""
        self._post(key, question, wait_node(question.agent, self._task), None, now_us)

    def _post(
        self,
        key: str,
        question: Ask,
        node: str,
        group: tuple[str, GroupMode] | None,
        now_us: int,
    ) -> None:
        run = self._run
        message = self._message("query", question)
        letter = Letter(message=message, awaits=node, group=group)
        child = None
        if question.agent in run.team:
            opening = question_session(run, message, question)
            run.side_writes.openings.append(opening)
            child = opening.new.id
        run.side_writes.messages.append(
            QueuePut(
                queue=agent_queue(question.agent),
                key=message.id,
                body=letter.to_json(),
                priority=message.priority,
                waiter=wait_node(run.agent.name, run.task_id),
                session_id=run.session_id,
                taken_by=None if child is None else f"session:{child}",
                lease_s=FOR_EVER_S,
            )
        )
        due_us = now_us + int(question.timeout_s * 1e6)
        run.write(timer_write(Timer(due_us=due_us, kind=QUERY_TIMER, id=message.id)))
        run.cursor.questions.open[key] = OpenQuestion(
            "query",
            message.id,
            question.agent,
            child,
            None if group is None else group[0],
            due_us,
            round(run.spent_s(), 6),
            of=_digest_of_ask(question),
        )
        details = {"id": message.id, "to": question.agent, "subject": question.subject}
        if child is not None:
            details["session"] = child
        run.record("message", details={"asks": details})

    async def _node(self, agent: str) -> str:
        """The node of the asked agent in the wait-for graph. Raises `AgentUnavailableError` if no
        process serves the agent."""
        run = self._run
        self._check_depth(agent)
        if agent in run.team:
            return wait_node(agent, self._task)
        from ekiden.bus.presence import Presence, alone

        servers = await Presence(run.store, "", 1.0).servers(agent)
        if not servers:
            raise AgentUnavailableError(agent, asker=run.agent.name)
        await self._check_room(agent)
        return wait_node(agent, None if alone(servers) else run.task_id)

    def _check_depth(self, agent: str) -> None:
        """Raise `BusError` for a too long chain of messages, so that agents cannot ask each other
        for ever."""
        run = self._run
        depth, limit = int(run.meta.get("ask_depth", 0)), run.config.limits.depth
        if limit is not None and depth >= limit:
            raise BusError(
                f"{run.agent.name!r} cannot ask or tell {agent!r}: {depth} messages led here, "
                "one after the other, and `Limits.depth` allows no more; answer with what is "
                "known"
            )

    async def _check_room(self, agent: str) -> None:
        """Raise `MailboxFull` if an agent outside of the team does not take its messages."""
        bound = self._run.config.bus.mailbox_bound
        if await self._run.store.queue_depth(agent_queue(agent)) >= bound:
            raise MailboxFull(agent, bound)

    def _message(
        self, type: Literal["query", "notify"], question: Ask, *, ttl_s: float | None = None
    ) -> AgentMessage:
        run = self._run
        return AgentMessage(
            id=new_id("msg"),
            type=type,
            from_agent=run.agent.name,
            to_agent=question.agent,
            subject=question.subject,
            payload=question.payload,
            priority=priority_number(question.priority),
            correlation_id=run.correlation_id,
            timeout_seconds=question.timeout_s,
            ttl=ttl_s,
            created_at=run.config.clock.now_us() / 1e6,
            task=self._task,
            depth=int(run.meta.get("ask_depth", 0)) + 1,
        )

    def _all(self, keys: Sequence[str], questions: Sequence[Ask]) -> list[tuple[str, Any]]:
        memo = self._run.memo
        if any(key not in memo for key in keys):
            raise Suspended
        return [
            (question.agent, _answer(memo[key], question))
            for key, question in zip(keys, questions, strict=True)
        ]

    def _good_answer(
        self, places: Sequence[Place], questions: Sequence[Ask]
    ) -> tuple[str, Any] | None:
        for place, question in zip(places, questions, strict=True):
            stored = self._run.memo.get(place.key) if place.is_known else None
            if stored is not None and stored["state"] != "cancelled":
                with suppress(BusError):
                    return question.agent, _answer(stored, question)
        return None

    def _first(self, keys: Sequence[str], questions: Sequence[Ask]) -> tuple[str, Any]:
        failure: Exception | None = None
        for key, question in zip(keys, questions, strict=True):
            stored = self._run.memo.get(key)
            if stored is None:
                continue
            try:
                return question.agent, _answer(stored, question)
            except BusError as exc:
                failure = exc
        if failure is None or any(key in self._run.cursor.questions.open for key in keys):
            raise Suspended
        raise failure


def _check_payload(question: Ask, most: int) -> None:
    """Raise `UserError` for a payload that is not JSON or too large."""
    check_variable(f"what {question.agent} is asked or told", question.payload)
    size = len(dumps(question.payload).encode("utf-8", "surrogatepass"))
    if size > most:
        raise UserError(
            f"the message to {question.agent} has {size} bytes, and the maximum is {most}: "
            "store the content, and send its address"
        )


def _digest_of_ask(question: Ask) -> str:
    """Everything that the other agent sees, and that limits its answer."""
    budget = question.budget
    limits = None if budget is None else [budget.tokens, budget.seconds, budget.money]
    passed = (question.payload, limits, question.max_turns, question.words)
    return digest_of("ask", question.agent, question.subject, *passed)


def _digest_of_request(request: ApprovalRequest | InboxItem) -> str:
    """Everything that people see, except for the time that they have."""
    passed = (request.context, request.body, request.role or DEFAULT_ROLE, request.default)
    return digest_of("approval", request.subject, list(request.options), *passed)


def _id_of(run: RunState, key: str) -> str:
    """The id of the message or of the inbox item of a stored question."""
    question = run.cursor.questions.open.get(key)
    return str(run.memo[key]["id"]) if question is None else question.id


def _answer(stored: Mapping[str, Any], question: Ask) -> Any:
    """The payload of a stored answer, or its error as an exception."""
    asked = AgentMessage(
        id=stored["id"],
        type="query",
        from_agent=stored["by"],
        to_agent=question.agent,
        subject=question.subject,
        timeout_seconds=question.timeout_s,
    )
    if stored["state"] == "timed_out":
        raise timeout_of(asked)
    answer = stored["answer"] or {"error": f"the question was {stored['state']}"}
    error = error_of(answer, asked)
    if error is not None:
        raise error
    return answer.get("payload")


def own_priority(run: RunState, priority: int) -> int:
    """The priority of a question. The default is the priority of the session."""
    return run.priority if priority == NORMAL else priority


def deadline(now_us: int, seconds: float | None) -> int | None:
    """The time after this many seconds; `None` without a limit."""
    return None if seconds is None else now_us + int(seconds * 1e6)


def post(run: RunState, key: str, item: InboxItem, *, of: str | None = None) -> None:
    """Ask people with the next commit. The step with this `key` gets their answer. `of` is the
    digest of the command that asks."""
    if not run.is_reachable:
        raise UserError(
            "a question to people cannot be answered: this run is kept in memory only; give it "
            "a session in a store, Session(id, store=…)"
        )
    writes = item_writes(run, item)

    def put() -> None:
        for document in writes:
            run.write(document)
        role = run.config.operator if item.role == DEFAULT_ROLE else item.role
        run.cursor.questions.open[key] = OpenQuestion("inbox", item.id, role, of=of)
        run.record("inbox", details={**posted_details(item), "role": role})

    run.put_question(key, put)


def posted_details(item: InboxItem) -> dict[str, Any]:
    """The details of the event of a new item."""
    details: dict[str, Any] = {
        "change": "posted",
        "kind": item.kind,
        "item": item.id,
        "role": item.role,
        "from": item.from_agent,
        "subject": item.subject,
    }
    if item.options:
        details["options"] = list(item.options)
    if item.tool is not None:
        details["tool"] = item.tool
    return details


def decided(run: RunState, key: str) -> InboxAnswer:
    """Return the stored answer of a person. Raises `Suspended` while there is no answer, and
    `InboxItemClosed` if the item was closed without an answer."""
    stored = run.memo.get(key)
    if stored is None:
        raise Suspended
    if stored["answer"] is None:
        closed = stored.get("closed", {})
        raise InboxItemClosed(stored["id"], status=stored["state"], **closed)
    return InboxAnswer(**stored["answer"])


PAUSES = "pauses"
"""The queue of pauses. A pause is a message that no process answers."""


def pause(run: RunState, key: str, seconds: float, now_us: int, of: str | None = None) -> None:
    """Begin a pause with the next commit. The step with this `key` gets its result after these
    seconds.

    A pause is a query that no process answers, so it always ends with its timeout.
    """
    message = AgentMessage(
        id=new_id("msg"),
        type="query",
        from_agent=run.agent.name,
        to_agent=PAUSES,
        subject="a pause",
        timeout_seconds=max(seconds, 0.001),
        created_at=run.config.clock.now_us() / 1e6,
    )
    due_us = now_us + int(seconds * 1e6)
    run.side_writes.messages.append(
        QueuePut(
            queue=PAUSES,
            key=message.id,
            body=Letter(message=message).to_json(),
            session_id=run.session_id,
        )
    )
    run.write(timer_write(Timer(due_us=due_us, kind=QUERY_TIMER, id=message.id)))
    run.cursor.questions.open[key] = OpenQuestion(
        "query", message.id, PAUSES, due_us=due_us, at_s=round(run.spent_s(), 6), of=of
    )


async def pauses(store: QueueStore) -> bool:
    """Whether a session pauses. Such a session continues by itself."""
    return await store.queue_depth(PAUSES) > 0


# The inbox as runs use it: new items are stored with the steps of the run.

SEEN = "seen"
"""The answer to an item that only informs people."""
_OWN_FIELDS = ("kind", "from", "subject", "reason", "role")
_MAX_SUBJECT = 500


def inbox_of(run: RunState) -> Inbox:
    """The inbox of the run's store, with the run's settings."""
    from ekiden.inbox import Inbox, InboxSettings

    settings = InboxSettings(role=run.config.operator, escalation=tuple(run.config.escalation))
    return Inbox(run.store, settings=settings)


def item_writes(run: RunState, item: InboxItem) -> list[DocumentWrite]:
    """The writes of a new item, for the commit of a step."""
    about = replace(item, task_id=run.task_id, correlation_id=run.correlation_id)
    return inbox_of(run).item_writes(about)


async def tell_people(run: RunState, case: dict[str, Any]) -> None:
    """Inform people with an item that no run waits for. The caller commits the item.

    `case` has the item's kind, sender and subject, and further details for the event.
    """
    if run.is_reachable:
        context = {name: value for name, value in case.items() if name not in _OWN_FIELDS}
        item = InboxItem(
            kind=case["kind"],
            from_agent=case["from"] or run.agent.name,
            subject=case["subject"][:_MAX_SUBJECT],
            body=case.get("reason", ""),
            options=(SEEN,),
            context={**context, "session": run.session_id},
            priority=run.priority,
            created_at_us=await run.store.now_us(),
            role=case.get("role") or DEFAULT_ROLE,
            notice=True,
        )
        for document in item_writes(run, item):
            run.write(document)
        case["item"] = item.id
    run.record("inbox", details=case)


async def read_item(store: Store, item_id: str) -> InboxItem | None:
    """The current item; `None` if it does not exist."""
    from ekiden.core.errors.messages import InboxItemNotFound
    from ekiden.inbox import Inbox

    try:
        return await Inbox(store).get(item_id)
    except InboxItemNotFound:
        return None
