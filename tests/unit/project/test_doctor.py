"""What `ekiden doctor` finds."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import apsw
import pytest

from ekiden.models.local.weights import WeightPackage
from ekiden.project.doctor import Check, examine, extras, local_checks
from ekiden.project.stores import open_store
from ekiden.storage.sqlite.open_store import shipped
from tests.support.tiny_gguf import write_tiny_gguf
from tests.unit.embeddings.tiny_bert import write as write_tiny_bert

ROOT = Path(__file__).parents[3]


def named(checks: list[Check], name: str) -> Check:
    """The check of that name."""
    return next(check for check in checks if check.name == name)


async def test_a_store_is_opened_and_described(tmp_path: Path) -> None:
    url = str(tmp_path / "desk.db")
    async with open_store(url):
        pass
    store = named(await examine(url), "store")
    assert store.status == "ok"
    assert f"format {shipped()[-1].number}" in store.detail
    assert "sessions 0" in store.detail


async def test_a_missing_store_is_no_problem_and_is_not_created(tmp_path: Path) -> None:
    checks = await examine(str(tmp_path / "desk.db"))
    assert all(check.status != "problem" for check in checks)
    assert not list(tmp_path.iterdir())


async def test_a_file_that_is_no_store_is_a_problem(tmp_path: Path) -> None:
    path = tmp_path / "desk.db"
    path.write_bytes(b"this is a text, and not a database at all" * 100)
    store = named(await examine(str(path)), "store")
    assert store.status == "problem"
    assert store.detail.startswith("[store.")


async def test_an_empty_file_is_a_problem_in_every_store_check(tmp_path: Path) -> None:
    path = tmp_path / "empty.db"
    path.touch()
    checks = await examine(str(path))
    assert named(checks, "store").status == "problem"
    integrity = named(checks, "integrity")
    assert integrity.status == "problem"
    assert integrity.detail == "not known: the store cannot be opened"


async def test_an_old_sqlite_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apsw, "sqlite_lib_version", lambda: "3.45.1")
    sqlite = named(await examine("memory:"), "sqlite")
    assert sqlite.status == "problem"
    assert "pip install -U apsw" in sqlite.detail


async def test_an_unwritable_folder_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(folder: Path) -> float:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("ekiden.project.doctor.fsync_us", full)
    fsync = named(await examine("memory:"), "fsync")
    assert (fsync.status, "No space left" in fsync.detail) == ("problem", True)


def test_extras_report_installed_and_missing_packages() -> None:
    checks = extras(
        [
            "pydantic<3,>=2.11",
            "pytest>=9; extra == 'dev'",
            'pytest>=9; extra == "tested"',
            "no-such-thing[x]>=1; extra == 'future'",
            "pytest; extra == 'future'",
        ]
    )
    by_name = {check.name: check for check in checks}
    assert sorted(by_name) == ["extra future", "extra tested"]
    assert by_name["extra tested"].detail.startswith("pytest ")
    assert by_name["extra future"].status == "missing"
    assert by_name["extra future"].detail == "pip install 'ekiden[future]'"


async def test_every_extra_of_the_package_is_checked() -> None:
    names = {check.name for check in await examine("memory:")}
    assert {"extra postgres", "extra server", "extra models", "extra a2a"} <= names


async def test_without_package_metadata_extras_are_unknown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def absent(distribution: str) -> None:
        raise metadata.PackageNotFoundError(distribution)

    monkeypatch.setattr(metadata, "requires", absent)
    checks = await examine("memory:")
    found = named(checks, "extras")
    assert found.status == "missing"
    assert "not installed by pip" in found.detail
    assert not [check for check in checks if check.name.startswith("extra ")]


def test_the_cpu_and_its_memory_are_reported() -> None:
    cpu = named(local_checks(), "cpu")
    assert cpu.status == "ok"
    assert "core" in cpu.detail


def test_models_are_listed_with_size_and_quantisation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EKIDEN_LOCAL_MODELS", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    write_tiny_gguf(tmp_path / "tiny.gguf")
    (tmp_path / "broken.gguf").write_bytes(b"no model")
    models = named(local_checks(), "local models")
    assert models.status == "ok"
    assert "tiny (0.2 MB, F32" in models.detail
    assert "broken" not in models.detail


def test_a_missing_model_is_reported_with_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EKIDEN_LOCAL_MODELS", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr("ekiden.models.local.weights.KNOWN_PACKAGES", ())
    models = named(local_checks(), "local models")
    assert models.status == "missing"
    assert str(tmp_path) in models.detail


def test_a_model_package_in_parts_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = WeightPackage(
        name="sliced",
        file="sliced.gguf",
        size=2_000_000_000,
        module="sliced_part{part}",
        data="part{part}.bin",
        parts=2,
        licence="MIT",
        install="pip install sliced",
    )
    for part in (1, 2):
        (tmp_path / f"sliced_part{part}").mkdir()
        (tmp_path / f"sliced_part{part}" / f"part{part}.bin").write_bytes(b"x")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("EKIDEN_LOCAL_MODELS", str(tmp_path / "models"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr("ekiden.models.local.weights.KNOWN_PACKAGES", (package,))
    models = named(local_checks(), "local models")
    assert models.detail == "sliced (2.0 GB, 2 parts, joined at its first use)"
    assert not (tmp_path / "models").exists()


def test_a_missing_local_extra_is_reported_with_the_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def nothing(distribution: str) -> None:
        return None

    monkeypatch.setattr("ekiden.project.doctor._version", nothing)
    checks = local_checks()
    for name in ("embedder", "local runtime"):
        check = named(checks, name)
        assert (check.status, check.detail) == ("missing", "pip install 'ekiden[local]'")


def test_a_second_encoder_is_named_and_a_broken_one_is_a_problem(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("ekiden.project.doctor._version", lambda distribution: "1.0")
    monkeypatch.setenv("EKIDEN_ENCODER", "none")
    plain = named(local_checks(), "embedder")
    monkeypatch.setenv("EKIDEN_ENCODER", str(write_tiny_bert(tmp_path / "tiny")))
    both = named(local_checks(), "embedder")
    assert both.status == "ok"
    assert both.detail.startswith(f"{plain.detail}, and tiny/")
    assert both.detail.endswith(", 8 dimensions")
    monkeypatch.setenv("EKIDEN_ENCODER", str(tmp_path))
    broken = named(local_checks(), "embedder")
    assert broken.status == "problem"
    assert "config.json" in broken.detail


def test_a_runtime_that_does_not_load_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(name: str) -> None:
        raise ImportError("wrong kind of processor")

    monkeypatch.setattr("ekiden.project.doctor._version", lambda distribution: "1.0")
    monkeypatch.setattr("ekiden.project.doctor.import_module", broken)
    runtime = named(local_checks(), "local runtime")
    assert runtime.status == "problem"
    assert "wrong kind of processor" in runtime.detail


def test_a_runtime_that_does_not_use_the_cpu_features_is_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    library = SimpleNamespace(get_system_info=lambda: "CPU : NEON = 1 |")
    monkeypatch.setattr("ekiden.project.doctor._version", lambda distribution: "1.0")
    monkeypatch.setattr("ekiden.project.doctor.import_module", lambda name: library)
    monkeypatch.setattr("ekiden.project.doctor.cpu_features", lambda: ["neon", "dotprod"])
    runtime = named(local_checks(), "local runtime")
    assert (runtime.status, "does not use dotprod" in runtime.detail) == ("ok", True)
