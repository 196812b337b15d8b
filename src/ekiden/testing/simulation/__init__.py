"""A seeded world in which the whole runtime runs and everything that can go wrong does."""

from ekiden.testing.simulation.outside import Outside as Outside
from ekiden.testing.simulation.scene import Scene as Scene, Talk as Talk
from ekiden.testing.simulation.watch import (
    GuaranteeViolation as GuaranteeViolation,
    SimulationReport as SimulationReport,
)
from ekiden.testing.simulation.world import simulate as simulate
