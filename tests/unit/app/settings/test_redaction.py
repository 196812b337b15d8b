"""What is shown of settings."""

from __future__ import annotations

import pytest

from ekiden.app.settings import redacted


def test_values_of_environment_and_headers_are_hidden() -> None:
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
def test_passwords_in_addresses_are_hidden(value: object, shown: object) -> None:
    assert redacted("store", value) == shown


def test_addresses_of_servers_lose_their_parameters() -> None:
    assert redacted("mcpServers.x", {"url": "https://x.example.org/mcp?key=abc#top"}) == {
        "url": "https://x.example.org/mcp?key=***#top"
    }
