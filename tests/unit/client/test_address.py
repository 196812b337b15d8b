"""Where the server is, and with which key."""

from __future__ import annotations

from pathlib import Path

import pytest

from ekiden.client import AsyncClient, Client
from ekiden.client.errors import ClientMisconfigured
from ekiden.client.wire import api_key_of, part, server_address


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("EKIDEN_SERVER", "EKIDEN_API_KEY", "EKIDEN_API_KEY_FILE"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ("http://127.0.0.1:8321", "http://127.0.0.1:8321"),
        ("http://127.0.0.1:8321/", "http://127.0.0.1:8321"),
        ("https://desk.example.com/ekiden/", "https://desk.example.com/ekiden"),
        ("http://localhost/api/v1", "http://localhost"),
    ],
)
def test_an_address_may_have_a_trailing_path(given: str, url: str) -> None:
    assert server_address(given) == url


@pytest.mark.parametrize(
    "given",
    [
        "", "localhost:8321", "ftp://x", "http://", "http://a b", "http://x?y=1", "http://x#y",
        "http://x:99999", "http://[::1", "http://u:secret@x", "http://exämple.com", "http://x\n",
    ],
)  # fmt: skip
def test_an_invalid_address_is_refused_without_showing_secrets(given: str) -> None:
    with pytest.raises(ClientMisconfigured) as caught:
        server_address(given)
    assert "secret" not in str(caught.value)


def test_the_environment_variable_sets_the_server_address(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ClientMisconfigured, match="EKIDEN_SERVER"):
        Client()
    monkeypatch.setenv("EKIDEN_SERVER", "http://127.0.0.1:9")
    assert Client().url == AsyncClient().url == "http://127.0.0.1:9"


def test_the_key_is_read_from_argument_environment_or_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert api_key_of(None) is None
    file = tmp_path / "key"
    file.write_text("from-file\n")
    monkeypatch.setenv("EKIDEN_API_KEY_FILE", str(file))
    assert api_key_of(None) == "from-file"
    monkeypatch.setenv("EKIDEN_API_KEY", "from-environment")
    assert api_key_of(None) == "from-environment"
    assert api_key_of("given") == "given"


@pytest.mark.parametrize("key", ["two words", "schlüssel", "a\nb", "x" * 1001])
def test_an_invalid_key_is_refused_and_not_shown(key: str) -> None:
    with pytest.raises(ClientMisconfigured) as caught:
        api_key_of(key)
    assert key not in str(caught.value)


def test_an_unreadable_key_file_is_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("EKIDEN_API_KEY_FILE", str(tmp_path / "nothing"))
    with pytest.raises(ClientMisconfigured, match="EKIDEN_API_KEY_FILE"):
        api_key_of(None)


def test_the_repr_of_a_client_hides_its_key() -> None:
    client = Client("http://x", api_key="topsecret")
    assert "topsecret" not in repr(client) + repr(vars(client))


@pytest.mark.parametrize(
    ("text", "path"),
    [("a", "a"), ("s1:2", "s1:2"), ("a/b", "a%2Fb"), ("?x#", "%3Fx%23"), ("你", "%E4%BD%A0")],
)
def test_an_id_is_escaped_to_one_path_segment(text: str, path: str) -> None:
    assert part(text) == path


@pytest.mark.parametrize("text", ["", ".", "..", "\ud800"])
def test_an_id_that_changes_the_path_is_refused(text: str) -> None:
    with pytest.raises(ClientMisconfigured):
        part(text)
