"""The environment of tests: the same in every shell."""

from __future__ import annotations

import os

_KEPT = frozenset({"HOME", "PATH", "TMPDIR", "XDG_CACHE_HOME"})
_OF_TESTS = (
    "COVERAGE_",
    "COV_CORE_",
    "EKIDEN_CONFORMANCE_",
    "EKIDEN_PICTURES",
    "EKIDEN_STATUS_",
    "EKIDEN_TEST_",
)


def forget_the_shell() -> None:
    """Remove every variable that tests do not need from the environment.

    Programs that tests start inherit the rest. A language, a size of the terminal or an option of
    Python that one developer's shell has may let a test pass that fails for users.
    """
    for name in os.environ.keys() - _KEPT:
        if not name.startswith(_OF_TESTS):
            del os.environ[name]
