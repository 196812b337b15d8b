"""Finds models by ``provider/model``."""

from ekiden.compat.agents.models.other_providers import LitellmProvider as LitellmProvider
from ekiden.compat.agents.not_supported import placeholders

DEFAULT_MODEL = "gpt-4.1"
__getattr__ = placeholders(__name__)
