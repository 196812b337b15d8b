"""How much a model traces of its call."""

import enum


class ModelTracing(enum.Enum):
    """Whether a model call is traced, and whether the trace contains message content."""

    DISABLED = 0
    ENABLED = 1
    ENABLED_WITHOUT_DATA = 2

    def is_disabled(self) -> bool:
        """Whether tracing is disabled."""
        return self is ModelTracing.DISABLED

    def include_data(self) -> bool:
        """Whether the trace contains message content."""
        return self is ModelTracing.ENABLED


def get_model_tracing_impl(
    tracing_disabled: bool, trace_include_sensitive_data: bool
) -> ModelTracing:
    """The value for the settings of a run."""
    if tracing_disabled:
        return ModelTracing.DISABLED
    if trace_include_sensitive_data:
        return ModelTracing.ENABLED
    return ModelTracing.ENABLED_WITHOUT_DATA
