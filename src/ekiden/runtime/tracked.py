"""The session's variables, watched."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import Any

from ekiden.runtime.drafts import check_variable
from ekiden.runtime.recording import Recording


class Tracked(MutableMapping[str, Any]):
    """The session's variables; tells the run when they change."""

    __slots__ = ("_run", "_values")

    def __init__(self, run: Recording, values: dict[str, Any]) -> None:
        self._run = run
        self._values = values

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __setitem__(self, name: str, value: Any) -> None:
        check_variable(name, value)
        if name not in self._values or self._values[name] != value:
            self._run.cursor.work += 1
        self._values[name] = value
        self._run.mark_variables()

    def __delitem__(self, name: str) -> None:
        del self._values[name]
        self._run.mark_variables()
