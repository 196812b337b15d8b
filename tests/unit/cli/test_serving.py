"""What `ekiden serve` says when it begins."""

from __future__ import annotations

from pathlib import Path

import pytest

from ekiden.cli.process import tell_console
from ekiden.server import ServerConfig

URL = "http://127.0.0.1:8321"


def test_the_address_of_the_console_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "index.html").write_text("<!doctype html>")
    tell_console(ServerConfig(static=tmp_path), URL)
    told = capsys.readouterr()
    assert (told.out, told.err) == ("", "console http://127.0.0.1:8321/\n")


@pytest.mark.parametrize(
    ("hosts", "address"),
    [
        ([], "http://localhost:8321/"),
        (["desk.example.com"], "http://desk.example.com:8321/"),
        (["desk.example.com:80"], "http://desk.example.com:80/"),
        (["*.example.com", "10.0.0.0/8", "desk.example.com"], "http://desk.example.com:8321/"),
    ],
)
def test_it_is_told_by_a_name_that_the_server_answers_to(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], hosts: list[str], address: str
) -> None:
    (tmp_path / "index.html").write_text("<!doctype html>")
    config = ServerConfig(static=tmp_path, host="0.0.0.0", hosts=hosts)
    tell_console(config, "http://0.0.0.0:8321")
    assert capsys.readouterr().err == f"console {address}\n"


def test_nothing_is_told_of_a_console_that_is_not_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tell_console(ServerConfig(static=tmp_path), URL)
    (tmp_path / "index.html").write_text("<!doctype html>")
    tell_console(ServerConfig(static=tmp_path, console=False), URL)
    told = capsys.readouterr()
    assert (told.out, told.err) == ("", "")
