"""Ekiden's own cost, with the model taken out, beside plain asyncio in the same process."""

from ekiden.project.bench.scenarios import SCENARIOS as SCENARIOS, Sizes as Sizes, bench as bench
