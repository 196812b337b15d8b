"""Temporal's SDK, or how to get it."""

from __future__ import annotations

from ekiden.core.errors import UserError

try:
    import temporalio
except ModuleNotFoundError as exc:
    raise UserError(
        "the engine `temporal` needs Temporal's SDK, which is not installed: "
        "pip install 'ekiden[temporal]'"
    ) from exc

__all__ = ["temporalio"]
