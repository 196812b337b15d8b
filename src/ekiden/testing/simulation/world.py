"""One seed: processes on one store, mischief for some seconds, then calm until all is done."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any, TypeAlias

from ekiden.core.errors import EkidenError, StoreError
from ekiden.storage.base import Store
from ekiden.testing.simulation import team
from ekiden.testing.simulation.final_checks import check_end, is_over
from ekiden.testing.simulation.interfaces import Interfaces
from ekiden.testing.simulation.loop import Process, SimulatedLoop, Stuck, seeded
from ekiden.testing.simulation.network import FaultRates, Network
from ekiden.testing.simulation.outside import Outside
from ekiden.testing.simulation.scene import Scene
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
