"""A disk that fails at a chosen moment, as SQLite sees it: a file system of our own over the real
one, for one process."""

from __future__ import annotations

from collections import Counter
from typing import Any, Literal, TypeAlias, get_args

import apsw

Trouble: TypeAlias = Literal["write", "torn", "full", "sync"]
"""What fails: a write, a write of which half is done, a write for want of room, a sync."""
TROUBLES: tuple[Trouble, ...] = get_args(Trouble)

_BELOW = "unix"
_NAME = "ekiden-bad-disk"
_installed: list[BadDisk] = []
"""A file system lives as long as its object."""


class BadDisk(apsw.VFS):
    """Fails once, at the n-th write or sync, or from then on for ever."""

    def __init__(self, trouble: Trouble | None, nth: int, *, for_ever: bool) -> None:
        super().__init__(_NAME, _BELOW, makedefault=True)
        self.done: Counter[str] = Counter()
        self._trouble = trouble
        self._nth = nth
        self._for_ever = for_ever

    def xOpen(self, name: Any, flags: list[int]) -> _File:
        """Every file of a database is on this disk."""
        return _File(self, name, flags)

    def fails(self, what: Literal["write", "sync"]) -> Trouble | None:
        """How the operation that is asked for fails, if it does."""
        self.done[what] += 1
        if self._trouble is None or (self._trouble == "sync") != (what == "sync"):
            return None
        number = self.done[what]
        is_now = number >= self._nth if self._for_ever else number == self._nth
        return self._trouble if is_now else None


class _File(apsw.VFSFile):
    def __init__(self, disk: BadDisk, name: Any, flags: list[int]) -> None:
        super().__init__(_BELOW, name, flags)
        self._disk = disk

    def xWrite(self, data: bytes, offset: int) -> None:
        match self._disk.fails("write"):
            case "torn":
                super().xWrite(data[: len(data) // 2], offset)
                raise apsw.IOError("a write was not finished")
            case "full":
                raise apsw.FullError("no space left on the device")
            case "write":
                raise apsw.IOError("a write failed")
            case _:
                super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:
        if self._disk.fails("sync"):
            raise apsw.IOError("a sync failed")
        super().xSync(flags)


def install(spec: str) -> BadDisk:
    """Let this process have such a disk: ``write:17`` fails once, ``write:17+`` from then on, and
    ``count`` never, but counts."""
    what, _, number = spec.partition(":")
    trouble: Trouble | None = next((each for each in TROUBLES if each == what), None)
    nth = int(number.rstrip("+") or 0)
    disk = BadDisk(trouble, nth, for_ever=number.endswith("+"))
    _installed.append(disk)
    return disk
