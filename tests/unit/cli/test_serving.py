"""What `ekiden serve` says when it begins."""

from __future__ import annotations

from pathlib import Path

import pytest

from ekiden.cli.process import person_token, tell_console
from ekiden.core.errors import UserError
from ekiden.server import ServerConfig

URL = "http://127.0.0.1:8321"


def test_the_console_address_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "index.html").write_text("<!doctype html>")
    tell_console(ServerConfig(static=tmp_path), URL)
    told = capsys.readouterr()
    assert (told.out, told.err) == ("", "console http://127.0.0.1:8321/\n")


def test_the_console_address_has_the_token_of_people(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "index.html").write_text("<!doctype html>")
    tell_console(ServerConfig(static=tmp_path, person_token="t0ken"), URL)
    assert capsys.readouterr().err == "console http://127.0.0.1:8321/?token=t0ken\n"


def test_each_start_has_another_token() -> None:
    assert person_token(None) != person_token(None)


def test_a_token_file_is_created_for_this_user_and_read_again(tmp_path: Path) -> None:
    file = tmp_path / "token"
    token = person_token(file)
    assert file.stat().st_mode & 0o077 == 0
    assert person_token(file) == token


@pytest.mark.parametrize("content", ["", "short", "with spaces and so on, but long", "é" * 30])
def test_a_token_file_without_a_token_is_refused(tmp_path: Path, content: str) -> None:
    file = tmp_path / "token"
    file.write_text(content, "utf-8")
    with pytest.raises(UserError, match="20 to 200 letters"):
        person_token(file)


def test_a_token_file_in_a_missing_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be used"):
        person_token(tmp_path / "missing" / "token")


@pytest.mark.parametrize(
    ("hosts", "address"),
    [
        ([], "http://localhost:8321/"),
        (["desk.example.com"], "http://desk.example.com:8321/"),
        (["desk.example.com:80"], "http://desk.example.com:80/"),
        (["*.example.com", "10.0.0.0/8", "desk.example.com"], "http://desk.example.com:8321/"),
    ],
)
def test_the_console_address_uses_an_accepted_host_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], hosts: list[str], address: str
) -> None:
    (tmp_path / "index.html").write_text("<!doctype html>")
    config = ServerConfig(static=tmp_path, host="0.0.0.0", hosts=hosts)
    tell_console(config, "http://0.0.0.0:8321")
    assert capsys.readouterr().err == f"console {address}\n"


def test_without_a_console_no_address_is_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tell_console(ServerConfig(static=tmp_path), URL)
    (tmp_path / "index.html").write_text("<!doctype html>")
    tell_console(ServerConfig(static=tmp_path, console=False), URL)
    told = capsys.readouterr()
    assert (told.out, told.err) == ("", "")
