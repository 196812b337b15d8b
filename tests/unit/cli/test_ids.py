"""Ids as people type them: the beginning is enough, here and at a server."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ekiden.cli.main import main
from tests.support.relay_team import relay_team
from tests.support.server_thread import server_in_thread

MADE = "ses_06gys83gccfsxnhty551"
OTHER = "ses_06gys83gccfsxnhtz000"


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, list[str]]]:
    """A store with two sessions whose ids begin alike, and a server on it."""
    folder = tmp_path_factory.mktemp("ids")
    store = str(folder / "s.db")
    with server_in_thread(folder, store=store, team=relay_team()) as url:
        for session in (MADE, OTHER):
            assert main(["run", "refund 1042", "--session", session, "--server", url]) == 4
        yield {"store": ["--store", store], "server": ["--server", url]}


@pytest.fixture(params=["store", "server"])
def ekiden(
    request: pytest.FixtureRequest,
    places: dict[str, list[str]],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> Callable[..., tuple[int, str, str]]:
    monkeypatch.chdir(tmp_path)
    capsys.readouterr()

    def run(*words: str) -> tuple[int, str, str]:
        code = main([*words, *places[request.param]])
        return code, *capsys.readouterr()

    return run


Ekiden = Callable[..., tuple[int, str, str]]


@pytest.mark.parametrize(
    "words",
    [
        ("session", "show"),
        ("session", "export"),
        ("chain",),
        ("trace",),
        ("state", "show"),
        ("cost",),
        ("audit", "list", "--session"),
        ("inbox", "list", "--session"),
        ("handoff", "list", "--session"),
        ("message", "list", "--session"),
        ("audit", "verify", "--session"),
    ],
    ids=" ".join,
)
def test_a_session_id_can_be_shortened_to_a_unique_prefix(
    ekiden: Ekiden, words: tuple[str, ...]
) -> None:
    whole = ekiden(*words, MADE, "--json")
    short = ekiden(*words, MADE[:21], "--json")
    assert short[0] == whole[0] == 0
    assert _settled(short[1]) == _settled(whole[1])


@pytest.mark.parametrize("words", [("session", "show"), ("session", "delete", "--yes"), ("chain",)])
def test_an_ambiguous_prefix_is_refused_with_the_candidates(
    ekiden: Ekiden, words: tuple[str, ...]
) -> None:
    code, out, err = ekiden(*words, "ses_06gys83")
    assert (code, out) == (2, "")
    assert MADE in err
    assert OTHER in err


def test_handoffs_and_records_of_a_session_are_found_by_prefix(ekiden: Ekiden) -> None:
    handoff = json.loads(ekiden("handoff", "list", "--session", MADE, "--json")[1])[0]["id"]
    begun = handoff.replace(MADE, MADE[:21])
    assert json.loads(ekiden("handoff", "show", begun, "--json")[1])["id"] == handoff
    code, _, err = ekiden("audit", "show", begun)
    assert (code, err) == (0, "")


def test_run_does_not_create_a_session_for_an_ambiguous_prefix(ekiden: Ekiden) -> None:
    code, _, err = ekiden("run", "hello", "--session", "ses_06gys83")
    assert code == 2
    assert "prefix of 2 sessions" in err


def test_an_unknown_prefix_is_not_found(ekiden: Ekiden) -> None:
    assert ekiden("session", "show", "ses_07")[0] == 5


@pytest.mark.parametrize(
    "words",
    [
        ("session", "delete", MADE),
        ("session", "prune", "--keep", "0", "--status", "waiting"),
        ("state", "delete", MADE, "tier"),
        ("memory", "forget", "colour", "--user", "anna"),
        ("memory", "clear", "--user", "anna"),
    ],
    ids=" ".join,
)
def test_without_a_terminal_a_removal_needs_confirmation(
    ekiden: Ekiden, words: tuple[str, ...]
) -> None:
    assert ekiden("memory", "store", "blue", "--key", "colour", "--user", "anna")[0] == 0
    code, out, err = ekiden(*words, "--json")
    assert (code, out) == (2, "")
    assert json.loads(err)["error"]["code"] == "cli.not_confirmed"


def test_a_key_is_revoked_by_a_prefix_with_confirmation(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = ["--store", str(tmp_path / "k.db")]
    assert main(["keys", "create", "shop", "--scope", "read", "--json", *store]) == 0
    made = json.loads(capsys.readouterr().out)["id"]
    assert main(["keys", "revoke", made[:5], *store]) == 2
    assert f"revoke the key {made} (shop)" in capsys.readouterr().err
    assert main(["keys", "revoke", made[:5], "--yes", *store]) == 0


def _settled(text: str) -> str:
    """Without when an export was made."""
    return text.partition('"exported_at"')[0]
