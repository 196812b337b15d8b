"""Conditions: the small, safe language in which handoff conditions and triggers are written."""

from ekiden.conditions.condition import Condition, ConditionTrace, Evaluation, compile_condition
from ekiden.conditions.functions import FUNCTIONS

__all__ = ["FUNCTIONS", "Condition", "ConditionTrace", "Evaluation", "compile_condition"]
