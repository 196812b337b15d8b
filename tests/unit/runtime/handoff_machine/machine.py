"""The machine: a team, a session, and whatever may happen to them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, ClassVar

from hypothesis import note, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from ekiden.audit import AuditQuery, audit_records, verify_audit
from ekiden.core.errors import HandoffRefused, ModelBehaviorError, UserError
from ekiden.core.handoffs import A_PERSON, A_PROGRAM, HandoffResult
from ekiden.handoff.query import HandoffQuery, find_handoffs
from ekiden.handoff.records import records_of
from ekiden.handoff.requests import REQUESTS
from ekiden.runtime import Runner, RunResult
from ekiden.runtime.handoffs import HandoffController
from ekiden.runtime.state.cursor import Cursor
from ekiden.sessions import Session, conversation
from tests.unit.runtime.handoff_machine.dice import Dice
from tests.unit.runtime.handoff_machine.referee import Referee
from tests.unit.runtime.handoff_machine.stores import Cut, CuttingMemory
from tests.unit.runtime.handoff_machine.teams import BEST, NOBODY, Accent, draw_team
from tests.unit.runtime.handoff_machine.world import ModelAway, Move, Request, World

SESSION = "s"
NOT_ALLOWED = ("may not hand to", "has no tool called")
"""What code is told that wants what it may not."""
FINAL = ("completed", "failed", "rolled_back")


throws = st.binary(min_size=40, max_size=40)
SMALLEST = 8 * 6 * 5 + 32
"""Bytes that every team can be made of."""


class HandoffMachine(RuleBasedStateMachine):
    """Drives one session of one team through the public door.

    After every rule what is stored is held against the referee's own account of it.
    """

    accent: ClassVar[Accent] = Accent()
    steps: ClassVar[int] = 0
    seen: ClassVar[Counter[str]] = Counter()
    """How often handoffs ended how."""
    check_all_every: ClassVar[int] = 8

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.Runner()
        self.count = 0
        self.is_sound = True

    def make_store(self) -> Any:
        """An empty one."""
        return CuttingMemory()

    @initialize(throws=st.binary(min_size=SMALLEST, max_size=SMALLEST))
    def begin(self, throws: bytes) -> None:
        """A team is made, and a person is about to write."""
        self.spec = team = draw_team(Dice(throws), self.accent)
        note(f"{team}")
        self.world = World(spec=team)
        self.store = self.make_store()
        self.session = Session(SESSION, store=self.store)
        self.store.holder = team.names[0]
        self.referee = Referee(team, self.world, team.names[0])
        self.controller = HandoffController(
            self.world.team, self.store, run_config=self.world.config, context=self.world
        )
        self.cursor = Cursor()
        self.script: list[Move] = []
        """Of the run that was begun last."""

    @property
    def has_begun(self) -> bool:
        return self.cursor.progress.run > 0

    @property
    def is_left(self) -> bool:
        return self.has_begun and self.cursor.progress.phase != "end"

    def do(self, work: Callable[[], Awaitable[Any]], dice: Dice) -> Any:
        """Do it, whatever becomes of it, perhaps cut off; then everything must be in order."""
        type(self).steps += 1
        self.count += 1
        self.is_sound = False
        run = self.cursor.progress.run
        cut = max(dice.throw(15) - 6, 0)
        self.store.cut(cut)
        result: Any = None
        try:
            result = self.loop.run(_in_time(work))
        except Cut:
            note(f"   … cut off: {cut}")
        except (ModelAway, ModelBehaviorError, HandoffRefused) as exc:
            note(f"   … {exc!r}")
        except UserError as exc:
            if not any(what in str(exc) for what in NOT_ALLOWED):
                raise
        self.store.cut(0)
        if self.world.asking is not None:
            self.loop.run(self._note_left(self.world.asking))
        self.loop.run(self.check())
        if self.cursor.progress.run == run:
            self.world.script = self.script
        self.script = self.world.script
        self.world.asking = None
        return result

    def change_moods(self, dice: Dice) -> None:
        """Somebody goes or comes back, or changes their mind; mostly not."""
        what, name = dice.throw(9), dice.pick(self.spec.names)
        if what == 6:
            self.world.away ^= {name}
        elif what == 7:
            self.world.declining ^= {name}
        elif what == 8:
            self.world.approving = not self.world.approving

    def write_script(self, dice: Dice) -> None:
        """What the agents of the next run will do."""
        story: Sequence[str] = dice.pick(((), *self.accent.stories))
        if dice.throw(2):
            story = [dice.pick(self.accent.moves) for _ in range(dice.throw(9))]
        is_stubborn = dice.throw(4) == 3
        x, y = dice.throw(60), dice.throw(20)
        self.world.script = [
            Move(kind, x, y) if is_stubborn else Move(kind, dice.throw(60), dice.throw(20))
            for kind in story
        ]
        note(f"   {self.world.script}")

    # What may happen

    @rule(throws=throws)
    def message(self, throws: bytes) -> None:
        """A person writes, now and then to somebody by name."""
        dice = Dice(throws)
        self.change_moods(dice)
        to = dice.pick((None,) * 12 + self.spec.names)
        self.world.named = set() if to is None else {to}
        self.write_script(dice)
        self.do(lambda: self._write(to), dice)
        self.world.named.clear()

    def _write(self, to: str | None) -> Coroutine[Any, Any, RunResult]:
        return Runner.run(
            self.world.team,
            "go",
            session=self.session,
            context=self.world,
            run_config=self.world.config,
            to=to,
        )

    @precondition(lambda self: self.is_left)
    @rule(throws=throws)
    def resume(self, throws: bytes) -> None:
        """Somebody goes on with what was left."""
        dice = Dice(throws)
        self.change_moods(dice)
        self.do(
            lambda: Runner.resume(
                self.world.team,
                self.session,
                context=self.world,
                run_config=self.world.config,
            ),
            dice,
        )

    @precondition(lambda self: self.has_begun)
    @rule(throws=throws)
    def start(self, throws: bytes) -> None:
        """A program or a person asks for a handoff, along a way that exists or not."""
        dice = Dice(throws)
        request = self._draw_request(dice)
        by, run = dice.pick((A_PROGRAM, A_PROGRAM, A_PERSON)), dice.pick((True, False))
        if self.cursor.progress.phase == "act" and request.policy != "immediate":
            run = True  # There are no workers who would finish what was left.
        note(f"   {request} {by} {run}")
        self.world.asking = request
        if not self.is_left:
            self.write_script(dice)
        result = self.do(lambda: self._start(request, by=by, run=run), dice)
        if result is not None:
            assert self.referee.ends[result.request_id] == (
                result.source,
                result.target,
                result.status,
                None if result.error is None else result.error.code,
            )

    @rule(throws=throws)
    def interrupted(self, throws: bytes) -> None:
        """A person writes, and while an agent works somebody wants a handoff, or none."""
        dice = Dice(throws)
        request = self._draw_request(dice)
        is_cancelled = dice.pick((False, False, True))
        self.world.interrupt_in = dice.throw(4)
        note(f"   {request} {'cancel' if is_cancelled else ''} in {self.world.interrupt_in}")
        tasks: list[asyncio.Task[Any]] = []

        async def interrupt() -> None:
            wish = self._cancel_what_is_open() if is_cancelled else self._start(request)
            tasks.append(asyncio.create_task(wish))
            is_left = asyncio.create_task(self.store.is_asked.wait())
            await asyncio.wait((is_left, tasks[0]), return_when=asyncio.FIRST_COMPLETED)
            is_left.cancel()
            self.store.is_asked.clear()
            await self._note_left(request)
            for _ in range(3):
                await asyncio.sleep(0)

        async def both() -> None:
            try:
                await self._write(None)
            finally:
                self.world.interrupt = None
                if tasks:
                    await tasks[0]

        self.world.asking = request
        self.world.interrupt = interrupt
        self.write_script(dice)
        self.do(both, dice)

    async def _note_left(self, request: Request) -> None:
        """What was asked for just now may be done later, by somebody else."""
        for document in await self.store.list_documents(REQUESTS):
            self.world.left.setdefault(document.body["id"], request)

    async def _cancel_what_is_open(self) -> None:
        pending = Cursor.from_json((await self.session.row()).cursor).handoffs.pending
        if pending is not None:
            await self.controller.cancel(pending.id)

    def _draw_request(self, dice: Dice) -> Request:
        ways = [edge.target for edge in self.spec[self.referee.owner].edges]
        return Request(
            to=dice.pick((*ways, *ways, *ways, *self.spec.names, BEST, NOBODY)),
            context=dice.pick(("", "", "words 1", "words 2")),
            policy=dice.pick((None, None, None, "immediate", "conditional")),
            capabilities=dice.pick(((), (), (), ("weld",))),
        )

    def _start(self, request: Request, **options: Any) -> Coroutine[Any, Any, HandoffResult]:
        return self.controller.start(
            SESSION,
            to=request.to,
            context=request.context or None,
            policy=request.policy,
            capabilities=request.capabilities,
            **options,
        )

    @precondition(lambda self: bool(self.referee.moves))
    @rule(throws=throws)
    def cancel(self, throws: bytes) -> None:
        """A person cancels a handoff: the one that is open, or another."""
        dice = Dice(throws)
        handoff_id = dice.pick(list(self.referee.moves)[::-1])
        if self.referee.open and dice.throw(4):
            handoff_id = self.referee.open[-1].id
        was_open = any(each.id == handoff_id for each in self.referee.open)
        before = self.referee.ends[handoff_id][2]
        result = self.do(lambda: self.controller.cancel(handoff_id), dice)
        if result is not None:
            assert result.status == ("rolled_back" if was_open else before)

    @precondition(lambda self: self.is_left and self.referee.owner.startswith("person:"))
    @rule(throws=throws)
    def answer(self, throws: bytes) -> None:
        """A person to whom the conversation was handed answers, or gives it back."""
        dice = Dice(throws)
        gives_back = dice.pick((False, True))
        if (self.cursor.handoffs.received or {}).get("from") is None:
            gives_back = False
        self.do(
            lambda: self.controller.answer(
                SESSION, "a person's words", by="anna", give_back=gives_back
            ),
            dice,
        )

    # What must be true

    async def check(self) -> None:
        """What is stored agrees with the referee, and with itself."""
        assert not self.world.troubles, self.world.troubles
        events = list(await self.session.events())
        self.referee.read(events)
        referee = self.referee
        for seq, holder in self.store.holders:
            assert referee.owners[seq] == holder, "who has the session follows from its events"
        self.store.holders.clear()
        if not events:
            self.is_sound = True
            return
        row = await self.session.row()
        self.cursor = cursor = Cursor.from_json(row.cursor)
        assert row.agent == referee.owner
        assert row.owner is None
        assert cursor.handoffs.chain == referee.now.chain
        assert [each.id for each in cursor.handoffs.open] == [each.id for each in referee.open]
        if cursor.progress.phase != "act":
            assert row.variables == referee.now.variables
        if cursor.progress.phase == "end":
            assert row.outcome == ("failed" if referee.is_over else "done")
        else:
            assert row.outcome != "done"
        if row.status == "waiting":
            assert row.agent.startswith("person:")
        if cursor.progress.phase == "end":
            assert not referee.open
        tried = {each.id for each in cursor.handoffs.tried}
        assert tried == {each for each, end in referee.ends.items() if end[2] == "validating"}
        for handoff_id, (_, _, status, _) in referee.ends.items():
            assert (
                status in FINAL
                or handoff_id in tried
                or any(each.id == handoff_id for each in referee.open)
            )
        undone = self.world.ledger.undone
        assert len(undone) - len(set(undone)) <= self.store.cuts
        self._check_conversation()
        if self.count % self.check_all_every == 0:
            await self.check_all()
        self.is_sound = True

    def _check_conversation(self) -> None:
        """An output follows its call, and there is one."""
        open_calls: set[str] = set()
        for items in self.referee.said.values():
            for item in items:
                if item.get("type") == "function_call":
                    open_calls.add(item["call_id"])
                elif item.get("type") == "function_call_output":
                    assert item["call_id"] in open_calls, "one output, and after its call"
                    open_calls.remove(item["call_id"])
        if self.cursor.progress.phase != "act":
            assert not open_calls - {each.call_id for each in self.referee.open}

    async def check_all(self) -> None:
        """History, audit and conversation tell the same as the referee."""
        events = await self.session.events()
        referee = self.referee
        said = [item for items in referee.said.values() for item in items]
        assert conversation(events) == said
        records = records_of(events)
        assert {
            record.id: [move.status for move in record.moves] for record in records
        } == referee.moves
        assert {
            record.id: (record.source, record.target, record.status, record.code)
            for record in records
        } == referee.ends
        page = await find_handoffs(self.store, HandoffQuery(session_id=SESSION), limit=1000)
        told = [each for each in page.records if each.moves[0].seq]
        assert told == list(reversed(records))
        waiting = [each.body["id"] for each in await self.store.list_documents(REQUESTS)]
        assert {each.id for each in page.records} - {each.id for each in told} <= set(waiting)
        assert (await verify_audit(self.store)).ok
        audit = await audit_records(self.store, AuditQuery(session_id=SESSION), limit=10_000)
        audited: dict[str, list[str]] = {}
        for record in reversed(audit.records):
            if record.type == "handoff" and record.move is not None:
                assert record.handoff_id is not None
                audited.setdefault(record.handoff_id, []).append(record.move)
        assert {each: sorted(moves) for each, moves in audited.items()} == {
            each: sorted(moves) for each, moves in referee.moves.items()
        }

    def teardown(self) -> None:
        """At the end once more, and everything is closed."""
        try:
            if hasattr(self, "session"):
                for _, _, status, code in self.referee.ends.values():
                    type(self).seen[code or status] += 1
                if self.has_begun and self.is_sound:
                    self.loop.run(self.check_all())
                self.loop.run(self.store.close())
        finally:
            self.loop.close()


async def _in_time(work: Callable[[], Awaitable[Any]]) -> Any:
    async with asyncio.timeout(100):  # Only what hangs takes so long.
        return await work()
