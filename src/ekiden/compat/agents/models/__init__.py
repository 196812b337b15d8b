"""Models and their providers."""

from ekiden.compat.agents.models.interface import Model, ModelProvider, ModelTracing

__all__ = ["Model", "ModelProvider", "ModelTracing"]
