"""What depends on the tier of tests: the examples of a property, the time of a slow test."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

_QUICK = "quick"
_ALL = "all"
_PART = 4
_FEWEST = 10
SLOW_TIMEOUT_S = 1200
"""The time that a slow test has. Tests with a higher limit start first."""

# How long an example takes says more about the machine than about the property.
settings.register_profile(_ALL, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile(
    _QUICK, settings.get_profile(_ALL), max_examples=settings().max_examples // _PART
)


def choose_profile(*, slow_tests_too: bool) -> None:
    """To be called before tests are imported."""
    settings.load_profile(_ALL if slow_tests_too else _QUICK)


def examples(number: int) -> int:
    """`number` of them if slow tests are run, too; otherwise a quarter."""
    is_quick = settings.get_current_profile_name() == _QUICK
    return max(number // _PART, _FEWEST) if is_quick else number
