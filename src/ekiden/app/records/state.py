"""Variables of users and apps as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ekiden.runtime.outside_state import SharedVariable


def shared_record(variables: Mapping[str, SharedVariable]) -> dict[str, Any]:
    """The variables by name, each with its version and who wrote it."""
    return {
        name: {
            "value": each.value,
            "version": each.version,
            "by": each.by,
            "updated_at": each.updated_at,
        }
        for name, each in sorted(variables.items())
    }
