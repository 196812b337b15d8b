"""Long work of a tenant: one of each kind at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final
from weakref import WeakKeyDictionary

from ekiden.core.errors.server import TooManyRequests
from ekiden.project.service import TenantService

_under_way: Final[WeakKeyDictionary[TenantService, set[str]]] = WeakKeyDictionary()


@contextmanager
def one_at_a_time(desk: TenantService, what: str) -> Iterator[None]:
    """Do something that looks at a whole store; `TooManyRequests` while the same tenant has the
    same done already."""
    busy = _under_way.setdefault(desk, set())
    if what in busy:
        raise TooManyRequests(f"another request for this ({what}) is in progress", retry_after_s=5)
    busy.add(what)
    try:
        yield
    finally:
        busy.discard(what)
