"""What goes to the terminal."""

from __future__ import annotations

import json

import pytest

from ekiden.cli.output import complain, emit, note, safe
from ekiden.core.values import dumps

HOSTILE = "a\x1b[31m\x07\x7f\x85\x9b31m\u202egpj\u2066\u2028\u200f\u061c 日本 🙂 \ud800\n"


def is_harmless(text: str) -> bool:
    line = text.removesuffix("\n")
    return all(char.isprintable() or char == " " for char in line)


def test_json_output_is_escaped_without_changing_its_meaning(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for value in (HOSTILE, HOSTILE.replace("\ud800", "")):
        emit({"text": value})
        complain("x.y", value, as_json=True)
        note(dumps({"note": value}))
        shown = capsys.readouterr()
        assert json.loads(shown.out) == {"text": value}
        error, noted = shown.err.splitlines()
        assert json.loads(error) == {"error": {"code": "x.y", "message": value}}
        assert json.loads(noted) == {"note": value}
        assert is_harmless(shown.out)
        assert all(map(is_harmless, (error, noted)))


def test_letters_of_all_scripts_are_printed_unchanged(capsys: pytest.CaptureFixture[str]) -> None:
    emit("日本 🙂 é")
    assert capsys.readouterr().out == '"日本 🙂 é"\n'


def test_control_characters_in_text_output_are_escaped() -> None:
    assert safe("\x1b[2J\r\x9b\u202e\tok\n") == "\\x1b[2J\\r\\u009b\\u202e\tok\n"


def test_error_codes_are_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    complain("x\x1b]0;gone\x07", "words", as_json=False)
    assert is_harmless(capsys.readouterr().err)
