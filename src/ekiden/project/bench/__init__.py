"""Ekiden's own cost, with the model taken out, beside plain asyncio in the same process."""

from ekiden.project.bench.scenarios import SCENARIOS, Sizes, bench

__all__ = ["SCENARIOS", "Sizes", "bench"]
