"""asyncpg, or how to get it."""

from __future__ import annotations

from ekiden.core.errors import UserError

try:
    import asyncpg
except ModuleNotFoundError as exc:
    raise UserError(
        "PostgreSQL needs the asyncpg driver, which is not installed: "
        "pip install 'ekiden[postgres]'"
    ) from exc

__all__ = ["asyncpg"]
