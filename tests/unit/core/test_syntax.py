"""Threads that read source code at the same time."""

from __future__ import annotations

import gc
import inspect
import sys
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from ekiden.core.agent import Agent
from ekiden.core.syntax import parse_class, parse_module


class _Garbage:
    """A circle; to collect it runs Python code, and then threads take turns."""

    def __init__(self) -> None:
        self.itself = self
        weakref.finalize(self, range, 100)


@pytest.fixture
def threads_take_turns() -> Iterator[None]:
    """The garbage collection and the interpreter interrupt threads as often as possible."""
    interval, threshold = sys.getswitchinterval(), gc.get_threshold()
    sys.setswitchinterval(1e-6)
    gc.set_threshold(50)
    yield
    sys.setswitchinterval(interval)
    gc.set_threshold(*threshold)


@pytest.mark.usefixtures("threads_take_turns")
def test_threads_parse_code_at_the_same_time() -> None:
    code = inspect.getsource(sys.modules[__name__]).encode()

    def read(_: int) -> None:
        for _ in range(10):
            _Garbage()
            assert parse_module(code).body
            assert parse_class(Agent).name == "Agent"

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(read, range(4)))
