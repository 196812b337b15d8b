"""Reading a model's JSON."""

from ekiden.handoff.tool import validate_json

__all__ = ["validate_json"]
