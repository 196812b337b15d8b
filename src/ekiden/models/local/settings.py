"""The settings of local models, and the processor and memory of this machine."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from ekiden.core.checks.fields import Checked, Count
from ekiden.core.checks.kinds import Allowed
from ekiden.core.errors import UserError

DEFAULT_CONTEXT = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalEngineSettings(Checked):
    """Settings of a local model. A file that is used with two different settings is loaded
    twice."""

    n_ctx: Annotated[int, Allowed(low=256)] = DEFAULT_CONTEXT
    """The maximum length of a conversation with its answer, in tokens. A larger context needs more
    memory."""
    threads: Count | None = None
    """The number of threads. `None` means one thread for every physical core that is idle when the
    model is loaded."""
    max_waiting: Count = 32
    """The maximum number of waiting requests. Further requests are refused."""
    max_tokens: Count = 1024
    """The maximum length of an answer, in tokens, if the request does not set it."""
    temperature: Annotated[float, Allowed(high=2)] = 0.2
    """The temperature, if the request does not set it."""

    @classmethod
    def from_environment(cls) -> LocalEngineSettings:
        """Read the settings from ``EKIDEN_LOCAL_CTX`` and ``EKIDEN_LOCAL_THREADS``. If a variable
        is not set, the default is used."""
        n_ctx, threads = _number("EKIDEN_LOCAL_CTX"), _number("EKIDEN_LOCAL_THREADS")
        return cls(n_ctx=DEFAULT_CONTEXT if n_ctx is None else n_ctx, threads=threads)


_default: LocalEngineSettings | None = None


def set_default_local_settings(settings: LocalEngineSettings | None) -> None:
    """Use these settings for models named ``local:…``. `None` restores the settings from the
    environment."""
    global _default
    _default = settings


def default_local_settings() -> LocalEngineSettings:
    """The settings from `set_default_local_settings`, or the settings from the environment."""
    return _default or LocalEngineSettings.from_environment()


def _number(variable: str) -> int | None:
    text = os.environ.get(variable, "").strip()
    if not text:
        return None
    try:
        return int(text)
    except ValueError as exc:
        raise UserError(f"{variable} is {text!r}, not a whole number") from exc


_FEATURES = {
    "avx2": "avx2", "avx512f": "avx512", "amx_tile": "amx", "fma": "fma", "f16c": "f16c",
    "asimd": "neon", "asimddp": "dotprod", "i8mm": "i8mm", "sve": "sve",
}  # fmt: skip
"""The processor features that speed up inference: Linux's names, and common names."""


def physical_cores() -> int:
    """The number of physical cores that this process may use."""
    allowed = _allowed()
    cores = {_siblings(cpu) for cpu in allowed}
    return max(1, min(len(cores), _quota() or len(cores)))


def free_cores() -> int:
    """The number of idle cores, at least one.

    The threads of a model wait for each other at every layer. So threads that share cores with
    other work are slower than one thread: on two busy cores, two threads took twice as long as one.
    """
    cores = physical_cores()
    try:
        load = os.getloadavg()[0]
    except (AttributeError, OSError):
        load = 0.0
    return max(1, min(cores, round(cores - load)))


def cpu_features() -> list[str]:
    """The processor features that speed up inference; empty if they are unknown."""
    flags = _cpuinfo_flags()
    return [name for flag, name in _FEATURES.items() if flag in flags]


def cpu_name() -> str:
    """The processor's architecture, such as ``aarch64``."""
    return platform.machine() or "unknown"


def memory_bytes() -> int | None:
    """The memory of the machine, or the limit of the process; `None` if unknown."""
    try:
        installed = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None
    limit = _read("/sys/fs/cgroup/memory.max").strip()
    return min(installed, int(limit)) if limit.isdigit() else installed


def _allowed() -> set[int]:
    if hasattr(os, "sched_getaffinity"):
        return set(os.sched_getaffinity(0))
    return set(range(os.cpu_count() or 1))


def _siblings(cpu: int) -> str:
    """A text that is the same for all hardware threads of a core."""
    base = f"/sys/devices/system/cpu/cpu{cpu}/topology"
    return _read(f"{base}/thread_siblings_list").strip() or str(cpu)


def _quota() -> int | None:
    """The limit of cores in the control group, if there is one."""
    quota, _, period = _read("/sys/fs/cgroup/cpu.max").partition(" ")
    if not (quota.isdigit() and period.strip().isdigit()):
        return None
    return max(1, int(quota) // int(period))


def _cpuinfo_flags() -> set[str]:
    for line in _read("/proc/cpuinfo").splitlines():
        key, _, value = line.partition(":")
        if key.strip().lower() in ("flags", "features"):
            return set(value.split())
    return set()


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
