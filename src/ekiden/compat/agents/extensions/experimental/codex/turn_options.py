"""Options of one turn of Codex."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from ekiden.compat.agents.extensions.experimental.codex.codex_options import coerced

AbortSignal: TypeAlias = asyncio.Event


@dataclass(frozen=True)
class TurnOptions:
    """Options of one turn."""

    output_schema: dict[str, Any] | None = None
    """The JSON Schema of the answer."""
    signal: AbortSignal | None = None
    """Stops the command when the signal is set."""
    idle_timeout_seconds: float | None = None
    """Stops the command after this many seconds without an event."""


def coerce_turn_options(options: TurnOptions | Mapping[str, Any] | None) -> TurnOptions | None:
    """The options as an object."""
    return coerced(TurnOptions, options)
