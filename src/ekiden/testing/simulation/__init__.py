"""A seeded world in which the whole runtime runs and everything that can go wrong does."""

from ekiden.testing.simulation.outside import Outside
from ekiden.testing.simulation.scene import Scene, Talk
from ekiden.testing.simulation.watch import GuaranteeViolation, SimulationReport
from ekiden.testing.simulation.world import simulate

__all__ = ["GuaranteeViolation", "Outside", "Scene", "SimulationReport", "Talk", "simulate"]
