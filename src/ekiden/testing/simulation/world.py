"""One simulation: processes on one store, a time with injected faults, a time without faults, and
final checks."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any, TypeAlias

from ekiden.audit import verify_audit
from ekiden.core.conversation.model import is_message, text_of
from ekiden.core.errors import EkidenError, StoreError
from ekiden.core.events import Event
from ekiden.inbox.items import OPEN
from ekiden.runtime.tools.unfinished_calls import ABANDON, BROKEN_OFF, ENTER
from ekiden.sessions import conversation
from ekiden.storage.base import MessageFilter, Store
from ekiden.storage.memory import MemoryStore
from ekiden.storage.memory.sessions import MemorySession
from ekiden.storage.timers import TIMERS
from ekiden.testing.simulation import team
from ekiden.testing.simulation.checker import InvariantChecker, SimulationReport
from ekiden.testing.simulation.loop import Process, SimulatedLoop, Stuck, run_sync, seeded
from ekiden.testing.simulation.network import FaultRates, Network
from ekiden.testing.simulation.programs import Handle, Programs
from ekiden.testing.simulation.scene import Outside, Scene, Talk

Work: TypeAlias = Callable[[Store], Coroutine[Any, Any, None]]

_FAULTS_S = 7.0
_END_S = 60.0
"""The time limit for all work after the last fault."""
_MOST_TURNS = 1_000_000
_KILLED_AFTER_EFFECT = 0.25
"""The share of effects after which the process is killed before it can store the result."""


@dataclass(slots=True, kw_only=True, eq=False)
class Program:
    """A program that is restarted whenever its process is killed."""

    name: str
    work: Work
    starts: int = 0
    process: Process | None = None
    is_done: bool = False


def simulate(scene: Scene | None = None, *, seed: int) -> SimulationReport:
    """Run one simulation, and report its log and the violated guarantees.

    The same seed always gives the same simulation, regardless of earlier work in this process.
    Without a scene, Ekiden's own test team is simulated, in a setup that the seed chooses. The call
    blocks a running event loop.
    """
    if asyncio._get_running_loop() is None:
        return _simulate(scene, seed)
    with ThreadPoolExecutor(1) as other:
        return other.submit(_simulate, scene, seed).result()


def _simulate(scene: Scene | None, seed: int) -> SimulationReport:
    chance = Random(seed)
    loop = SimulatedLoop(chance)
    with seeded(loop, chance):
        world = World(loop, chance, scene or team.scene(chance, seed), seed)
        try:
            loop.run_until_complete(world.run())
        except Stuck as stuck:
            world.checker.violation("stuck", str(stuck))
        finally:
            world.close()
            loop.close()
    return world.report()


class World:
    """The processes of a simulation, with store, network, faults and checker."""

    def __init__(self, loop: SimulatedLoop, chance: Random, scene: Scene, seed: int) -> None:
        self._loop = loop
        self._chance = chance
        self._seed = seed
        self._trace: list[str] = []
        self._scene = scene
        self.checker = InvariantChecker(self._log)
        self.faults = FaultRates(chance)
        self.network = Network(loop, self.faults, self.checker, self._kill)
        self.checker.truth = self.network.truth
        self._kills_after_effects = Random(f"{seed} interruptions")
        self.outside = Outside(loop, self.checker, self.network.truth, self._after_effect)
        self._programs = self._all_programs(Programs(scene, self.outside, self.checker, chance))
        self._processes: list[Process] = []
        self._is_closed = False
        self._handles: list[Handle] = []
        """Keeps all handles alive, so that no later handle gets the `id()` of an earlier one."""
        self._counts: Counter[str] = Counter()

    def _all_programs(self, code: Programs) -> list[Program]:
        scene = self._scene
        programs = [
            Program(name=f"worker{number}", work=partial(code.work, number=number))
            for number in range(1, scene.workers + 1)
        ]
        for number in range(1, scene.people + 1):
            name = f"person{number}"
            programs.append(Program(name=name, work=partial(code.answer, name=name)))
        if any(talk.ask is not None for talk in scene.talks):
            programs.append(Program(name="bus", work=code.serve))
        for talk in scene.talks:
            work = code.talk if talk.ask is None else code.ask
            programs.append(Program(name=f"caller.{talk.id}", work=partial(work, talk=talk)))
            if talk.hand_to is not None:
                program = Program(name=f"desk.{talk.id}", work=partial(code.hand_over, talk=talk))
                programs.append(program)
        return programs

    async def run(self) -> None:
        """Run from the start of all programs to the end of all talks."""
        self._loop.set_exception_handler(self._failed)
        team.OUTSIDE.append(self.outside)
        for program in self._programs:
            self._start(program)
        await self._inject_faults()
        self._stop_faults()
        deadline = self._loop.time() + _END_S
        while not self._is_over():
            if self._loop.time() > deadline or self._loop.turns > _MOST_TURNS:
                break
            if self.checker.violations:
                break
            await asyncio.sleep(0.5)
        await asyncio.sleep(0.2)
        self.checker.now_s = self._loop.time()
        self.network.set_time()
        for exc in self._loop.unread_errors():
            if not isinstance(exc, EkidenError):
                self._crash("something beside", exc)
        check_end(self.network.truth, self._scene, self.outside, self.checker)

    def report(self) -> SimulationReport:
        """The result of the simulation."""
        return SimulationReport(
            seed=self._seed,
            violations=tuple(self.checker.violations),
            trace=tuple(self._trace),
            seconds=self._loop.time(),
            counts=dict(
                self.network.counts + self._counts + Counter(repeated=self.outside.repeated)
            ),
        )

    def close(self) -> None:
        """Cancel everything that still runs in this simulation."""
        self._is_closed = self.network.is_closed = True
        self._loop.set_exception_handler(lambda loop, context: None)
        for process in self._processes:
            process.is_dead = process.is_frozen = False
            self._loop.thaw(process)
        self._loop.cancel_all()
        team.OUTSIDE.clear()

    # Processes

    def _start(self, program: Program) -> None:
        program.starts += 1
        process = Process(f"{program.name}/{program.starts}")
        program.process = process
        self._processes.append(process)
        handle = Handle(self.network, process)
        self._handles.append(handle)
        self._log(f"{process.name} starts")
        process.start(self._run(program, process, handle))

    async def _run(self, program: Program, process: Process, store: Handle) -> None:
        try:
            await program.work(store)
        except StoreError as exc:
            self._log(f"{process.name} ends: {exc.code}")
            self._later(1.0, self._restart, program, process)
            return
        except asyncio.CancelledError as exc:
            self._crash(process.name, exc)
            raise
        except Exception as exc:
            self._crash(process.name, exc)
            return
        self._log(f"{process.name} is done")
        program.is_done = True

    def _failed(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """A task failed, or the runtime logged an exception."""
        exc, process = context.get("exception"), self._loop.current
        if isinstance(exc, Exception) and not isinstance(exc, StoreError):
            name = "nobody" if process is None else process.name
            self._crash(f"{name}: {context.get('message')}: something", exc)

    def _crash(self, name: str, exc: BaseException) -> None:
        if not self._is_closed:
            self.checker.now_s = self._loop.time()
            self.checker.violation("crash", f"{name} died of {exc!r}")

    def _kill(self, process: Process) -> None:
        if process.is_dead:
            return
        self._counts["kills"] += 1
        self._log(f"{process.name} is KILLED")
        process.is_dead = True
        for program in self._programs:
            if program.process is process:
                self._later(0.1 + 2.0 * self._chance.random(), self._restart, program, process)

    def _after_effect(self) -> None:
        """After the effect of a tool, the process may be killed before it stores the result: then
        the call is repeated."""
        process = self._loop.current
        kills = (
            self.faults.injects_faults and self._kills_after_effects.random() < _KILLED_AFTER_EFFECT
        )
        if kills and process is not None:
            self._kill(process)

    def _restart(self, program: Program, process: Process) -> None:
        if self._is_closed:
            return
        if program.process is process and not program.is_done:
            self._start(program)

    def _later(self, delay_s: float, callback: Callable[..., None], *args: Any) -> None:
        self._loop.call_later(delay_s, callback, *args, context=self._loop.no_process)

    # Faults

    async def _inject_faults(self) -> None:
        end = self._loop.time() + _FAULTS_S * (0.5 + self._chance.random())
        while (left := end - self._loop.time()) > 0 and not self.checker.violations:
            pause = self._chance.expovariate(1.0 / self.faults.process_fault_every_s)
            await asyncio.sleep(min(pause, left))
            if pause < left:
                self._inject_fault()

    def _inject_fault(self) -> None:
        chance = self._chance
        running = [
            each.process
            for each in self._programs
            if each.process is not None and not each.process.is_dead and not each.is_done
        ]
        if not running:
            return
        process = chance.choice(running)
        match chance.choice(("kill", "kill", "freeze", "freeze", "outage", "jump")):
            case "kill":
                self._kill(process)
            case "freeze":
                self._freeze(process, chance.choice((0.4, 1.5, 3.0)) * (0.5 + chance.random()))
            case "outage":
                seconds = chance.choice((0.3, 1.0, 4.0))
                self._log(f"the store is DOWN for {seconds:g} s")
                self._counts["outages"] += 1
                self.faults.down_until_s = self._loop.time() + seconds
            case "jump":
                seconds = chance.choice((-3600, 3600))
                self._log(f"the clock of {process.name} JUMPS by {seconds} s")
                self._counts["jumps"] += 1
                process.wall_us += seconds * 1_000_000

    def _freeze(self, process: Process, seconds: float) -> None:
        if process.is_frozen:
            return
        self._counts["freezes"] += 1
        self._log(f"{process.name} is FROZEN for {seconds:.1f} s")
        process.is_frozen = True
        self._later(seconds, self._thaw, process)

    def _thaw(self, process: Process) -> None:
        if process.is_frozen:
            self._log(f"{process.name} wakes")
            process.is_frozen = False
            self._loop.thaw(process)

    def _stop_faults(self) -> None:
        self._log("the storm is over")
        self.faults.injects_faults = False
        self.faults.down_until_s = 0.0
        for program in self._programs:
            if program.process is not None:
                self._thaw(program.process)

    def _is_over(self) -> bool:
        callers = [each for each in self._programs if each.name.startswith(("caller.", "desk."))]
        return all(each.is_done for each in callers) and is_over(self.network.truth)

    def _log(self, text: str) -> None:
        if self._is_closed:
            return
        self._trace.append(f"{self._loop.time():10.4f} {text}")


_AT_MOST_ONCE = (0, 1)
"""The allowed number of an effect that a talk does not mention."""


def is_over(truth: MemoryStore) -> bool:
    """Whether all work, waits and leases have ended. The lease of a claim whose reply was lost must
    also expire."""
    for each in truth._sessions.values():
        is_held = each.owner is not None and each.until > truth._advanced_s
        if each.status != "idle" or each.outcome is None or is_held:
            return False
    return not run_sync(truth.find_messages(MessageFilter(states={"open"}), limit=1))


def check_end(
    truth: MemoryStore, scene: Scene, outside: Outside, checker: InvariantChecker
) -> None:
    """Compare the final state with the expected results of the scene."""
    for session in truth._sessions.values():
        for rule, text in checker.records[session.id].unchanged(session):
            checker.violation(rule, text)
        if checker.violations:
            continue
        if session.status != "idle" or session.outcome is None:
            state = f"{session.status}, outcome {session.outcome}, with {session.agent}"
            checker.violation("liveness", f"{session.id} did not come to an end: {state}")
        elif session.owner is not None and session.until > truth._advanced_s:
            checker.violation("liveness", f"{session.id} is still with {session.owner}")
    for talk in scene.talks:
        checker.check_acknowledged(talk.id)
    verification = run_sync(verify_audit(truth), may_yield=True)
    if not verification.ok:
        checker.violation("audit", str(verification.first))
    if checker.violations:
        return
    for talk in scene.talks:
        if talk.ask is None:
            _check_talk(truth, talk, checker)
        elif talk.answer != checker.answers.get(talk.id):
            checker.violation("answer", f"{talk.id} was answered {checker.answers.get(talk.id)!r}")
        done = outside.done(talk.id)
        expected = dict.fromkeys(done, _AT_MOST_ONCE) if talk.effects is None else talk.effects
        _check_effects(talk, expected, done, _unknown_effects(truth, talk, outside), checker)
    for what, times in outside.plain_effects.items():
        if times > 1 and not what.startswith(tuple(talk.id for talk in scene.talks)):
            checker.violation("effect", f"{what} was done {times} times")
    _check_left_over(truth, checker)


def _check_effects(
    talk: Talk,
    expected: Mapping[str, int | Collection[int]],
    done: Counter[str],
    unknown: Counter[str],
    checker: InvariantChecker,
) -> None:
    for what in sorted({*expected, *done}):
        counts = range(done[what] - unknown[what], done[what] + 1)
        if not any(_fits(expected.get(what, 0), count) for count in counts):
            text = f"{talk.id}{what} was done {done[what]} times: {dict(done)}"
            checker.violation("effect", text)


def _unknown_effects(truth: MemoryStore, talk: Talk, outside: Outside) -> Counter[str]:
    """The effects of interrupted calls. The agent knows that their effect is uncertain, so it may
    make the effect again with another call."""
    session = truth._sessions.get(talk.id)
    interrupted = set() if session is None else _interrupted_steps(session.events)
    uncertain = {(talk.id, step) for step in interrupted}
    for each in truth._sessions.values():
        uncertain |= {(each.id, step) for step in _decided_steps(each, ABANDON)}
    return Counter(
        what.removeprefix(talk.id)
        for key, what in outside.effects.items()
        if what.startswith(talk.id) and (key.partition(":")[0], key.rpartition(":")[2]) in uncertain
    )


_DECISION = re.compile(
    r"([0-9]+\.[0-9]+\.)(?:x(t?[0-9r]+)|w([0-9]+\.[0-9]+\.[tc][0-9r]+))(\.[0-9]+)?"
)
"""The step of a person's decision about a call whose effect is unknown."""


def _decided_steps(session: MemorySession, choice: str) -> set[str]:
    """The steps of the calls for which a person made this choice."""
    found = set()
    for key, value in session.steps.items():
        about = _DECISION.fullmatch(key)
        if about is not None and (value["answer"] or {}).get("choice") == choice:
            place = about[2] or ""
            own = f"{about[1]}{place if place.startswith('t') else f'c{place}'}"
            found.add(about[3] or own)
    return found


def _interrupted_steps(events: Sequence[Event]) -> set[str]:
    """The steps of calls that a handoff with the policy `immediate` interrupted. Other handoffs
    wait for the calls."""
    steps: dict[str, str] = {}
    interrupted: set[str] = set()
    closed: list[str] = []
    for event in events:
        if event.type == "llm_call" and event.step is not None:
            calls = [item["call_id"] for item in event.items if item.get("type") == "function_call"]
            turn = event.step.removesuffix("m")
            steps.update((call, f"{turn}t{index}") for index, call in enumerate(calls))
        elif event.error == BROKEN_OFF:
            closed += [item["call_id"] for item in event.items]
        elif event.type == "handoff":
            if (event.details or {}).get("policy") == "immediate":
                interrupted |= {steps[call] for call in closed}
            closed = []
    return interrupted


def _fits(expected: int | Collection[int], found: object) -> bool:
    return found in ((expected,) if isinstance(expected, int) else expected)


def _check_talk(truth: MemoryStore, talk: Talk, checker: InvariantChecker) -> None:
    session = truth._sessions.get(talk.id)
    if session is None:
        checker.violation("lost", f"session {talk.id} was never made")
        return
    texts = [text_of(item) for item in conversation(session.events) if is_message(item)]
    answer = texts[-1] if texts else ""
    is_right = (
        talk.answer is None
        or talk.answer == answer
        or (callable(talk.answer) and talk.answer(answer))
    )
    if _is_rolled_back(session.events):
        is_right = True  # The last run consists only of the handoff, so it has no answer.
    elif session.outcome not in talk.outcomes:
        is_right = False
    if not is_right:
        checker.violation("answer", f"{talk.id} ended {session.outcome} with {answer!r}")
    entered = len(_decided_steps(session, ENTER))
    for name, expected in talk.variables.items():
        value = session.variables.get(name)
        # A call whose result a person entered has set no variable.
        values = [value, *range(value or 0, (value or 0) + entered + 1)]
        if not any(_fits(expected, each) for each in values):
            text = f"{talk.id}: {name} is {value}, and must be {expected}"
            checker.violation("variables", text)
    stored = Counter(text for text in texts if text in talk.texts)
    if stored != Counter(talk.texts):
        checker.violation("message", f"{talk.id} was told {stored}")


def _is_rolled_back(events: Sequence[Event]) -> bool:
    """Whether the last run began with a handoff that was rolled back."""
    begun = [each.details["id"] for each in events if each.details and "begins_run" in each.details]
    rolled_back = [
        each.details["id"]
        for each in events
        if each.details and each.details.get("moves") == ["rolled_back"]
    ]
    return bool(begun) and begun[-1] in rolled_back


def _check_left_over(truth: MemoryStore, checker: InvariantChecker) -> None:
    for name, collection in (("timers", TIMERS), ("inbox items", OPEN)):
        left = run_sync(truth.list_documents(collection))
        if left:
            checker.violation("left", f"{name} are left: {[each.key for each in left][:5]}")
    messages = run_sync(truth.find_messages(MessageFilter(states={"open"})))
    if messages:
        checker.violation("left", f"messages are left: {[each.key for each in messages][:5]}")
