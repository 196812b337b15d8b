"""Python runs this first in every process of an example: no chance, and `agents` on request."""

from __future__ import annotations

import os
import random
import sys
from typing import Any

random.randint = lambda a, b: a  # type: ignore[method-assign]
random.choice = lambda seq: seq[0]  # type: ignore[method-assign]


def _as_given(values: Any) -> None:
    """A shuffle that moves nothing."""


random.shuffle = _as_given  # type: ignore[method-assign]

if os.environ.get("EKIDEN_AS_AGENTS"):
    sys.path.append(os.environ["EKIDEN_AS_AGENTS"])
    import alias

    alias.install()
