"""`mcpServers` as people and other programs write it."""

from __future__ import annotations

from typing import Any

import pytest

from ekiden.core.errors import McpUnavailable
from ekiden.tools.mcp_servers import McpServer, parse_mcp_servers
from tests.support.cases import each_case


def parsed(entry: Any) -> McpServer:
    servers, problems = parse_mcp_servers({"s": entry})
    assert problems == ()
    return servers["s"]


def problems_of(entry: Any) -> str:
    servers, problems = parse_mcp_servers({"s": entry})
    assert servers == {}
    return "\n".join(problems)


def test_a_stdio_server_entry_is_read_completely() -> None:
    assert parsed(
        {
            "type": "stdio",
            "command": "npx",
            "args": ["-y", "server"],
            "env": {"KEY": "${KEY}"},
            "cwd": "tools",
            "disabled": True,
            "timeout": 5,
        }
    ) == McpServer(
        name="s",
        transport="stdio",
        command="npx",
        args=("-y", "server"),
        env={"KEY": "${KEY}"},
        cwd="tools",
        disabled=True,
        timeout=5,
    )


@each_case(
    ("entry", "transport"),
    [
        ({"url": "https://x.example/mcp"}, "http"),
        ({"type": "http", "url": "https://x.example/mcp"}, "http"),
        ({"type": "streamable-http", "url": "https://x.example/mcp"}, "http"),
        ({"transport": "streamableHttp", "url": "https://x.example/mcp"}, "http"),
        ({"type": "SSE", "url": "https://x.example/sse"}, "sse"),
        ({"httpUrl": "https://x.example/mcp"}, "http"),
        ({"serverUrl": "${URL}/mcp"}, "http"),
        ({"url": "http://${HOST}:${PORT:-80}/mcp"}, "http"),
        ({"url": "http://[::1]:8080/mcp"}, "http"),
    ],
)
def test_a_url_entry_is_read_in_every_spelling(entry: dict[str, str], transport: str) -> None:
    assert parsed(entry).transport == transport


def test_keys_of_other_programs_are_ignored() -> None:
    entry = {"command": "x", "autoApprove": ["*"], "trust": True, "alwaysAllow": []}
    assert parsed(entry) == McpServer(name="s", command="x")


@each_case(
    ("entry", "problem"),
    [
        (None, "mcpServers.s: must be an object with `command` or `url`"),
        ([], "must be an object"),
        ({}, "needs either `command`, to start it, or `url`, to ask it"),
        ({"command": "x", "url": "https://x"}, "needs either"),
        ({"command": 3}, "mcpServers.s.command: must be text"),
        ({"command": "a\0b"}, "must be text"),
        ({"command": "x", "args": "y"}, "mcpServers.s.args: must be a list of texts"),
        ({"command": "x", "args": [1]}, "must be a list of texts"),
        ({"command": "x", "env": {"A": 1}}, "mcpServers.s.env: must be an object of texts"),
        ({"command": "x", "env": ["A"]}, "must be an object of texts"),
        ({"command": "x", "disabled": "no"}, "mcpServers.s.disabled: must be true or false"),
        ({"command": "x", "timeout": 0}, "must be a number of seconds above 0"),
        ({"command": "x", "timeout": True}, "must be a number of seconds above 0"),
        ({"command": "x", "timeout": float("inf")}, "must be a number of seconds above 0"),
        ({"command": "x", "type": "http"}, "is 'http', and must be 'stdio' here"),
        ({"url": "https://x", "type": "stdio"}, "must be 'http' or 'sse' here"),
        ({"url": "https://x", "type": "carrier-pigeon"}, "must be 'http' or 'sse' here"),
        ({"url": "ftp://x"}, "must begin with http:// or https://"),
        ({"url": "https://"}, "and name a host"),
        ({"url": "http://:80/mcp"}, "and name a host"),
        ({"url": "http://bad host/mcp"}, "mcpServers.s.url: must not contain spaces"),
        ({"url": "http://a/mcp\n/b"}, "must not contain spaces or control characters"),
        ({"url": "http://a:99999/mcp"}, "must have a port from 1 to 65535"),
        ({"url": "http://a:port/mcp"}, "must have a port from 1 to 65535"),
        ({"url": "http://a:0/mcp"}, "must have a port from 1 to 65535"),
        ({"url": "http://[::1/mcp"}, "is not a valid URL: check the host"),
        ({"httpUrl": "ws://x"}, "mcpServers.s.httpUrl: must begin with http://"),
        ({"comand": "x"}, "mcpServers.s.comand: is not known; did you mean 'command'?"),
    ],
)
def test_an_invalid_entry_is_reported_with_its_place(entry: Any, problem: str) -> None:
    assert problem in problems_of(entry)


def test_all_problems_are_reported_and_valid_servers_are_kept() -> None:
    servers, problems = parse_mcp_servers(
        {"good": {"command": "x"}, "bad": {"args": 1, "env": 2}, "": {"command": "x"}}
    )
    assert list(servers) == ["good"]
    assert len(problems) == 4


def test_variables_are_expanded_everywhere() -> None:
    server = McpServer(
        name="s",
        command="${BIN}/x",
        args=("--key=${KEY}", "$KEY", "${OTHER:-none}", "${EMPTY:-}"),
        env={"A": "${KEY}${KEY}"},
        url="https://${HOST:-localhost}/",
        headers={"Authorization": "Bearer ${KEY}"},
    )
    filled = server.filled_in({"BIN": "/opt", "KEY": "k"})
    assert filled.command == "/opt/x"
    assert filled.args == ("--key=k", "$KEY", "none", "")
    assert filled.env == {"A": "kk"}
    assert filled.url == "https://localhost/"
    assert filled.headers == {"Authorization": "Bearer k"}


def test_a_url_made_invalid_by_a_variable_is_refused_without_showing_it() -> None:
    server = parsed({"url": "https://x.example:${PORT}/mcp"})
    with pytest.raises(McpUnavailable, match="must have a port from 1 to 65535") as failed:
        server.filled_in({"PORT": "sesame"})
    assert "sesame" not in str(failed.value)


def test_all_unset_variables_are_named() -> None:
    server = McpServer(name="s", command="x", env={"A": "${ONE}", "B": "${TWO}${ONE}"})
    with pytest.raises(McpUnavailable, match="the environment variable ONE, TWO is not set"):
        server.filled_in({})


def test_a_trailing_newline_of_a_header_is_removed() -> None:
    server = McpServer(name="s", url="https://x/", headers={"Authorization": "Bearer ${KEY}"})
    assert server.filled_in({"KEY": "k\n"}).headers == {"Authorization": "Bearer k"}


@pytest.mark.parametrize("secret", ["qu13t\nqu13t", "qu13t\x00", "qu13té"])
def test_an_invalid_header_is_named_and_not_shown(secret: str) -> None:
    server = McpServer(name="s", url="https://x/", headers={"Authorization": "Bearer ${KEY}"})
    with pytest.raises(McpUnavailable, match="'Authorization'") as caught:
        server.filled_in({"KEY": secret})
    assert "qu13t" not in str(caught.value)


def test_the_repr_hides_possible_secrets() -> None:
    server = McpServer(name="s", env={"KEY": "hush"}, headers={"X": "hush"})
    assert "hush" not in repr(server)
