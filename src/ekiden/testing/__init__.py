"""Tools for tests: models and runners with scripted answers, contract tests for your own back ends,
a manual clock, and points in the code where a test can inject faults."""

from typing import TYPE_CHECKING

from ekiden.core.integrations.lazy import lazy_names
from ekiden.testing.scripted import (
    ScriptedModel as ScriptedModel,
    ScriptedRunner as ScriptedRunner,
    UnexpectedModelCall as UnexpectedModelCall,
    UnexpectedTask as UnexpectedTask,
    UnusedSteps as UnusedSteps,
    call as call,
    check_unused as check_unused,
    crash as crash,
    delay as delay,
    fail as fail,
    hang as hang,
    say as say,
    stream as stream,
    transfer as transfer,
)
from ekiden.testing.steps import ManualClock as ManualClock

if TYPE_CHECKING:
    from ekiden.testing.servers.realtime import RealtimeServer as RealtimeServer

__getattr__ = lazy_names(__name__)
