"""Seeded simulations of the whole runtime with injected faults."""

from ekiden.testing.simulation.checker import (
    GuaranteeViolation as GuaranteeViolation,
    SimulationReport as SimulationReport,
)
from ekiden.testing.simulation.scene import Outside as Outside, Scene as Scene, Talk as Talk
from ekiden.testing.simulation.world import simulate as simulate
