"""What was typed before is remembered privately."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from ekiden.cli.chat.prompt import PrivateHistory, is_memorable


def _load(path: Path, limit: int = 1000) -> list[str]:
    return list(PrivateHistory(path, limit=limit).load_history_strings())


def test_typed_lines_are_available_in_the_next_chat_newest_first(tmp_path: Path) -> None:
    file = tmp_path / ".ekiden" / "chat_history"
    history = PrivateHistory(file)
    for text in ("one", "two\nlines", "三 🏃", "lone \ud83d"):
        history.append_string(text)
    assert _load(file) == ["lone \ud83d", "三 🏃", "two\nlines", "one"]
    assert history.get_strings() == ["one", "two\nlines", "三 🏃", "lone \ud83d"]


def test_only_the_user_can_read_the_history_file(tmp_path: Path) -> None:
    file = tmp_path / "chat_history"
    file.write_text('"old"\n')
    file.chmod(0o644)
    PrivateHistory(file).append_string("new")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert _load(file) == ["new", "old"]


def test_the_history_file_has_a_maximum_length(tmp_path: Path) -> None:
    file = tmp_path / "chat_history"
    history = PrivateHistory(file, limit=10)
    for number in range(25):
        history.append_string(str(number))
    assert _load(file, limit=10) == [str(number) for number in range(24, 14, -1)]
    assert len(file.read_text().splitlines()) == 10
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [each.name for each in tmp_path.iterdir()] == ["chat_history"]


def test_a_history_limit_of_zero_stores_nothing(tmp_path: Path) -> None:
    file = tmp_path / "chat_history"
    file.write_text('"old"\n')
    assert _load(file, limit=0) == []
    history = PrivateHistory(file)
    history._loaded_strings = ["old"]
    history.keep(0)
    history.append_string("new")
    assert file.read_text() == '"old"\n'
    assert "old" not in history.get_strings()


@pytest.mark.parametrize(
    "text",
    [
        " not this",
        "x" * 30_000,
        "my api_key=abcdef123456",
        'set "password": "hunter2hunter2"',
        "Authorization: Bearer abcdefghijklmnop",
        "use sk-abcdefghijklmnopqrst",
        "TOKEN=ghp_0123456789abcdef",
    ],
)
def test_lines_with_secrets_are_not_stored(tmp_path: Path, text: str) -> None:
    file = tmp_path / "chat_history"
    PrivateHistory(file).append_string(text)
    assert not file.exists()
    assert not is_memorable(text)


@pytest.mark.parametrize(
    "text", ["the token expired yesterday", "reset my password", "what is a secret: why?", "sk-1"]
)
def test_lines_about_secrets_are_stored(text: str) -> None:
    assert is_memorable(text)


def test_a_damaged_history_file_is_read_as_far_as_possible(tmp_path: Path) -> None:
    file = tmp_path / "chat_history"
    file.write_bytes(b'"good"\nnonsense\n123\n\xff\xfe\n"half')
    assert _load(file) == ["good"]
    assert _load(tmp_path / "missing") == []
    assert _load(tmp_path) == []


def test_an_unwritable_history_file_does_not_disturb_the_chat(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    history = PrivateHistory(tmp_path / "file" / "chat_history")
    history.append_string("hello")
    assert history.get_strings() == ["hello"]


def test_a_symlink_as_history_file_is_not_followed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("")
    (tmp_path / "chat_history").symlink_to(elsewhere)
    PrivateHistory(tmp_path / "chat_history").append_string("hello")
    assert elsewhere.read_text() == ""


def test_entries_are_json_lines(tmp_path: Path) -> None:
    file = tmp_path / "chat_history"
    PrivateHistory(file).append_string("a\nb")
    assert [json.loads(line) for line in file.read_text().splitlines()] == ["a\nb"]
