"""Settings, for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ekiden.cli.tables import Table, Whole
from ekiden.core.values import dumps
from ekiden.project.settings import SettingEntry


def setting_table(found: Sequence[SettingEntry]) -> Table:
    """Settings, one on each line."""
    rows = [(Whole(each.key), shown(each.value), str(each.origin)) for each in found]
    return ("key", "value", "origin"), rows


def shown(value: Any) -> str:
    """A value as it is printed."""
    return value if isinstance(value, str) else dumps(value)
