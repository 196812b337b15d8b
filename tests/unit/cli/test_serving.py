"""What `ekiden serve` says when it begins."""

from __future__ import annotations

from pathlib import Path

import pytest

from ekiden.cli.process import tell_console
from ekiden.server import ServerConfig

URL = "http://127.0.0.1:8321"


def test_the_console_address_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
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
