"""Any life of any items, against a model: nothing is lost, and nothing happens twice."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from ekiden.core.errors.messages import InboxAnswerInvalid, InboxItemClosed
from ekiden.core.questions import EscalationStep, InboxItem
from ekiden.inbox import Inbox, InboxQuery, run_due
from ekiden.inbox.items import next_due_us
from ekiden.storage.base import NewSession
from ekiden.storage.memory import MemoryStore
from ekiden.testing.steps import ManualClock
from tests.support.examples import examples
from tests.unit.inbox.conftest import question

T = TypeVar("T")
SECONDS = st.integers(1, 9)
"""So few that things often come due at the same time."""
LONGER = st.integers(1, 40)
PEOPLE = st.sampled_from(["Anna", "佐藤", "Bob 👷"])


@dataclass(slots=True, kw_only=True)
class Expected:
    """What an item is to be."""

    created: int
    deadline: int | None
    default: str | None
    steps: list[tuple[str, int]]
    """Roles, with the second in which each is asked."""
    status: str = "open"
    choice: str | None = None
    by: str | None = None
    closed: int | None = None
    """Its last second."""
    hidden_since: int = 0
    hidden_until: int | None = None

    def tick(self, now: int) -> None:
        """Time passed."""
        if self.status == "open" and self.deadline is not None and self.deadline <= now:
            self.closed = self.deadline - 1
            self.status = "expired"
            self.choice, self.by = self.default, "nobody"

    def role(self, now: int) -> str:
        """Who is asked, or was when it was closed."""
        end = now if self.closed is None else self.closed
        return next((role for role, at in reversed(self.steps) if at <= end), "operator")

    def is_hidden(self, now: int) -> bool:
        """Whether it is snoozed."""
        if self.hidden_until is None:
            return False
        return now < self.hidden_until and not any(
            self.hidden_since < at <= now for _, at in self.steps
        )


class Life(RuleBasedStateMachine):
    """Posts, answers, hides, waits, and compares."""

    items = Bundle("items")

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.Runner()
        self.clock = ManualClock()
        self.store = MemoryStore(self.clock)
        self.inbox = Inbox(self.store)
        self.expected: dict[str, Expected] = {}
        self.begin_us = self.run(self.store.now_us())
        self.now = 0

    def teardown(self) -> None:
        self.loop.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run(work)

    @rule(
        target=items,
        deadline_s=st.none() | SECONDS | LONGER,
        default=st.sampled_from([None, "yes", "no"]),
        steps=st.lists(SECONDS, max_size=3),
        priority=st.integers(1, 4),
    )
    def post(
        self, deadline_s: int | None, default: str | None, steps: list[int], priority: int
    ) -> str:
        number = len(self.expected)
        chain = tuple(
            EscalationStep(role=f"role {n}", after_s=after) for n, after in enumerate(steps)
        )
        created_us = self.begin_us + self.now * 1_000_000
        self.run(self.store.create(NewSession(id=f"s{number}", agent="a", status="waiting")))
        item = question(
            id=f"i{number}",
            session_id=f"s{number}",
            default=default,
            priority=priority,
            chain=chain,
            created_at_us=created_us,
            deadline_us=None if deadline_s is None else created_us + deadline_s * 1_000_000,
        )
        self.run(self.inbox.post(item))
        self.expected[item.id] = Expected(
            created=self.now,
            deadline=None if deadline_s is None else self.now + deadline_s,
            default=default,
            steps=[(f"role {n}", self.now + sum(steps[: n + 1])) for n in range(len(steps))],
        )
        return item.id

    def change(self, item_id: str, work: Coroutine[Any, Any, InboxItem]) -> bool:
        """Try it; whether it was possible, which must be as expected."""
        expected = self.expected[item_id]
        expected.tick(self.now)
        found = "open"
        try:
            self.run(work)
        except InboxItemClosed as exc:
            found = exc.status
        assert found == expected.status
        return found == "open"

    @rule(item_id=items, choice=st.sampled_from(["yes", "NO"]), by=PEOPLE)
    def answer(self, item_id: str, choice: str, by: str) -> None:
        if self.change(item_id, self.inbox.answer(item_id, choice=choice, by=by)):
            expected = self.expected[item_id]
            expected.status, expected.choice, expected.by = "answered", choice.lower(), by
            expected.closed = self.now

    @rule(item_id=items, by=PEOPLE)
    def cancel(self, item_id: str, by: str) -> None:
        if self.change(item_id, self.inbox.cancel(item_id, by=by)):
            self.expected[item_id].status = "cancelled"
            self.expected[item_id].closed = self.now

    @rule(item_id=items, to=PEOPLE | st.none())
    def assign(self, item_id: str, to: str | None) -> None:
        self.change(item_id, self.inbox.assign(item_id, to, by="Anna"))

    @rule(item_id=items, seconds=LONGER)
    def snooze(self, item_id: str, seconds: int) -> None:
        expected = self.expected[item_id]
        until = self.now + seconds
        until_us = self.begin_us + until * 1_000_000
        try:
            done = self.change(item_id, self.inbox.snooze(item_id, until_us=until_us, by="Anna"))
        except InboxAnswerInvalid:
            assert expected.deadline is not None
            assert until >= expected.deadline
            return
        if done:
            expected.hidden_until, expected.hidden_since = until, self.now

    @rule(seconds=SECONDS, then=st.sampled_from(["nothing", "timers", "list"]))
    def wait(self, seconds: int, then: str) -> None:
        self.clock.advance(seconds)
        self.now += seconds
        if then == "timers":
            self.run(run_due(self.store, now_us=self.run(self.store.now_us())))
        elif then == "list":
            self.listed()

    def listed(self) -> None:
        """What is listed is what is open and not hidden, in order."""
        page = self.run(self.inbox.list(limit=1000))
        for expected in self.expected.values():
            expected.tick(self.now)
        assert {item.id for item in page.items} == {
            item_id
            for item_id, expected in self.expected.items()
            if expected.status == "open" and not expected.is_hidden(self.now)
        }
        places = [(-item.priority, -item.created_at_us, item.id) for item in page.items]
        assert places == sorted(places)
        everything = self.run(self.inbox.list(InboxQuery(status="any", snoozed=True), limit=1000))
        assert {item.id for item in everything.items} == set(self.expected)

    @rule(item_id=items)
    def got(self, item_id: str) -> None:
        item, expected = self.run(self.inbox.get(item_id)), self.expected[item_id]
        expected.tick(self.now)
        assert item.status == expected.status
        assert item.role == expected.role(self.now)
        if item.status == "answered":
            assert item.answer is not None
            assert (item.answer.choice, item.answer.by) == (expected.choice, expected.by)

    @invariant()
    def every_item_is_in_one_place_with_its_timer_and_its_session_woken_at_its_end(self) -> None:
        self.run(self._stored())

    async def _stored(self) -> None:
        bodies = {}
        for collection in ("inbox.open", "inbox.done", "inbox.order", "timers"):
            documents = await self.store.list_documents(collection, limit=1000)
            bodies[collection] = {each.key: each.body for each in documents}
        opened, done = bodies["inbox.open"], bodies["inbox.done"]
        assert not opened.keys() & done.keys()
        assert opened.keys() | done.keys() == self.expected.keys()
        ordered = {body["id"]: body for body in bodies["inbox.order"].values()}
        assert ordered == opened | done
        assert len(bodies["inbox.order"]) == len(ordered)
        due = {body["id"]: next_due_us(InboxItem.from_json(body)) for body in opened.values()}
        timers = [key.split("/") for key in bodies["timers"]]
        assert {about: int(at) for at, _, about in timers} == {
            item_id: at for item_id, at in due.items() if at is not None
        }
        for number in range(len(self.expected)):
            row = await self.store.get(f"s{number}")
            assert row.wakes == (f"i{number}" in done)


Life.TestCase.settings = settings(max_examples=examples(40), stateful_step_count=30, deadline=None)
TestLife = Life.TestCase
