"""Doubles, contracts, a movable clock and fault points: for your tests and for ours."""

from ekiden.testing.clock import ManualClock
from ekiden.testing.scripted import (
    RecordedCall,
    ScriptedModel,
    UnexpectedModelCall,
    UnusedSteps,
    call,
    check_unused,
    crash,
    delay,
    fail,
    hang,
    say,
    stream,
    transfer,
)

__all__ = [
    "ManualClock",
    "RecordedCall",
    "ScriptedModel",
    "UnexpectedModelCall",
    "UnusedSteps",
    "call",
    "check_unused",
    "crash",
    "delay",
    "fail",
    "hang",
    "say",
    "stream",
    "transfer",
]
