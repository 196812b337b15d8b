"""The plan of a week: what customers and people do, what fails when, and what must come of it.

The same seed makes the same plan. The file `plan.json` is all that the driver and the checker know.
"""

from __future__ import annotations

import json
import random
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from .stories import HOUR_S, NEEDS_DEPLOY, NEEDS_PROVIDER, SLOTS, STORIES, Conversation, time_of

OUTAGES = ("unavailable", "cut", "busy", "hang")
"""What the provider does in the first, the second … outage."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Something that happens to the processes."""

    at: int
    do: str
    what: str = ""
    after: int = 0
    """For a kill: how many steps of this instant have ended. For a deployment: how many tools are
    paying."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Week:
    """What is to be simulated. `days` get new conversations; `tail_days` follow without."""

    seed: int = 0
    days: int = 7
    tail_days: int = 0
    conversations: int = 1_000
    kills: int = 20
    outages: int = 3
    deploys: int = 1
    faults: list[Fault] = field(default_factory=list)

    @property
    def slots(self) -> int:
        """How many instants have new conversations."""
        return self.days * len(SLOTS)

    def plan(self) -> dict[str, Any]:
        """The whole plan, as JSON."""
        chance = random.Random(self.seed)
        slots = self.slots
        closed = chance.sample(range(1, slots), self.outages)
        deploys = sorted(
            # Who looks into an interrupted payment needs a later instant.
            chance.sample([s for s in range(1, slots - 1) if s not in closed], self.deploys)
        )
        made = [
            self._conversation(number, chance, closed, deploys)
            for number in range(self.conversations)
        ]
        end = time_of((self.days + self.tail_days) * len(SLOTS) - 1)
        for each in made:
            kept = [step for step in each.steps if step.at <= end]
            if kept != each.steps:  # The conversation has not yet gone its whole way.
                begun = {step.session for step in kept}
                each.steps = kept
                each.chains = {name: way for name, way in each.chains.items() if name in begun}
                if kept and kept[-1].status == "failed":  # No other agent gets a rejected message.
                    each.chains[each.id] = each.chains[each.id][:2]
        return {
            "week": asdict(self),
            "end": end,
            "customers": [
                {"id": c.customer, "name": c.customer, "refunds": c.earlier_refunds} for c in made
            ],
            "orders": [order for c in made for order in c.orders],
            "conversations": [_shown(c) for c in made],
            "prices": [price for c in made for price in c.prices if price["at"] <= end],
            "faults": [asdict(fault) for fault in self._faults(made, chance, closed, deploys)],
        }

    def _conversation(
        self, number: int, chance: random.Random, closed: list[int], deploys: list[int]
    ) -> Conversation:
        kinds = [kind for kind in STORIES if deploys or kind not in NEEDS_DEPLOY]
        weights = [STORIES[kind][0] for kind in kinds]
        [kind] = kinds[number : number + 1] or chance.choices(kinds, weights)
        made = Conversation(
            id=f"c{number:05}",
            number=number,
            kind=kind,
            chance=chance,
            slot=chance.randrange(self.slots),
            is_chinese=chance.random() < 0.4,
            closed=closed if kind in NEEDS_PROVIDER else (),
            deploy_slot=deploys[0] if deploys else None,
        )
        STORIES[kind][1](made)
        return made

    def _faults(
        self,
        made: list[Conversation],
        chance: random.Random,
        closed: list[int],
        deploys: list[int],
    ) -> list[Fault]:
        steps = [step.at for each in made for step in each.steps]
        paying = sum(each.kind in NEEDS_DEPLOY for each in made)
        found = [Fault(at=time_of(slot), do="deploy", after=paying) for slot in deploys]
        for number, slot in enumerate(closed):
            what = OUTAGES[number % len(OUTAGES)]
            found.append(Fault(at=time_of(slot), do="outage", what=what))
            found.append(Fault(at=time_of(slot) + HOUR_S, do="recovery"))
        busy = sorted({at for at in steps if at not in {fault.at for fault in found}})
        for number in range(self.kills):
            at = chance.choice(busy)
            after = chance.randrange(1 + steps.count(at) * 3 // 4)
            what = ("worker", "worker", "server")[number % 3]
            found.append(Fault(at=at, do="kill", what=what, after=after))
        return found


def _shown(c: Conversation) -> dict[str, Any]:
    return {
        "id": c.id,
        "kind": c.kind,
        "customer": c.customer,
        "chains": c.chains,
        "steps": [asdict(step) for step in c.steps],
    }


def write(plan: dict[str, Any], folder: Path) -> None:
    """Store the plan in a new folder."""
    folder.mkdir(parents=True)
    (folder / "plan.json").write_text(json.dumps(plan, ensure_ascii=False, indent=1))
