"""Errors of importing sessions."""

from __future__ import annotations

from ekiden.core.errors import UserError


class SessionImportInvalid(UserError):
    """A document is not one that `export_session` or `ekiden session export` wrote.

    `place` is where in it: ``events[3].seq``.
    """

    code = "session.import_invalid"

    def __init__(self, place: str, problem: str) -> None:
        super().__init__(
            f"the session cannot be imported: {place}: {problem}; nothing was stored. "
            "Export it again with `ekiden session export`"
        )
        self.place, self.problem = place, problem
