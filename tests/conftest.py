"""What every test may ask for."""

from __future__ import annotations

import gc
import signal

import pytest

from tests.support.environment import forget_the_shell
from tests.support.examples import SLOW_TIMEOUT_S, choose_profile
from tests.support.forked import close_forker, start_forker

# Failing assertions inside the contract suites show their values: to be said before any import.
pytest.register_assert_rewrite("ekiden.testing.contracts", "ekiden.testing.engine_contract")

pytest_plugins = [
    "tests.support.postgres",
    "tests.support.side_by_side",
    "tests.support.temporal",
    "tests.support.timings",
]


def pytest_configure(config: pytest.Config) -> None:
    """Properties are tried with all examples unless slow tests are left out."""
    forget_the_shell()
    # A shell starts background jobs with Ctrl-C ignored, and the programs of tests inherit that.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    choose_profile(slow_tests_too="not slow" not in str(config.getoption("markexpr")))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Slow tests have longer, also on a busy machine: a limit that ends one in the middle of the
    product's code looks like a fault of the product."""
    for item in items:
        if item.get_closest_marker("slow") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(SLOW_TIMEOUT_S))


def pytest_collection(session: pytest.Session) -> None:
    """Nothing of what is collected is garbage; what all processes share comes up meanwhile."""
    gc.disable()
    if session.config.getoption("processes") > 1 and not session.config.option.collectonly:
        start_forker()


def pytest_collection_finish() -> None:
    """Freeze objects: no garbage collection walks through all collected tests again."""
    gc.enable()
    gc.freeze()


def pytest_unconfigure() -> None:
    """Leave no process behind."""
    close_forker()
