"""`ekiden config` as people and scripts use it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.acceptance.conftest import Ekiden

NOTED = b"""\
{
\t// Ours; ask before you change it.\r
\t"model": "openai:x",   /* cheap */
\t"agents": { "routing": { "strategy": "llm" }, },
}"""


@pytest.fixture
def ekiden(ekiden: Ekiden, tmp_path: Path) -> Ekiden:
    """The command, with a home of its own."""
    home = tmp_path / "home"
    home.mkdir(exist_ok=True)
    ekiden.env["HOME"] = str(home)
    return ekiden


def file_of(ekiden: Ekiden) -> Path:
    path = ekiden.folder / ".ekiden" / "settings.json"
    path.parent.mkdir(exist_ok=True)
    return path


def test_config_set_keeps_the_rest_of_the_file_byte_for_byte(ekiden: Ekiden) -> None:
    file_of(ekiden).write_bytes(NOTED)
    assert ekiden("config", "set", "routing.strategy", "rule").code == 0
    assert file_of(ekiden).read_bytes() == NOTED.replace(b'"llm"', b'"rule"')
    assert ekiden("config", "set", "routing.llm.timeout", "900").code == 0
    assert file_of(ekiden).read_bytes() == NOTED.replace(
        b'"llm" }', b'"rule", "llm": {"timeout": 900} }'
    )
    assert ekiden("config", "unset", "routing.llm").code == 0
    assert file_of(ekiden).read_bytes() == NOTED.replace(b'"llm"', b'"rule"')


@pytest.mark.slow
def test_the_environment_overrides_the_project_and_the_project_the_user(ekiden: Ekiden) -> None:
    ekiden("config", "set", "--user", "routing.strategy", "semantic")
    assert ekiden("config", "get", "routing.strategy").out == "semantic\n"
    ekiden("config", "set", "routing.strategy", "llm")
    assert ekiden("config", "get", "routing.strategy").out == "llm\n"
    ran = ekiden("config", "get", "routing.strategy", EKIDEN_ROUTING_STRATEGY="rule")
    assert ran.out == "rule\n"


@pytest.mark.slow
def test_all_faults_of_both_files_are_reported_at_once(ekiden: Ekiden) -> None:
    ekiden("config", "set", "--user", "model", "openai:b")
    user = Path(ekiden.env["HOME"]) / ".ekiden" / "settings.json"
    user.write_text('{\n  "modle": "x"\n}')
    file_of(ekiden).write_text('{"chat": {"history": "many"},\n "store" "x"}')
    ran = ekiden("config", "list", EKIDEN_ROUTING_ENABLED="maybe")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.splitlines() == [
        "error[settings.invalid]: some settings are invalid:",
        f"{user}:2:3: there is no setting 'modle'; did you mean 'model'?",
        ".ekiden/settings.json:2:10: found '\"', expected a colon",
        "EKIDEN_ROUTING_ENABLED: agents.routing.enabled must be true or false, not 'maybe'",
    ]
    assert ekiden("config", "list", "--json").error["code"] == "settings.invalid"


def test_concurrent_writes_by_processes_lose_nothing(ekiden: Ekiden) -> None:
    values = {
        "model": "openai:x",
        "store": "x.db",
        "local.model": "x.gguf",
        "agents.routing.llm.model": "openai:y",
    }
    writers = [ekiden.start("config", "set", key, value) for key, value in values.items()]
    for writer in writers:
        _, err = writer.communicate(timeout=60)
        assert writer.returncode == 0, err
    listed = {each["key"]: each["value"] for each in ekiden("config", "list", "--json").json}
    assert {key: listed[key] for key in values} == values
    assert [path.name for path in file_of(ekiden).parent.iterdir()] == ["settings.json"]


@pytest.mark.slow
def test_text_that_is_not_utf_8_is_an_error_without_traceback(ekiden: Ekiden) -> None:
    ran = ekiden("config", "set", "model", b"a:\xff")
    assert ran.code == 2
    assert "error[cli.bad_input]" in ran.err
    assert "is not UTF-8" in ran.err
    file_of(ekiden).write_bytes(b'{"model": "\xff"}')
    ran = ekiden("config", "list")
    assert ran.code == 2
    assert ".ekiden/settings.json:1:12: is not UTF-8 here" in ran.err


@pytest.mark.slow
def test_a_reader_never_sees_a_partly_written_file(ekiden: Ekiden) -> None:
    file_of(ekiden).write_bytes(NOTED)
    writer = ekiden.start("config", "set", "model", "openai:" + "y" * 4000)
    seen = set()
    while True:
        seen.add(file_of(ekiden).read_bytes())
        try:
            writer.wait(timeout=0.001)
        except subprocess.TimeoutExpired:
            continue
        break
    writer.communicate()
    seen.add(file_of(ekiden).read_bytes())
    assert len(seen) == 2
