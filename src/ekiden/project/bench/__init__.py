"""Benchmarks of Ekiden's own cost, without a model, in comparison with plain asyncio."""

from ekiden.project.bench.measure import SCENARIOS as SCENARIOS, Sizes as Sizes, bench as bench
