"""Where a second encoder is looked for."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import pytest

from ekiden.core.errors import UserError
from ekiden.embeddings import base
from ekiden.embeddings.base import encoders_folder, second_encoder
from tests.unit.embeddings.tiny_bert import write


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    monkeypatch.delenv("EKIDEN_ENCODER", raising=False)
    monkeypatch.setattr(base, "_PACKAGES", (("some_weights", Path("data", "tiny")),))
    return tmp_path


def name() -> str | None:
    encoder = second_encoder()
    return None if encoder is None else encoder.name.partition("/")[0]


def install(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = home / "site" / "some_weights"
    write(package / "data" / "tiny")
    (package / "__init__.py").write_text("raise RuntimeError('imported')")
    monkeypatch.syspath_prepend(str(home / "site"))


def test_a_machine_may_have_no_second_encoder(home: Path) -> None:
    assert second_encoder() is None
    (home / ".ekiden" / "encoders").mkdir(parents=True)
    (encoders_folder() / "notes.txt").write_text("no folder")
    assert second_encoder() is None


def test_a_package_is_found_and_not_imported(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(home, monkeypatch)
    assert name() == "tiny"
    assert "some_weights" not in sys.modules


def test_folders_take_precedence_over_packages_in_name_order(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(home, monkeypatch)
    write(encoders_folder() / "bbb")
    write(encoders_folder() / "aaa")
    assert name() == "aaa"
    assert second_encoder() is second_encoder()


def test_the_environment_variable_takes_precedence(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(encoders_folder() / "aaa")
    write(home / "mine")
    monkeypatch.setenv("EKIDEN_ENCODER", "~/mine")
    assert name() == "mine"
    monkeypatch.setenv("EKIDEN_ENCODER", "None")
    assert name() is None


def test_a_broken_folder_is_skipped_with_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    (write(encoders_folder() / "aaa") / "config.json").write_text("{}")
    write(encoders_folder() / "bbb")
    with caplog.at_level(logging.WARNING, "ekiden.embeddings"):
        assert name() == "bbb"
    assert "aaa" in caplog.text
    assert "hidden_size" in caplog.text


@pytest.mark.parametrize("named", ["nowhere", "file", "~nobody-is-called-so/x", "empty"])
def test_a_broken_folder_named_in_the_environment_is_an_error(
    home: Path, monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    (home / "file").write_text("")
    (home / "empty").mkdir()
    monkeypatch.chdir(home)
    write(encoders_folder() / "aaa")
    monkeypatch.setenv("EKIDEN_ENCODER", named)
    with pytest.raises(UserError, match=f"EKIDEN_ENCODER: .*{named}"):
        second_encoder()
