"""Test doubles, contract tests, a manual clock and fault points."""

from typing import TYPE_CHECKING

from ekiden.core.integrations.lazy import lazy_names
from ekiden.testing.clock import ManualClock
from ekiden.testing.scripted import (
    ScriptedModel,
    ScriptedRunner,
    UnexpectedModelCall,
    UnexpectedTask,
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

if TYPE_CHECKING:
    from ekiden.testing.servers.realtime import RealtimeServer

__all__ = [
    "ManualClock",
    "RealtimeServer",
    "ScriptedModel",
    "ScriptedRunner",
    "UnexpectedModelCall",
    "UnexpectedTask",
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

__getattr__ = lazy_names(__name__, {"RealtimeServer": "ekiden.testing.servers.realtime"})
