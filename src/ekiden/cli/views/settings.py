"""Settings, for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ekiden.cli.tables import print_table
from ekiden.core.values.jsonio import dumps
from ekiden.project.settings import SettingEntry


def print_settings(found: Sequence[SettingEntry]) -> None:
    """The settings as a table."""
    rows = [(each.key, shown(each.value), str(each.origin)) for each in found]
    print_table(("key", "value", "origin"), rows)


def shown(value: Any) -> str:
    """A value as it is printed."""
    return value if isinstance(value, str) else dumps(value)
