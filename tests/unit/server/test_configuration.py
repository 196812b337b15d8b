"""How the server is to be, from settings and options."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from ekiden.core.checks.addresses import parse_host, read_hosts
from ekiden.core.errors import SettingsInvalid, UserError
from ekiden.project.settings import Settings, load_settings
from ekiden.project.settings.model import ServerSettings
from ekiden.server import ServerConfig
from ekiden.server.configuration import server_config


def test_server_settings_and_server_config_have_the_same_defaults() -> None:
    assert server_config(Settings()) == ServerConfig()


def test_every_server_setting_reaches_the_server_config() -> None:
    named = {each.name for each in fields(ServerSettings)}
    assert named <= {each.name for each in fields(ServerConfig)}
    other = ServerSettings(
        host="::1",
        port=1,
        hosts=("a.example",),
        origins=("https://a.example",),
        allow_local=False,
        rate=1.0,
        burst=2,
        wrong_keys=9,
        max_body=3,
        max_requests=4,
        max_streams=5,
        max_key_requests=6,
        max_key_streams=7,
        max_connections=8,
        console=False,
    )
    config = server_config(Settings(server=other))
    assert all(getattr(config, name) == getattr(other, name) for name in named)


@pytest.mark.parametrize(
    ("host", "is_known"),
    [
        ("desk.example.com", True),
        ("a.b.Example.com:8080", True),
        ("example.com", False),
        ("badexample.com", False),
        ("x.other.org:8443", True),
        ("x.other.org", False),
        ("svc.internal", True),
        ("10.20.30.40:8321", True),
        ("11.0.0.1", False),
        ("10.0.0.1.example.org", False),
        ("[fd00::7]:80", True),
        ("[fe80::7]", False),
        ("name.example.net", True),
    ],
)
def test_hosts_can_be_names_patterns_and_networks(host: str, is_known: bool) -> None:
    known = read_hosts(
        [
            "*.example.com",
            "*.other.org:8443",
            "*.internal",
            "10.0.0.0/8",
            "fd00::/8",
            "name.example.net",
        ]
    )
    found = parse_host(host)
    assert found is not None
    assert (found in known) is is_known


def test_a_page_address_given_as_a_host_is_refused() -> None:
    with pytest.raises(UserError, match="is not a host; write names such as"):
        read_hosts(["https://desk.example.com"])


def test_options_override_settings() -> None:
    settings = Settings(server=ServerSettings(host="::1", port=1))
    config = server_config(settings, host=None, port=2)
    assert (config.host, config.port) == ("::1", 2)


@pytest.mark.parametrize(
    "server",
    [
        *(
            ServerSettings(hosts=(host,))
            for host in (
                "*",
                "*.",
                "*.com",
                "a.*.example.com",
                "**.example.com",
                "10.0.0.1/8",
                "/8",
            )
        ),
        ServerSettings(origins=("a.example",)),
    ],
)
def test_invalid_host_names_are_refused(server: ServerSettings) -> None:
    with pytest.raises(UserError, match=r"server\."):
        server_config(Settings(server=server))


def test_settings_are_read_from_the_file_and_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / ".ekiden"
    folder.mkdir()
    (folder / "settings.json").write_text('{"server": {"port": 9000, "hosts": ["a.example"]}}')
    monkeypatch.setenv("EKIDEN_HOST", "::1")
    found = load_settings(tmp_path, home=tmp_path / "home").settings.server
    assert (found.host, found.port, found.hosts) == ("::1", 9000, ("a.example",))
    for written in (
        "a.example, *.b.example,10.0.0.0/8",
        '["a.example", "*.b.example", "10.0.0.0/8"]',
    ):
        monkeypatch.setenv("EKIDEN_SERVER_HOSTS", written)
        found = load_settings(tmp_path, home=tmp_path / "home").settings.server
        assert found.hosts == ("a.example", "*.b.example", "10.0.0.0/8")
        server_config(Settings(server=found))


def test_an_invalid_port_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / ".ekiden"
    folder.mkdir()
    (folder / "settings.json").write_text('{"server": {"port": 70000}}')
    with pytest.raises(SettingsInvalid, match=r"server\.port"):
        load_settings(tmp_path, home=tmp_path / "home")
