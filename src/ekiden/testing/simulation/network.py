"""The network of a simulation, which delays and loses store calls at given fault rates."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from random import Random
from typing import Any, Literal, TypeAlias, TypeVar

from ekiden.core.errors import EkidenError, StoreUnavailable
from ekiden.storage.memory import MemoryStore
from ekiden.testing.simulation.checker import InvariantChecker
from ekiden.testing.simulation.loop import BEGIN_US, Process, SimulatedLoop, run_sync

Kind: TypeAlias = Literal["ok", "refused", "lost", "late"]
"""How a call ends. `refused`: an error, and no effect. `lost`: an error after the effect. `late`:
an error, and the effect follows some time later."""
Death: TypeAlias = Literal["before", "after"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkDelivery:
    """How the network handles one call."""

    before_s: float
    """The delay of the call."""
    after_s: float
    """The delay of the reply."""
    kind: Kind = "ok"
    death: Death | None = None
    """If set, the caller is killed directly before or directly after the effect."""
    outlives: bool = True
    """Whether the call takes effect even if its caller was cancelled or killed meanwhile."""
    twice: bool = False
    """Whether an idempotent call is delivered twice."""


class FaultRates:
    """The random faults of a simulation. Without faults only short delays remain."""

    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self.injects_faults = True
        self.down_until_s = 0.0
        """The store is unreachable until then."""
        factor = chance.choice((0.2, 1.0, 1.0, 2.5))
        self.refused = 0.008 * factor
        self.lost = 0.012 * factor
        self.late = 0.004 * factor
        self.death = 0.004 * factor
        self.slow = chance.choice((0.01, 0.05, 0.1))
        self.process_fault_every_s = chance.choice((1.0, 2.0, 4.0)) / factor

    def delivery(self) -> NetworkDelivery:
        """Choose the delivery of one call."""
        chance = self.chance
        if not self.injects_faults:
            return NetworkDelivery(before_s=0.002 + 0.003 * chance.random(), after_s=0.001)
        before_s, after_s = self._delay(), self._delay()
        # The rates of all faults together are below 0.1, even with the largest factor.
        if (number := chance.random()) > 0.1:
            return NetworkDelivery(before_s=before_s, after_s=after_s)
        return self._fault(before_s, after_s, number)

    def _fault(self, before_s: float, after_s: float, number: float) -> NetworkDelivery:
        chance = self.chance
        kind: Kind = "ok"
        death: Death | None = None
        bound = 0.0
        kinds: tuple[tuple[Kind, float], ...] = (
            ("refused", self.refused),
            ("lost", self.lost),
            ("late", self.late),
        )
        for name, rate in kinds:
            bound += rate
            if number < bound:
                kind = name
                break
        else:
            if number < bound + self.death:
                death = chance.choice(("before", "after"))
        return NetworkDelivery(
            before_s=before_s,
            after_s=after_s,
            kind=kind,
            death=death,
            outlives=chance.random() < 0.5,
            twice=number > 0.05,
        )

    def _delay(self) -> float:
        chance = self.chance
        if chance.random() < self.slow:
            return chance.choice((0.05, 0.2, 0.8)) * (0.5 + chance.random())
        return 0.0005 + 0.004 * chance.random()

    def hint_s(self) -> float | None:
        """The delay of a change notification, in seconds; `None` if the notification is lost."""
        number = self.chance.random()
        return None if number < 0.3 else 0.1 * number


T = TypeVar("T")

READS = frozenset(
    {
        "get", "list", "events", "find_events", "feed", "feed_end", "steps", "get_document",
        "list_documents", "find_messages", "queue_depth", "find_entries", "search_text",
        "search_vectors", "now_us", "info", "renew",
    }
)  # fmt: skip
"""Calls that send no change notification."""
_IDEMPOTENT = frozenset({"release", "renew", "settle_messages", "ack_message"})
"""Calls whose second copy has no effect, by the contract of the store."""


class SimulatedStoreClock:
    """The clock of the store, which never jumps."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self._loop = loop

    def now_us(self) -> int:
        return BEGIN_US + int(self._loop.time() * 1e6)

    def monotonic(self) -> float:
        return 0.0  # `Network.set_time` advances leases and queues with `MemoryStore.advance`.


class Network:
    """Delivers the calls of processes to the real store, a `MemoryStore`, and their replies."""

    def __init__(
        self,
        loop: SimulatedLoop,
        faults: FaultRates,
        checker: InvariantChecker,
        kill: Callable[[Process], None],
    ) -> None:
        self.truth = MemoryStore(SimulatedStoreClock(loop))
        run_sync(self.truth.now_us())  # The store's time starts at the first call.
        self._loop = loop
        self._faults = faults
        self._checker = checker
        self._kill = kill
        self._at_s = 0.0
        self._waiters: dict[asyncio.Future[None], bool] = {}
        """For each waiter, whether a notification is under way."""
        self.counts: Counter[str] = Counter()
        self.is_closed = False
        """Whether the simulation has ended: no call has an effect any more."""

    async def call(
        self,
        process: Process,
        name: str,
        about: str,
        effect: Callable[[], Coroutine[Any, Any, T]],
        facts: tuple[Any, ...],
    ) -> T:
        """Deliver a call, and return the reply. If `StoreUnavailable` is raised, it is unknown
        whether the call had its effect."""
        if self.is_closed:
            raise StoreUnavailable("the simulated world is over")
        loop, delivery = self._loop, self._faults.delivery()
        self.counts[name] += 1
        reply: asyncio.Future[T] = loop.create_future()
        call = _Call(self, process, name, about, effect, facts, delivery, reply)
        if delivery.kind == "late":
            late_s = delivery.before_s + 0.3 + self._faults.chance.random()
            loop.call_later(late_s, call.arrive, context=loop.no_process)
            loop.call_later(delivery.before_s, call.fail, context=loop.no_process)
        else:
            loop.call_later(delivery.before_s, call.arrive, context=loop.no_process)
        try:
            return await reply
        except asyncio.CancelledError:
            call.is_given_up = True
            raise

    def apply(self, call: _Call) -> Any:
        """Execute the call, and return its result, or the exception that it raises."""
        self.set_time()
        name, process = call.name, call.process
        checker = self._checker
        checker.now_s = self._loop.time()
        try:
            result = run_sync(call.effect())
        except EkidenError as exc:
            with checker:
                checker.refused(process, name, call.about, call.facts, exc)
            return exc
        except Exception as exc:
            checker.violation("crash", f"the store died of {exc!r} in {name} of {process.name}")
            return exc
        with checker:
            checker.took_effect(process, name, call.about, call.facts, result)
        # A claim that found nothing changed nothing: its notification would wake all workers.
        if name not in READS and not (name == "claim_next" and result is None):
            self._notify()
        return result

    def set_time(self) -> None:
        """Advance the store's time to the time of the loop."""
        now = self._loop.time()
        self.truth.advance(now - self._at_s)
        self._at_s = now

    @property
    def is_down(self) -> bool:
        """Whether the store is unreachable for all processes."""
        return self._loop.time() < self._faults.down_until_s

    def kill(self, process: Process) -> None:
        """Kill the process in the middle of a call."""
        self._kill(process)

    def visibility_s(self, lease_s: float) -> float:
        """The lease of a taken message, which is sometimes too short for its handler."""
        chance = self._faults.chance
        if self._faults.injects_faults and chance.random() < 0.05:
            return min(lease_s, 0.05 + chance.random())
        return lease_s

    async def wait_for_hint(self, timeout_s: float) -> None:
        """Wait for the notification of a change, which may be lost."""
        if self.is_closed:
            raise StoreUnavailable("the simulated world is over")
        loop = self._loop
        waiter: asyncio.Future[None] = loop.create_future()
        self._waiters[waiter] = False
        timer = loop.call_later(timeout_s, _wake, waiter, context=loop.no_process)
        try:
            await waiter
        finally:
            timer.cancel()
            self._waiters.pop(waiter, None)

    def _notify(self) -> None:
        loop = self._loop
        for waiter, is_notified in self._waiters.items():
            delay_s = None if is_notified else self._faults.hint_s()
            if delay_s is not None:
                self._waiters[waiter] = True
                loop.call_later(delay_s, _wake, waiter, context=loop.no_process)


class _Call:
    """One call under way."""

    __slots__ = ("about", "delivery", "effect", "facts", "is_given_up", "name", "network",
                 "process", "reply")  # fmt: skip

    def __init__(
        self,
        network: Network,
        process: Process,
        name: str,
        about: str,
        effect: Callable[[], Coroutine[Any, Any, Any]],
        facts: tuple[Any, ...],
        delivery: NetworkDelivery,
        reply: asyncio.Future[Any],
    ) -> None:
        self.network = network
        self.process = process
        self.name = name
        self.about = about
        self.effect = effect
        self.facts = facts
        self.delivery = delivery
        self.reply = reply
        self.is_given_up = False

    def arrive(self) -> None:
        """The call arrives at the store."""
        delivery, network, process = self.delivery, self.network, self.process
        if network.is_closed:
            return
        if delivery.death == "before" and not process.is_dead:
            network.kill(process)
        if (self.is_given_up or process.is_dead) and not delivery.outlives:
            return
        if network.is_down or delivery.kind == "refused":
            network.counts["refused"] += 1
            self._reply(StoreUnavailable("the simulated store cannot be reached"))
            return
        result = network.apply(self)
        if delivery.twice and self.name in _IDEMPOTENT:
            network.apply(self)
        if delivery.death == "after" and not process.is_dead:
            network.kill(process)
        if delivery.kind == "lost":
            network.counts["lost"] += 1
            result = StoreUnavailable("the simulated store's reply was lost")
        if delivery.kind != "late":
            self._reply(result)

    def fail(self) -> None:
        """The call times out at its caller."""
        self.network.counts["late"] += 1
        self._answer(StoreUnavailable("the simulated store did not answer in time"))

    def _reply(self, result: Any) -> None:
        loop = self.network._loop
        loop.call_later(self.delivery.after_s, self._answer, result, context=loop.no_process)

    def _answer(self, result: Any) -> None:
        if self.reply.done() or self.process.is_dead:
            return
        if isinstance(result, BaseException):
            self.reply.set_exception(result)
        else:
            self.reply.set_result(result)


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
