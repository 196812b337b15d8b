"""Conditions: the small, safe language in which handoff conditions and triggers are written."""

from ekiden.conditions.condition import Condition, Evaluation, Trace, compile_condition
from ekiden.conditions.functions import FUNCTIONS

__all__ = ["FUNCTIONS", "Condition", "Evaluation", "Trace", "compile_condition"]
