"""FastAPI, or how to get it."""

from __future__ import annotations

from ekiden.core.errors import UserError

try:
    import fastapi
except ModuleNotFoundError as exc:
    raise UserError(
        "the routes of the server need FastAPI, which is not installed: "
        "pip install 'ekiden[server]'"
    ) from exc

__all__ = ["fastapi"]
