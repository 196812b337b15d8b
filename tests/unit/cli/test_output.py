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


def test_json_is_harmless_and_means_the_same(capsys: pytest.CaptureFixture[str]) -> None:
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


def test_other_letters_stay_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    emit("日本 🙂 é")
    assert capsys.readouterr().out == '"日本 🙂 é"\n'


def test_text_for_people_has_its_control_characters_spelled_out() -> None:
    assert safe("\x1b[2J\r\x9b\u202e\tok\n") == "\\x1b[2J\\r\\u009b\\u202e\tok\n"


def test_the_code_of_an_error_is_harmless_too(capsys: pytest.CaptureFixture[str]) -> None:
    complain("x\x1b]0;gone\x07", "words", as_json=False)
    assert is_harmless(capsys.readouterr().err)
