"""How much a model traces of its call."""

from ekiden.compat.agents.models.interface import ModelTracing

__all__ = ["get_model_tracing_impl"]


def get_model_tracing_impl(
    tracing_disabled: bool, trace_include_sensitive_data: bool
) -> ModelTracing:
    """The value for the settings of a run."""
    if tracing_disabled:
        return ModelTracing.DISABLED
    if trace_include_sensitive_data:
        return ModelTracing.ENABLED
    return ModelTracing.ENABLED_WITHOUT_DATA
