"""What every test may ask for."""

from __future__ import annotations

import pytest

from tests.support.commands import close_commands
from tests.support.examples import choose_profile

# Failing assertions inside the contract suites show their values: to be said before any import.
pytest.register_assert_rewrite("ekiden.testing.contracts", "ekiden.testing.engine_contracts")

pytest_plugins = ["tests.support.postgres", "tests.support.temporal"]


def pytest_configure(config: pytest.Config) -> None:
    """Properties are tried with all examples unless slow tests are left out."""
    choose_profile(slow_tests_too="not slow" not in str(config.getoption("markexpr")))


def pytest_unconfigure() -> None:
    """Leave no process behind."""
    close_commands()
