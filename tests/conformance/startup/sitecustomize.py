"""Python runs this first in every process of an example: without chance, with time for servers."""

from __future__ import annotations

import os
import random
import sys
import time
from typing import Any

random.randint = lambda a, b: a  # type: ignore[method-assign]
random.choice = lambda seq: seq[0]  # type: ignore[method-assign]


def _as_given(values: Any) -> None:
    """A shuffle that moves nothing."""


random.shuffle = _as_given  # type: ignore[method-assign]

_sleep = time.sleep
time.sleep = lambda seconds: _sleep(4 * seconds)
"""Examples wait a fixed time for servers that they start: more of it on a busy machine."""

if os.environ.get("EKIDEN_AS_AGENTS"):
    sys.path.append(os.environ["EKIDEN_AS_AGENTS"])
    import alias

    alias.install()
