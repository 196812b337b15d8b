"""One seed: processes on one store, faults for some seconds, then calm; and the final checks."""

from __future__ import annotations

import asyncio
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
from ekiden.runtime.tools.unfinished_calls import BROKEN_OFF
from ekiden.sessions import conversation
from ekiden.storage.base import MessageFilter, Store
from ekiden.storage.memory import MemoryStore
from ekiden.storage.timers import TIMERS
from ekiden.testing.simulation import team
from ekiden.testing.simulation.interfaces import Interfaces
from ekiden.testing.simulation.loop import Process, SimulatedLoop, Stuck, drive, drive_on, seeded
from ekiden.testing.simulation.network import FaultRates, Network
from ekiden.testing.simulation.outside import Outside
from ekiden.testing.simulation.scene import Scene, Talk
from ekiden.testing.simulation.store import Handle
from ekiden.testing.simulation.watch import InvariantChecker, SimulationReport

Work: TypeAlias = Callable[[Store], Coroutine[Any, Any, None]]

_STORM_S = 7.0
_PATIENCE_S = 60.0
"""So long everybody has in calm weather to come to an end."""
_MOST_TURNS = 1_000_000
_INTERRUPTED = 0.25
"""Of all effects in a storm, how many are followed by the death of the process."""


@dataclass(slots=True, kw_only=True, eq=False)
class Program:
    """Something that is started again whenever it is killed."""

    name: str
    work: Work
    lives: int = 0
    process: Process | None = None
    is_done: bool = False


def simulate(scene: Scene | None = None, *, seed: int) -> SimulationReport:
    """Run one simulation, and report its log and the guarantees that were violated.

    The same seed gives the same simulation, independent of earlier work in this process. Without a
    scene it simulates Ekiden's own test team, in a setup that the seed chooses. The call blocks a
    running event loop.
    """
    if asyncio._get_running_loop() is None:
        return _lived_through(scene, seed)
    with ThreadPoolExecutor(1) as other:
        return other.submit(_lived_through, scene, seed).result()


def _lived_through(scene: Scene | None, seed: int) -> SimulationReport:
    chance = Random(seed)
    loop = SimulatedLoop(chance)
    with seeded(loop, chance):
        world = World(loop, chance, scene or team.scene(chance), seed)
        try:
            loop.run_until_complete(world.run())
        except Stuck as stuck:
            world.watch.accuse("stuck", str(stuck))
        finally:
            world.bury()
            loop.close()
    return world.report()


class World:
    """Processes, a store, the weather and the watch."""

    def __init__(self, loop: SimulatedLoop, chance: Random, scene: Scene, seed: int) -> None:
        self._loop = loop
        self._chance = chance
        self._seed = seed
        self._trace: list[str] = []
        self._scene = scene
        self.watch = InvariantChecker(self._tell)
        self.weather = FaultRates(chance)
        self.network = Network(loop, self.weather, self.watch, self._kill)
        self.watch.look_at(self.network.truth)
        self._interruptions = Random(f"{seed} interruptions")
        self.outside = Outside(loop, self.watch, self.network.truth, self._after_effect)
        self._doors = Interfaces(scene, self.outside, self.watch, chance)
        self._programs = self._all_programs()
        self._processes: list[Process] = []
        self._is_over_for_good = False
        self._handles: list[Handle] = []
        """Kept: no later one may be taken for one of them."""
        self._counts: Counter[str] = Counter()

    def _all_programs(self) -> list[Program]:
        doors, scene = self._doors, self._scene
        programs = [
            Program(name=f"worker{number}", work=partial(doors.work, number=number))
            for number in range(1, scene.workers + 1)
        ]
        for number in range(1, scene.people + 1):
            name = f"person{number}"
            programs.append(Program(name=name, work=partial(doors.answer, name=name)))
        if any(talk.ask is not None for talk in scene.talks):
            programs.append(Program(name="bus", work=doors.serve))
        for talk in scene.talks:
            work = doors.talk if talk.ask is None else doors.ask
            programs.append(Program(name=f"caller.{talk.id}", work=partial(work, talk=talk)))
            if talk.hand_to is not None:
                program = Program(name=f"desk.{talk.id}", work=partial(doors.hand_over, talk=talk))
                programs.append(program)
        return programs

    async def run(self) -> None:
        """From the first start to the end of all talks."""
        self._loop.set_exception_handler(self._failed)
        team.OUTSIDE.append(self.outside)
        for program in self._programs:
            self._start(program)
        await self._storm()
        self._calm_down()
        deadline = self._loop.time() + _PATIENCE_S
        while not self._is_over():
            if self._loop.time() > deadline or self._loop.turns > _MOST_TURNS:
                break
            if self.watch.violations:
                break
            await asyncio.sleep(0.5)
        await asyncio.sleep(0.2)
        self.watch.now_s = self._loop.time()
        self.network.set_time()
        for exc in self._loop.unheard():
            if not isinstance(exc, EkidenError):
                self._crash("something beside", exc)
        check_end(self.network.truth, self._scene, self.outside, self.watch)

    def report(self) -> SimulationReport:
        """What happened."""
        return SimulationReport(
            seed=self._seed,
            violations=tuple(self.watch.violations),
            trace=tuple(self._trace),
            seconds=self._loop.time(),
            counts=dict(
                self.network.counts + self._counts + Counter(repeated=self.outside.repeated)
            ),
        )

    def bury(self) -> None:
        """Nothing in this simulation runs any more."""
        self._is_over_for_good = self.network.is_gone = True
        self._loop.set_exception_handler(lambda loop, context: None)
        for process in self._processes:
            process.is_dead = process.is_frozen = False
            self._loop.thaw(process)
        self._loop.bury()
        team.OUTSIDE.clear()

    # Processes

    def _start(self, program: Program) -> None:
        program.lives += 1
        process = Process(f"{program.name}/{program.lives}")
        program.process = process
        self._processes.append(process)
        handle = Handle(self.network, process)
        self._handles.append(handle)
        self._tell(f"{process.name} starts")
        process.start(self._live(program, process, handle))

    async def _live(self, program: Program, process: Process, store: Handle) -> None:
        try:
            await program.work(store)
        except StoreError as exc:
            self._tell(f"{process.name} ends: {exc.code}")
            self._later(1.0, self._start_again, program, process)
            return
        except asyncio.CancelledError as exc:
            self._crash(process.name, exc)
            raise
        except Exception as exc:
            self._crash(process.name, exc)
            return
        self._tell(f"{process.name} is done")
        program.is_done = True

    def _failed(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Something died beside, or was survived and written to the log."""
        exc, process = context.get("exception"), self._loop.current
        if isinstance(exc, Exception) and not isinstance(exc, StoreError):
            name = "nobody" if process is None else process.name
            self._crash(f"{name}: {context.get('message')}: something", exc)

    def _crash(self, who: str, exc: BaseException) -> None:
        if not self._is_over_for_good:
            self.watch.now_s = self._loop.time()
            self.watch.accuse("crash", f"{who} died of {exc!r}")

    def _kill(self, process: Process) -> None:
        if process.is_dead:
            return
        self._counts["kills"] += 1
        self._tell(f"{process.name} is KILLED")
        process.is_dead = True
        for program in self._programs:
            if program.process is process:
                self._later(0.1 + 2.0 * self._chance.random(), self._start_again, program, process)

    def _after_effect(self) -> None:
        """A tool had its effect, and its process may die before that is stored: then the call is
        made again."""
        process = self._loop.current
        is_unlucky = self.weather.is_storm and self._interruptions.random() < _INTERRUPTED
        if is_unlucky and process is not None:
            self._kill(process)

    def _start_again(self, program: Program, process: Process) -> None:
        if self._is_over_for_good:
            return
        if program.process is process and not program.is_done:
            self._start(program)

    def _later(self, delay_s: float, callback: Callable[..., None], *args: Any) -> None:
        self._loop.call_later(delay_s, callback, *args, context=self._loop.nobody)

    # Weather

    async def _storm(self) -> None:
        end = self._loop.time() + _STORM_S * (0.5 + self._chance.random())
        while (left := end - self._loop.time()) > 0 and not self.watch.violations:
            pause = self._chance.expovariate(1.0 / self.weather.disaster_every_s)
            await asyncio.sleep(min(pause, left))
            if pause < left:
                self._disaster()

    def _disaster(self) -> None:
        chance = self._chance
        living = [
            each.process
            for each in self._programs
            if each.process is not None and not each.process.is_dead and not each.is_done
        ]
        if not living:
            return
        process = chance.choice(living)
        match chance.choice(("kill", "kill", "freeze", "freeze", "outage", "jump")):
            case "kill":
                self._kill(process)
            case "freeze":
                self._freeze(process, chance.choice((0.4, 1.5, 3.0)) * (0.5 + chance.random()))
            case "outage":
                seconds = chance.choice((0.3, 1.0, 4.0))
                self._tell(f"the store is DOWN for {seconds:g} s")
                self._counts["outages"] += 1
                self.weather.down_until_s = self._loop.time() + seconds
            case "jump":
                seconds = chance.choice((-3600, 3600))
                self._tell(f"the clock of {process.name} JUMPS by {seconds} s")
                self._counts["jumps"] += 1
                process.wall_us += seconds * 1_000_000

    def _freeze(self, process: Process, seconds: float) -> None:
        if process.is_frozen:
            return
        self._counts["freezes"] += 1
        self._tell(f"{process.name} is FROZEN for {seconds:.1f} s")
        process.is_frozen = True
        self._later(seconds, self._thaw, process)

    def _thaw(self, process: Process) -> None:
        if process.is_frozen:
            self._tell(f"{process.name} wakes")
            process.is_frozen = False
            self._loop.thaw(process)

    def _calm_down(self) -> None:
        self._tell("the storm is over")
        self.weather.is_storm = False
        self.weather.down_until_s = 0.0
        for program in self._programs:
            if program.process is not None:
                self._thaw(program.process)

    def _is_over(self) -> bool:
        callers = [each for each in self._programs if each.name.partition(".")[0] in _DO_END]
        return all(each.is_done for each in callers) and is_over(self.network.truth)

    def _tell(self, text: str) -> None:
        if self._is_over_for_good:
            return
        self._trace.append(f"{self._loop.time():10.4f} {text}")


_DO_END = frozenset({"caller", "desk"})


_ONCE = (0, 1)
"""How often something may be done of which a talk says nothing."""


def is_over(truth: MemoryStore) -> bool:
    """Whether all work, waits and leases have ended: the lease of a claim whose reply was lost must
    expire first."""
    for each in truth._sessions.values():
        is_held = each.owner is not None and each.until > truth._advanced_s
        if each.status != "idle" or each.outcome is None or is_held:
            return False
    return not drive(truth.find_messages(MessageFilter(states={"open"}), limit=1))


def check_end(truth: MemoryStore, scene: Scene, outside: Outside, watch: InvariantChecker) -> None:
    """Compare everything with what it should be."""
    for session in truth._sessions.values():
        for rule, text in watch.records[session.id].unchanged(session):
            watch.accuse(rule, text)
        if watch.violations:
            continue
        if session.status != "idle" or session.outcome is None:
            standing = f"{session.status}, outcome {session.outcome}, with {session.agent}"
            watch.accuse("liveness", f"{session.id} did not come to an end: {standing}")
        elif session.owner is not None and session.until > truth._advanced_s:
            watch.accuse("liveness", f"{session.id} is still with {session.owner}")
    for talk in scene.talks:
        watch.check_acknowledged(talk.id)
    verification = drive_on(verify_audit(truth))
    if not verification.ok:
        watch.accuse("audit", str(verification.first))
    if watch.violations:
        return
    for talk in scene.talks:
        if talk.ask is None:
            _check_talk(truth, talk, watch)
        elif talk.answer != watch.answers.get(talk.id):
            watch.accuse("answer", f"{talk.id} was answered {watch.answers.get(talk.id)!r}")
        done = outside.done(talk.id)
        expected = dict.fromkeys(done, _ONCE) if talk.effects is None else talk.effects
        _check_effects(talk, expected, done, _unknown_effects(truth, talk, outside), watch)
    for what, times in outside.plain_effects.items():
        if times > 1 and not what.startswith(tuple(talk.id for talk in scene.talks)):
            watch.accuse("effect", f"{what} was done {times} times")
    _check_left_over(truth, watch)


def _check_effects(
    talk: Talk,
    expected: Mapping[str, int | Collection[int]],
    done: Counter[str],
    unknown: Counter[str],
    watch: InvariantChecker,
) -> None:
    for what in sorted({*expected, *done}):
        counts = range(done[what] - unknown[what], done[what] + 1)
        if not any(_fits(expected.get(what, 0), count) for count in counts):
            watch.accuse("effect", f"{talk.id}{what} was done {done[what]} times: {dict(done)}")


def _unknown_effects(truth: MemoryStore, talk: Talk, outside: Outside) -> Counter[str]:
    """What was done by calls of which the agent was told that they may have had an effect or not.

    It may do that again, by another call.
    """
    session = truth._sessions.get(talk.id)
    broken_off = set() if session is None else _broken_off(session.events)
    return Counter(
        what.removeprefix(talk.id)
        for key, what in outside.effects.items()
        if key.startswith(f"{talk.id}:") and key.rpartition(":")[2] in broken_off
    )


def _broken_off(events: Sequence[Event]) -> set[str]:
    """The steps of calls that were broken off by a handoff that was to be made at once; one that
    was not has to wait for them."""
    steps: dict[str, str] = {}
    broken_off: set[str] = set()
    closed: list[str] = []
    for event in events:
        if event.type == "llm_call" and event.step is not None:
            calls = [item["call_id"] for item in event.items if item.get("type") == "function_call"]
            turn = event.step.removesuffix("m")
            steps.update((call, f"{turn}t{place}") for place, call in enumerate(calls))
        elif event.error == BROKEN_OFF:
            closed += [item["call_id"] for item in event.items]
        elif event.type == "handoff":
            if (event.details or {}).get("policy") == "immediate":
                broken_off |= {steps[call] for call in closed}
            closed = []
    return broken_off


def _fits(expected: int | Collection[int], found: object) -> bool:
    return found in ((expected,) if isinstance(expected, int) else expected)


def _check_talk(truth: MemoryStore, talk: Talk, watch: InvariantChecker) -> None:
    session = truth._sessions.get(talk.id)
    if session is None:
        watch.accuse("lost", f"session {talk.id} was never made")
        return
    said = [text_of(item) for item in conversation(session.events) if is_message(item)]
    answer = said[-1] if said else ""
    is_right = (
        talk.answer is None
        or talk.answer == answer
        or (callable(talk.answer) and talk.answer(answer))
    )
    if _is_undone_handoff(session.events):
        is_right = True  # The program that asked for it began a run with it, which is over.
    elif session.outcome not in talk.outcomes:
        is_right = False
    if not is_right:
        watch.accuse("answer", f"{talk.id} ended {session.outcome} with {answer!r}")
    for name, expected in talk.variables.items():
        value = session.variables.get(name)
        if not _fits(expected, value):
            watch.accuse("variables", f"{talk.id}: {name} is {value}, and must be {expected}")
    asked = Counter(text for text in said if text in talk.texts)
    if asked != Counter(talk.texts):
        watch.accuse("message", f"{talk.id} was told {asked}")


def _is_undone_handoff(events: Sequence[Event]) -> bool:
    """Whether the last run was begun with a handoff that was undone."""
    begun = [each.details["id"] for each in events if each.details and "begins_run" in each.details]
    undone = [
        each.details["id"]
        for each in events
        if each.details and each.details.get("moves") == ["rolled_back"]
    ]
    return bool(begun) and begun[-1] in undone


def _check_left_over(truth: MemoryStore, watch: InvariantChecker) -> None:
    for name, collection in (("timers", TIMERS), ("inbox items", OPEN)):
        left = drive(truth.list_documents(collection))
        if left:
            watch.accuse("left", f"{name} are left: {[each.key for each in left][:5]}")
    messages = drive(truth.find_messages(MessageFilter(states={"open"})))
    if messages:
        watch.accuse("left", f"messages are left: {[each.key for each in messages][:5]}")
