"""What is installed, and whether the store works."""

from __future__ import annotations

import asyncio
import platform
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal

from ekiden import __version__
from ekiden.app.fsync import fsync_us
from ekiden.app.stores import open_store, sqlite_path
from ekiden.core.errors import EkidenError

_PYTHON = (3, 11)
_SQLITE = (3, 51, 3)
"""The first release without the bug that can corrupt a database when its WAL is reset."""
_REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+).*;\s*extra\s*==\s*['\"]([\w-]+)['\"]")

LATER = frozenset({"a2a", "local", "otel", "server", "temporal"})
"""Extras that are named already, for what this version does not have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that was looked at."""

    name: str
    status: Literal["ok", "missing", "later", "problem"]
    """`missing` is an extra that is not installed, `later` one that nothing uses yet: no errors."""
    detail: str


async def examine(store_url: str) -> list[Check]:
    """Look at everything; nothing is changed, and no error is raised."""
    return [
        _python(),
        Check(name="ekiden", status="ok", detail=__version__),
        _sqlite(),
        await _store(store_url),
        await asyncio.to_thread(_fsync, store_url),
        *extras(_requirements()),
    ]


def extras(requirements: Sequence[str]) -> Iterator[Check]:
    """A check for every extra that the package's `requirements` name, `dev` excepted."""
    wanted: dict[str, list[str]] = {}
    for requirement in requirements:
        found = _REQUIREMENT.match(requirement)
        if found is not None and found[2] != "dev":
            wanted.setdefault(found[2], []).append(found[1])
    for extra, names in sorted(wanted.items()):
        if extra in LATER:
            yield Check(name=f"extra {extra}", status="later", detail="brings no feature yet")
            continue
        versions = {name: _version(name) for name in names}
        if None in versions.values():
            detail = f"pip install 'ekiden[{extra}]'"
            yield Check(name=f"extra {extra}", status="missing", detail=detail)
        else:
            yield Check(name=f"extra {extra}", status="ok", detail=_listed(versions))


def _python() -> Check:
    found = f"{platform.python_implementation()} {platform.python_version()} ({sys.executable})"
    status: Literal["ok", "problem"] = "ok" if sys.version_info >= _PYTHON else "problem"
    return Check(name="python", status=status, detail=found)


def _sqlite() -> Check:
    try:
        import apsw
    except ImportError as exc:
        return Check(name="sqlite", status="problem", detail=f"{exc}; pip install apsw")
    found = apsw.sqlite_lib_version()
    if tuple(int(part) for part in found.split(".")) < _SQLITE:
        needed = ".".join(map(str, _SQLITE))
        detail = f"{found} can lose data, {needed} is needed: pip install -U apsw"
        return Check(name="sqlite", status="problem", detail=detail)
    return Check(name="sqlite", status="ok", detail=found)


async def _store(url: str) -> Check:
    try:
        path = sqlite_path(url)
        if path is not None and not path.exists():
            return Check(name="store", status="ok", detail=f"{path}: the first run makes it")
        async with open_store(url, create=False) as store:
            info = await store.info()
            facts = {name: fact for name, fact in info.items() if name != "url"}
            detail = f"{store.url}: {_listed(facts)}"
    except EkidenError as exc:
        return Check(name="store", status="problem", detail=f"[{exc.code}] {exc}")
    return Check(name="store", status="ok", detail=detail)


def _fsync(url: str) -> Check:
    try:
        path = sqlite_path(url)
        folder = Path() if path is None or not path.parent.is_dir() else path.parent
        taken = fsync_us(folder)
    except (EkidenError, OSError) as exc:
        return Check(name="fsync", status="problem", detail=str(exc))
    return Check(name="fsync", status="ok", detail=f"{taken / 1000:.2f} ms in {folder.absolute()}")


def _requirements() -> Sequence[str]:
    try:
        return metadata.requires("ekiden") or ()
    except metadata.PackageNotFoundError:
        return ()


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def _listed(facts: Mapping[str, object]) -> str:
    return ", ".join(f"{name} {value}" for name, value in facts.items())
