"""What cannot be a guardrail: found when it is made, never when an answer is checked."""

from __future__ import annotations

from ekiden.core.errors import UserError


class GuardrailUnusable(UserError):
    """The arguments cannot make a guardrail; the message says why."""

    code = "guardrail.unusable"


class SchemaUnusable(GuardrailUnusable):
    """A JSON Schema cannot be used to check answers."""

    code = "guardrail.bad_schema"

    def __init__(self, problem: str, *, path: str = "") -> None:
        where = f" at {path[:200]}" if path else ""
        super().__init__(f"the schema cannot be used{where}: {problem}")
        self.problem = problem
        self.path = path
        """The place in the schema, as a JSON Pointer; empty: the whole."""
