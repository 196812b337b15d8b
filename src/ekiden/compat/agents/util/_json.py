"""Reading a model's JSON."""

from ekiden.handoff.arguments import validate_json

__all__ = ["validate_json"]
