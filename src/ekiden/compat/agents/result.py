"""What a run gives."""

from ekiden.runtime import RunResult, RunResultStreaming

__all__ = ["RunResult", "RunResultStreaming"]
