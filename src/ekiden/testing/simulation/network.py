"""The network of a simulation: fault rates, and store calls that take time or get lost."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from random import Random
from typing import Any, Literal, TypeAlias, TypeVar

from ekiden.core.errors import EkidenError, StoreUnavailable
from ekiden.storage.memory import MemoryStore
from ekiden.testing.simulation.loop import BEGIN_US, Process, SimulatedLoop, drive
from ekiden.testing.simulation.watch import InvariantChecker

Kind: TypeAlias = Literal["ok", "refused", "lost", "late"]
"""`refused`: no effect, an error; `lost`: the effect, and an error; `late`: an error, and the
effect some time afterwards."""
Death: TypeAlias = Literal["before", "after"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fate:
    """What becomes of one call."""

    before_s: float
    """How long it is on its way."""
    after_s: float
    """How long its reply is."""
    kind: Kind = "ok"
    death: Death | None = None
    """Whether the caller is killed just before the effect, or just after it."""
    outlives: bool = True
    """Whether the call takes effect though its caller gave it up or died meanwhile."""
    twice: bool = False
    """Whether the network delivers it twice, if that is a call that may be."""


class FaultRates:
    """The dice of a world. In calm weather nothing goes wrong, and little takes long."""

    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self.is_storm = True
        self.down_until_s = 0.0
        """The store cannot be reached before."""
        roughness = chance.choice((0.2, 1.0, 1.0, 2.5))
        self.refused = 0.008 * roughness
        self.lost = 0.012 * roughness
        self.late = 0.004 * roughness
        self.death = 0.004 * roughness
        self.slow = chance.choice((0.01, 0.05, 0.1))
        self.disaster_every_s = chance.choice((1.0, 2.0, 4.0)) / roughness

    def fate(self) -> Fate:
        """Throw for one call."""
        chance = self.chance
        if not self.is_storm:
            return Fate(before_s=0.002 + 0.003 * chance.random(), after_s=0.001)
        before_s, after_s = self._delay(), self._delay()
        if (thrown := chance.random()) > 0.1:
            return Fate(before_s=before_s, after_s=after_s)
        return self._mishap(before_s, after_s, thrown)

    def _mishap(self, before_s: float, after_s: float, thrown: float) -> Fate:
        chance = self.chance
        kind: Kind = "ok"
        death: Death | None = None
        bound = 0.0
        for name, rate in (("refused", self.refused), ("lost", self.lost), ("late", self.late)):
            bound += rate
            if thrown < bound:
                kind = name  # type: ignore[assignment] # mypy sees text where these are names
                break
        else:
            if thrown < bound + self.death:
                death = chance.choice(("before", "after"))
        return Fate(
            before_s=before_s,
            after_s=after_s,
            kind=kind,
            death=death,
            outlives=chance.random() < 0.5,
            twice=thrown > 0.05,
        )

    def _delay(self) -> float:
        chance = self.chance
        if chance.random() < self.slow:
            return chance.choice((0.05, 0.2, 0.8)) * (0.5 + chance.random())
        return 0.0005 + 0.004 * chance.random()

    def hint_s(self) -> float | None:
        """How long a hint of a change is on its way; `None`: it is lost."""
        thrown = self.chance.random()
        return None if thrown < 0.3 else 0.1 * thrown


T = TypeVar("T")

READS = frozenset(
    {
        "get", "list", "events", "find_events", "feed", "feed_end", "steps", "get_document",
        "list_documents", "find_messages", "queue_depth", "find_entries", "search_text",
        "search_vectors", "now_us", "info", "renew",
    }
)  # fmt: skip
"""Calls that change nothing that anybody waits for."""
_MAY_COME_TWICE = frozenset({"release", "renew", "settle_messages", "ack_message"})
"""Calls of which a second copy has no effect, by contract."""


class SimulatedStoreClock:
    """The store's own clock: that of the world, which does not jump."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self._loop = loop

    def now_us(self) -> int:
        return BEGIN_US + int(self._loop.time() * 1e6)

    def monotonic(self) -> float:
        return 0.0  # Time passes by `MemoryStore.advance`, for leases and queues alike.


class Network:
    """Carries calls to the truth and their replies back."""

    def __init__(
        self,
        loop: SimulatedLoop,
        weather: FaultRates,
        watch: InvariantChecker,
        kill: Callable[[Process], None],
    ) -> None:
        self.truth = MemoryStore(SimulatedStoreClock(loop))
        drive(self.truth.now_us())  # From here on it counts from the beginning of the world.
        self._loop = loop
        self._weather = weather
        self._watch = watch
        self._kill = kill
        self._at_s = 0.0
        self._waiters: dict[asyncio.Future[None], bool] = {}
        """Whether a hint is on its way to each."""
        self.counts: Counter[str] = Counter()
        self.is_gone = False
        """Nothing has an effect any more: the world is over."""

    async def call(
        self,
        process: Process,
        name: str,
        about: str,
        effect: Callable[[], Coroutine[Any, Any, T]],
        facts: tuple[Any, ...],
    ) -> T:
        """The reply, or `StoreUnavailable`, and then the effect may have happened or not."""
        if self.is_gone:
            raise StoreUnavailable("the simulated world is over")
        loop, fate = self._loop, self._weather.fate()
        self.counts[name] += 1
        reply: asyncio.Future[T] = loop.create_future()
        call = _Call(self, process, name, about, effect, facts, fate, reply)
        if fate.kind == "late":
            late_s = fate.before_s + 0.3 + self._weather.chance.random()
            loop.call_later(late_s, call.arrive, context=loop.nobody)
            loop.call_later(fate.before_s, call.fail, context=loop.nobody)
        else:
            loop.call_later(fate.before_s, call.arrive, context=loop.nobody)
        try:
            return await reply
        except asyncio.CancelledError:
            call.is_given_up = True
            raise

    def apply(self, call: _Call) -> Any:
        """Let the call take effect; what it gives or raises, as a value."""
        self.set_time()
        name, process = call.name, call.process
        watch = self._watch
        watch.now_s = self._loop.time()
        try:
            result = drive(call.effect())
        except EkidenError as exc:
            with watch:
                watch.refused(process, name, call.about, call.facts, exc)
            return exc
        except Exception as exc:
            watch.accuse("crash", f"the store died of {exc!r} in {name} of {process.name}")
            return exc
        with watch:
            watch.took_effect(process, name, call.about, call.facts, result)
        # A claim that found nothing changed nothing: hints of it would have all workers look again.
        if name not in READS and not (name == "claim_next" and result is None):
            self._hint()
        return result

    def set_time(self) -> None:
        """The store's time is the world's."""
        now = self._loop.time()
        self.truth.advance(now - self._at_s)
        self._at_s = now

    @property
    def is_down(self) -> bool:
        """Whether the store is unreachable for all."""
        return self._loop.time() < self._weather.down_until_s

    def die(self, process: Process) -> None:
        """The process is killed in the middle of a call."""
        self._kill(process)

    def visibility_s(self, lease_s: float) -> float:
        """How long a message that is taken stays with its taker: sometimes not long enough."""
        chance = self._weather.chance
        if self._weather.is_storm and chance.random() < 0.05:
            return min(lease_s, 0.05 + chance.random())
        return lease_s

    async def wait_for_hint(self, timeout_s: float) -> None:
        """Wait for a change, as far as its hint arrives."""
        if self.is_gone:
            raise StoreUnavailable("the simulated world is over")
        loop = self._loop
        waiter: asyncio.Future[None] = loop.create_future()
        self._waiters[waiter] = False
        timer = loop.call_later(timeout_s, _wake, waiter, context=loop.nobody)
        try:
            await waiter
        finally:
            timer.cancel()
            self._waiters.pop(waiter, None)

    def _hint(self) -> None:
        loop = self._loop
        for waiter, is_told in self._waiters.items():
            delay_s = None if is_told else self._weather.hint_s()
            if delay_s is not None:
                self._waiters[waiter] = True
                loop.call_later(delay_s, _wake, waiter, context=loop.nobody)


class _Call:
    """One call on its way."""

    __slots__ = ("about", "effect", "facts", "fate", "is_given_up", "name", "network", "process",
                 "reply")  # fmt: skip

    def __init__(
        self,
        network: Network,
        process: Process,
        name: str,
        about: str,
        effect: Callable[[], Coroutine[Any, Any, Any]],
        facts: tuple[Any, ...],
        fate: Fate,
        reply: asyncio.Future[Any],
    ) -> None:
        self.network = network
        self.process = process
        self.name = name
        self.about = about
        self.effect = effect
        self.facts = facts
        self.fate = fate
        self.reply = reply
        self.is_given_up = False

    def arrive(self) -> None:
        """The call is at the store."""
        fate, network, process = self.fate, self.network, self.process
        if network.is_gone:
            return
        if fate.death == "before" and not process.is_dead:
            network.die(process)
        if (self.is_given_up or process.is_dead) and not fate.outlives:
            return
        if network.is_down or fate.kind == "refused":
            network.counts["refused"] += 1
            self._reply(StoreUnavailable("the simulated store cannot be reached"))
            return
        result = network.apply(self)
        if fate.twice and self.name in _MAY_COME_TWICE:
            network.apply(self)
        if fate.death == "after" and not process.is_dead:
            network.die(process)
        if fate.kind == "lost":
            network.counts["lost"] += 1
            result = StoreUnavailable("the simulated store's reply was lost")
        if fate.kind != "late":
            self._reply(result)

    def fail(self) -> None:
        """The caller no longer waits for it."""
        self.network.counts["late"] += 1
        self._answer(StoreUnavailable("the simulated store did not answer in time"))

    def _reply(self, result: Any) -> None:
        loop = self.network._loop
        loop.call_later(self.fate.after_s, self._answer, result, context=loop.nobody)

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
