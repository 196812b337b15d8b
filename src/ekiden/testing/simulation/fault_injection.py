"""How often store calls fail and processes die in a simulation."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Literal, TypeAlias

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
