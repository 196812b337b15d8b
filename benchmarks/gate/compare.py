"""Compares measured figures with the baselines, and changes the baselines."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal, Self

FLOOR: Final = "floor"
"""The round trip of plain asyncio. It shows how fast an interpreter is, and is not compared."""
CPU_TIME: Final = "CPU time"
"""The source of figures that are CPU time divided by that of the floor, not instructions."""

BOUND: Final = 1.05
FOREIGN_BOUND: Final = 1.25
"""For the figures of another interpreter, which optimises other parts of the work."""
CPU_BOUND: Final = 1.5
"""For CPU time, which depends on the machine and its load: twice the work fails."""
SAME_FLOOR: Final = 0.03
"""Builds of one version of Python differ by more than this if only one of them is optimised."""
SLACK_BYTES: Final = 100


class WrongSource(Exception):
    """The measured figures cannot be stored for this interpreter."""


Figures = Mapping[str, float]
"""Figures by scenario."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """The unit of a scenario's figures, and the reason for its baseline."""

    unit: str
    reason: str

    @property
    def is_bytes(self) -> bool:
        """Whether it is measured directly, in all interpreters in the same unit."""
        return self.unit.startswith("bytes")


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The comparison of a scenario with its baseline."""

    scenario: str
    unit: str
    measured: float
    baseline: float | None
    verdict: Literal["ok", "better", "worse", "no baseline"]

    @property
    def is_failed(self) -> bool:
        """Whether the gate fails."""
        return self.verdict in ("worse", "no baseline")

    @property
    def percent(self) -> float:
        """The difference from the baseline."""
        return 100 * (self.measured / self.baseline - 1) if self.baseline else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """The figures that are compared."""

    source: str
    """An interpreter, or `CPU_TIME`."""
    scale: float
    """Factor for the numbers of instructions."""
    bound: float
    """The highest quotient of measured figure and baseline."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Baselines:
    """The scenarios, and by source their figures."""

    scenarios: Mapping[str, Scenario]
    figures: Mapping[str, Figures]

    @classmethod
    def load(cls, path: Path) -> Self:
        """The baselines in a file."""
        found = json.loads(path.read_text("utf-8"))
        scenarios = {name: Scenario(**each) for name, each in found["scenarios"].items()}
        return cls(scenarios=scenarios, figures=found["figures"])

    def text(self) -> str:
        """The content of the file."""
        scenarios = {
            name: {"unit": each.unit, "reason": each.reason}
            for name, each in self.scenarios.items()
        }
        whole = {"scenarios": scenarios, "figures": self.figures}
        return json.dumps(whole, indent=2, ensure_ascii=False) + "\n"

    def reference(self, source: str, measured: Figures) -> Reference:
        """The figures of `source`. If there are none, those of the most similar interpreter,
        scaled by the quotient of the floors."""
        if source == CPU_TIME:
            return Reference(source=source, scale=1, bound=CPU_BOUND)
        if self._has_build(source, measured):
            return Reference(source=source, scale=1, bound=BOUND)
        known = [each for each in self.figures if each != CPU_TIME]
        other = max(known, key=lambda each: (_same_characters(each, source), each))
        scale = measured[FLOOR] / self.figures[other][FLOOR]
        return Reference(source=other, scale=scale, bound=FOREIGN_BOUND)

    def _has_build(self, source: str, measured: Figures) -> bool:
        own = self.figures.get(source)
        return own is not None and abs(measured[FLOOR] / own[FLOOR] - 1) < SAME_FLOOR

    def compare(self, reference: Reference, measured: Figures) -> list[Verdict]:
        """One verdict for each measured scenario."""
        return [
            self._verdict(reference, name, value)
            for name, value in measured.items()
            if name != FLOOR
        ]

    def _verdict(self, reference: Reference, name: str, measured: float) -> Verdict:
        baseline = self.figures[reference.source].get(name)
        unit = self.scenarios[name].unit
        if reference.source == CPU_TIME:
            unit = unit.replace("instructions", "floors")
        verdict: Literal["ok", "better", "worse", "no baseline"] = "ok"
        if baseline is None:
            verdict = "no baseline"
        else:
            is_bytes = self.scenarios[name].is_bytes
            baseline *= 1 if is_bytes else reference.scale
            slack = SLACK_BYTES if is_bytes else 0
            if measured > baseline * reference.bound + slack:
                verdict = "worse"
            elif measured < baseline / reference.bound - slack:
                verdict = "better"
        return Verdict(
            scenario=name, unit=unit, measured=measured, baseline=baseline, verdict=verdict
        )

    def updated(
        self, source: str, measured: Figures, names: Collection[str], reason: str
    ) -> Baselines:
        """The baselines with new figures for the scenarios `names`, and `reason` for them.

        The change that made a scenario slower or faster did so in all interpreters, which cannot
        all be measured here: the figures of the other sources change by the same factor. Those of a
        new scenario are scaled by the floors. Raises `WrongSource` if this build is not `source`.
        """
        if not self._has_build(source, measured):
            known = ", ".join(each for each in self.figures if each != CPU_TIME)
            raise WrongSource(
                f"there are no figures of this build of {source}, so nothing can be updated: use "
                f"one of {known} (or store the figures of a new version first: ADD=1)"
            )
        own = self.figures[source]

        def moved(name: str, values: Figures) -> float:
            if name in own:
                return round(values[name] * measured[name] / own[name], 2)
            is_bytes = self.scenarios[name].is_bytes
            scale = 1 if is_bytes else values[FLOOR] / own[FLOOR]
            return round(measured[name] * scale, 2)

        figures = {
            other: {**values, **{name: moved(name, values) for name in names}}
            for other, values in self.figures.items()
        }
        scenarios = {
            name: replace(each, reason=reason) if name in names else each
            for name, each in self.scenarios.items()
        }
        return Baselines(scenarios=scenarios, figures=figures)

    def with_source(self, source: str, measured: Figures) -> Baselines:
        """The baselines with figures for one more interpreter. The reasons stay the same. Raises
        `WrongSource` if there are figures of another build of it."""
        if source in self.figures:
            raise WrongSource(f"there are figures of {source} already: UPDATE changes them")
        figures = {**self.figures, source: {name: round(measured[name], 2) for name in measured}}
        return replace(self, figures=figures)


def _same_characters(one: str, other: str) -> int:
    return next(
        (at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b),
        min(len(one), len(other)),
    )
