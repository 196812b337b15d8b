"""A model that answers from a script."""

from ekiden.testing import ScriptedModel

__all__ = ["ScriptedModel"]
