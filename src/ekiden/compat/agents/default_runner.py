"""The runner that `Runner` asks, and that agents as tools run with."""

from __future__ import annotations

from typing import Any

_runner: Any = None
_built_in: Any = None


def set_built_in(runner: Any) -> None:
    """The runner that is used unless another one is set."""
    global _built_in
    _built_in = runner


def get_default_agent_runner() -> Any:
    """The runner that `Runner` asks."""
    return _built_in if _runner is None else _runner


def set_default_agent_runner(runner: Any) -> None:
    """Make `Runner` ask another runner; `None` restores the built-in one."""
    global _runner
    _runner = runner
