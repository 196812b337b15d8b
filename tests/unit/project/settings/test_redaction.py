"""What is shown of settings."""

from __future__ import annotations

import pytest

from ekiden.project.settings import redacted
from tests.support.cases import each_case


def test_values_of_environment_and_headers_are_masked() -> None:
    server = {
        "command": "npx",
        "args": ["-y", "--token=abc", "--api-key", "def", "--port", "80", "--verbose"],
        "env": {"TOKEN": "ghi"},
        "headers": {"Authorization": "Bearer jkl"},
        "timeout": 5,
    }
    shown = {
        "command": "npx",
        "args": ["-y", "--token=***", "--api-key", "***", "--port", "80", "--verbose"],
        "env": {"TOKEN": "***"},
        "headers": {"Authorization": "***"},
        "timeout": 5,
    }
    assert redacted("mcpServers.x", server) == shown
    assert redacted("mcpServers", {"x": server, "y": None}) == {"x": shown, "y": None}
    assert server["env"] == {"TOKEN": "ghi"}


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("postgresql://me:pa@ss@db/x?password=y&schema=z", "postgresql://me:***@db/x?password=***&schema=***"),
        ("postgresql://me@db/x", "postgresql://me@db/x"),
        (".ekiden/ekiden.db", ".ekiden/ekiden.db"),
        (None, None),
        (["git"], ["git"]),
    ],
)  # fmt: skip
def test_passwords_in_addresses_are_masked(value: object, shown: object) -> None:
    assert redacted("store", value) == shown


def test_query_parameters_of_server_addresses_are_masked() -> None:
    assert redacted("mcpServers.x", {"url": "https://x.example.org/mcp?key=abc#top"}) == {
        "url": "https://x.example.org/mcp?key=***#top"
    }


@each_case(
    ("arguments", "shown"),
    [
        (["ghp_abc123"], ["***"]),
        (["--header", "Authorization: Bearer zzz"], ["--header", "Authorization: ***"]),
        (["--header=X-Team:blue"], ["--header=X-Team: ***"]),
        (["-H", "X-Team: blue", "--port", "80"], ["-H", "X-Team: ***", "--port", "80"]),
        (["Authorization: Bearer zzz"], ["Authorization: ***"]),
        (["Bearer zzz"], ["Bearer ***"]),
        (["run", "-e", "REGION=eu", "img"], ["run", "-e", "REGION=***", "img"]),
        (["--env=REGION=eu"], ["--env=REGION=***"]),
        (["-e", "REGION"], ["-e", "REGION"]),
        (["API_KEY=abc", "accessKey=abc"], ["API_KEY=***", "accessKey=***"]),
        (["--pat", "abc", "--password=abc"], ["--pat", "***", "--password=***"]),
        (["--path", "abc", "--patience", "5"], ["--path", "abc", "--patience", "5"]),
        (["/srv/sk-learn", "disk-cleanup-tool"], ["/srv/sk-learn", "disk-cleanup-tool"]),
        (["basic tools"], ["basic tools"]),
        (["https://x.org/?a=ghp_abc", "x=github_pat_1"], ["https://x.org/?a=***", "x=***"]),
    ],
)
def test_secret_arguments_are_masked(arguments: list[str], shown: list[str]) -> None:
    server = {"command": "x", "args": arguments}
    assert redacted("mcpServers.x", server) == {"command": "x", "args": shown}


@each_case(
    "token",
    [
        "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
        "gho_16C7e42F292c69",
        "github_pat_11ABC_def",
        "glpat-abc-DEF",
        "sk-proj-abc_DEF-123",
        "sk-ant-api03-abc",
        "sk_live_abc123",
        "xoxb-123-abc",
        "AKIAIOSFODNN7EXAMPLE",
        "AIzaSyA-1234567",
        "hf_abcdefghij",
        "npm_abcdefghij",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln",
    ],
)
def test_tokens_are_recognized_by_prefix_and_masked_anywhere(token: str) -> None:
    server = {"command": f"run --x {token}", "cwd": f"/srv/{token}", "more": {"a": [token, 1]}}
    assert redacted("mcpServers.x", server) == {
        "command": "run --x ***",
        "cwd": "/srv/***",
        "more": {"a": ["***", 1]},
    }
    assert redacted("tools.shell.allow", [token]) == ["***"]


def test_secret_fields_of_a_server_are_masked() -> None:
    server = {"url": "https://x.org/", "apiKey": "abc", "auth": {"clientSecret": "d", "user": "e"}}
    assert redacted("mcpServers.x", server) == {
        "url": "https://x.org/",
        "apiKey": "***",
        "auth": {"clientSecret": "***", "user": "e"},
    }


def test_arguments_of_the_wrong_type_are_shown_unchanged() -> None:
    assert redacted("mcpServers.x", {"command": "x", "args": [1, "a"]}) == {
        "command": "x",
        "args": [1, "a"],
    }
