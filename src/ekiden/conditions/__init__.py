"""Conditions: the small, safe language in which handoff conditions and triggers are written."""

from ekiden.conditions.condition import (
    Condition as Condition,
    ConditionTrace as ConditionTrace,
    Evaluation as Evaluation,
    compile_condition as compile_condition,
)
from ekiden.conditions.functions import FUNCTIONS as FUNCTIONS
