"""What is found out about the processor and memory."""

from __future__ import annotations

import os

import pytest

from ekiden.models.local import settings as cpu

FILES = {
    "/sys/devices/system/cpu/cpu0/topology/thread_siblings_list": "0,2\n",
    "/sys/devices/system/cpu/cpu1/topology/thread_siblings_list": "1,3\n",
    "/sys/devices/system/cpu/cpu2/topology/thread_siblings_list": "0,2\n",
    "/sys/devices/system/cpu/cpu3/topology/thread_siblings_list": "1,3\n",
    "/proc/cpuinfo": "processor : 0\nflags : fpu avx2 fma\n",
}


@pytest.fixture
def files(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The files of a machine with four threads on two cores."""
    found = dict(FILES)
    monkeypatch.setattr(cpu, "_read", lambda path: found.get(path, ""))
    monkeypatch.setattr(cpu, "_allowed", lambda: {0, 1, 2, 3})
    return found


def test_hyper_threads_of_one_core_count_once(files: dict[str, str]) -> None:
    assert cpu.physical_cores() == 2


def test_without_cpu_information_every_thread_counts_as_a_core(files: dict[str, str]) -> None:
    files.clear()
    assert cpu.physical_cores() == 4
    assert cpu.cpu_features() == []


@pytest.mark.parametrize(("load", "free"), [(0.2, 2), (1.0, 1), (9.0, 1)])
def test_a_busy_machine_has_fewer_free_cores(
    files: dict[str, str], load: float, free: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (load, load, load))
    assert cpu.free_cores() == free


@pytest.mark.parametrize(
    ("quota", "cores"), [("100000 100000", 1), ("50000 100000", 1), ("max 100000", 2), ("", 2)]
)
def test_a_control_group_limits_the_cores(files: dict[str, str], quota: str, cores: int) -> None:
    files["/sys/fs/cgroup/cpu.max"] = quota
    assert cpu.physical_cores() == cores


def test_cpu_features_have_their_common_names(files: dict[str, str]) -> None:
    assert cpu.cpu_features() == ["avx2", "fma"]


def test_a_control_group_limits_the_memory(files: dict[str, str]) -> None:
    files["/sys/fs/cgroup/memory.max"] = "1000000\n"
    assert cpu.memory_bytes() == 1_000_000
    files["/sys/fs/cgroup/memory.max"] = "max\n"
    assert (cpu.memory_bytes() or 0) > 1_000_000


def test_memory_may_be_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(name: str) -> int:
        raise ValueError(name)

    monkeypatch.setattr(os, "sysconf", unknown)
    assert cpu.memory_bytes() is None


def test_this_machine_has_at_least_one_core() -> None:
    assert cpu.physical_cores() >= 1
    assert cpu.cpu_name()
