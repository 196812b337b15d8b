"""Conditions: a small, safe expression language for handoffs and triggers."""

from ekiden.conditions.condition import (
    Condition as Condition,
    ConditionTrace as ConditionTrace,
    Evaluation as Evaluation,
    compile_condition as compile_condition,
)
from ekiden.conditions.functions import FUNCTIONS as FUNCTIONS
