"""Changes of files that a model asks for: you implement `ApplyPatchEditor`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

ApplyPatchOperationType: TypeAlias = Literal["create_file", "update_file", "delete_file"]


@dataclass
class ApplyPatchOperation:
    """One change of one file."""

    type: ApplyPatchOperationType
    path: str
    diff: str | None = None
    ctx_wrapper: Any = None
    move_to: str | None = None


@dataclass
class ApplyPatchResult:
    """The result of a change, and the text for the model."""

    status: Literal["completed", "failed"] | None = None
    output: str | None = None


@runtime_checkable
class ApplyPatchEditor(Protocol):
    """Changes files. Each method may be sync or async, and returns a result, a text or `None`."""

    def create_file(self, operation: ApplyPatchOperation) -> Any:
        """Create a file from the lines of the diff."""

    def update_file(self, operation: ApplyPatchOperation) -> Any:
        """Apply the diff to a file."""

    def delete_file(self, operation: ApplyPatchOperation) -> Any:
        """Remove a file."""
