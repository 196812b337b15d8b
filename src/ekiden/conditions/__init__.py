"""Conditions: the small, safe language in which handoff conditions and triggers are written."""

from ekiden.conditions.condition import Condition, compile_condition
from ekiden.conditions.evaluation import Evaluation, Trace
from ekiden.conditions.functions import FUNCTIONS

__all__ = ["FUNCTIONS", "Condition", "Evaluation", "Trace", "compile_condition"]
