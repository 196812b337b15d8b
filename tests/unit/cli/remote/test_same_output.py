"""A command prints the same of a store, whether a server is in between or not."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ekiden.api.local import sessions as session_states
from ekiden.cli.main import main
from tests.support.relay_team import relay_team
from tests.support.server_thread import server_in_thread


@dataclass(frozen=True, kw_only=True)
class Place:
    """A store with something in it, and a server on it."""

    url: str
    store: str
    folder: Path


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("remote")
    store = str(folder / "s.db")
    with server_in_thread(folder, store=store, team=relay_team()) as url:
        remote = ["--server", url]
        assert main(["run", "hello there", "--session", "a", "--user", "ann", *remote]) == 0
        assert main(["run", "refund 1042 please", "--session", "b", *remote]) == 4
        assert main(["run", "こんにちは 👋", "--session", "c", *remote]) == 0
        assert main(["state", "set", "a", "tier=gold", *remote]) == 0
        assert main(["state", "set", "--user", "ann", "lang=de", *remote]) == 0
        assert main(["memory", "store", "likes blue", "--key", "k1", "--user", "ann", *remote]) == 0
        assert (
            main(["memory", "store", "lives in Köln", "--key", "k2", "--user", "ann", *remote]) == 0
        )
        # To a router, who takes part in nothing: it stays as it is.
        asked = ["collaboration", "request", "nobody", "退款", "--as", "desk", "--key", "k"]
        assert main([*asked, *remote]) == 0
        yield Place(url=url, store=store, folder=folder)


@pytest.fixture
def both(place: Place, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(place.folder)
    capsys.readouterr()

    def run(words: list[str], *here: str) -> tuple[tuple[int, str], tuple[int, str]]:
        local = main([*words, *here])
        printed = capsys.readouterr().out
        remote = main([*words, "--server", place.url])
        told = capsys.readouterr().out
        return (local, printed), (remote, told)

    return run


HANDOFF = "a.h1"
READING = [
    ["session", "list"],
    ["session", "list", "--json-lines"],
    ["session", "list", "--limit", "1"],
    ["session", "list", "--user", "ann"],
    ["session", "list", "--state", "idle", "--state", "waiting_person", "--limit", "2"],
    ["session", "list", "--text", "ANN", "--json-lines"],
    ["session", "show", "a"],
    ["session", "show", "b"],
    ["session", "show", "nope"],
    ["handoff", "list", "--agent", "sales/eu"],
    ["message", "show", "a/b"],
    ["session", "search", "hello"],
    ["session", "search", "nothing of it"],
    ["session", "export", "a"],
    ["session", "fork", "a", "--before", "1"],
    ["session", "prune"],
    ["session", "prune", "--keep", "0", "--dry-run"],
    ["message", "list"],
    ["message", "list", "--agent", "nobody", "--state", "open", "--limit", "1"],
    ["message", "show", "nope"],
    ["message", "requeue", "nope"],
    ["collaboration", "list"],
    ["collaboration", "list", "--agent", "desk", "--phase", "negotiation"],
    ["collaboration", "show", "nope"],
    ["collaboration", "reject", "nope", "--as", "desk"],
    ["chain"],
    ["chain", "a"],
    ["trace", "a"],
    ["trace", "b", "--errors"],
    ["trace", "a", "--plain"],
    ["trace", "nope"],
    ["cost"],
    ["cost", "a", "--by", "agent"],
    ["watch", "--once"],
    ["watch", "--once", "--session", "b", "--type", "inbox"],
    ["inbox", "watch", "--once"],
    ["inbox", "watch", "--once", "--role", "nobody"],
    ["inbox", "list"],
    ["inbox", "list", "--kind", "approval"],
    ["inbox", "show", "inb"],
    ["inbox", "show", "nope"],
    ["audit", "list"],
    ["audit", "list", "--limit", "2", "--oldest-first"],
    ["audit", "list", "--session", "a", "--since", "7d"],
    ["audit", "show", HANDOFF],
    ["audit", "show", "nope"],
    ["audit", "verify"],
    ["audit", "verify", "--session", "a"],
    ["audit", "export"],
    ["handoff", "list"],
    ["handoff", "list", "--to", "desk", "--limit", "1"],
    ["handoff", "list", "--agent", "desk"],
    ["handoff", "show", HANDOFF],
    ["handoff", "show", "nope"],
    ["state", "show", "a"],
    ["state", "show", "a", "--at", "3"],
    ["state", "show", "--user", "ann"],
    ["state", "show", "--user", "nobody"],
    ["memory", "list", "--user", "ann"],
    ["memory", "list", "--user", "ann", "--limit", "1"],
    ["memory", "list", "--user", "ann", "--json-lines"],
    ["memory", "list", "--user", "ann", "--json-lines", "--after", "k1"],
    ["memory", "show", "k2", "--user", "ann"],
    ["memory", "show", "nope", "--user", "ann"],
    ["memory", "search", "blue", "--user", "ann"],
    ["memory", "export", "--user", "ann"],
    ["memory", "sync"],
    ["agents", "deadlocks"],
]
"""Commands that only look; each is compared as people and as programs see it."""

OF_THE_TEAM = [
    ["agents", "list"],
    ["agents", "list", "--json-lines"],
    ["agents", "show", "desk"],
    ["agents", "show", "@triage"],
    ["agents", "show", "nobody"],
    ["agents", "ps"],
    ["agents", "match", "refunds", "--all"],
]
TEAM = ("--team", "tests.support.relay_team:team")

_PASSING = re.compile(
    r'"ekiden":"[^"]*"|(exported|created)_at":[0-9.]+|\b[0-9]+(s|m|h) ago|\bin [0-9]+(s|m|h)\b'
    r"|  [0-9]+s  "
)


_TOOK = re.compile(r"took: [0-9.]+ ms")


def settled(text: str) -> str:
    """Without how long ago things were, or will be, and when an export was made."""
    return _PASSING.sub("", text)


@pytest.mark.parametrize("words", READING, ids=" ".join)
@pytest.mark.parametrize("form", ["people", "json"])
def test_stored_data_is_printed_the_same_locally_and_remotely(
    both: Any, place: Place, words: list[str], form: str
) -> None:
    if form == "json" and "--json-lines" in words:
        pytest.skip("is JSON already")
    more = ["--json"] if form == "json" else []
    here, there = both([*words, *more], "--store", place.store)
    assert there[0] == here[0]
    assert settled(there[1]) == settled(here[1])


@pytest.mark.parametrize(
    "words",
    [
        ["message", "show", "nope"],
        ["message", "requeue", "nope"],
        ["collaboration", "show", "nope"],
        ["audit", "show", "nope"],
    ],
    ids=" ".join,
)
def test_unknown_ids_exit_with_5_locally_and_remotely(
    both: Any, place: Place, words: list[str]
) -> None:
    here, there = both(words, "--store", place.store)
    assert (here, there) == ((5, ""), (5, ""))


@pytest.mark.parametrize(
    "words",
    [
        ["session", "show", "a/b"],
        ["session", "show", "a\nb"],
        ["session", "show", ""],
        ["session", "resume", "a/b"],
        ["chat", "--session", "a\nb"],
        ["run", "hello", "--session", "a/b"],
        ["run", "hello", "--session", "a/b", "--user", "ann"],
        ["run", "x" * 1_000_001],
    ],
    ids=lambda words: " ".join(words)[:40],
)
def test_invalid_requests_are_refused_the_same_locally_and_remotely(
    place: Place,
    words: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(place.folder)
    capsys.readouterr()
    told = []
    for where in (["--store", place.store], ["--server", place.url]):
        assert main([*words, *where, "--json"]) == 2
        told.append(json.loads(capsys.readouterr().err)["error"])
    assert told[0] == told[1]
    assert told[0]["code"] == "request.invalid"


@pytest.mark.parametrize("more", [["--limit", "1"], ["--json-lines"]], ids=" ".join)
def test_session_filters_read_on_until_enough_sessions_match(
    both: Any, place: Place, monkeypatch: pytest.MonkeyPatch, more: list[str]
) -> None:
    monkeypatch.setattr(session_states, "_MAX_READ", 1)
    monkeypatch.setattr(session_states, "_MAX_SCANNED", 1)
    for code, told in both(
        ["session", "list", "--text", "ann", "--state", "idle", *more], "--store", place.store
    ):
        assert code == 0
        assert re.findall(r"^a |\"session_id\":\"a\"", told, re.MULTILINE)


@pytest.mark.parametrize("words", OF_THE_TEAM, ids=" ".join)
@pytest.mark.parametrize("form", ["people", "json"])
def test_the_team_is_printed_the_same_locally_and_remotely(
    both: Any, place: Place, monkeypatch: pytest.MonkeyPatch, words: list[str], form: str
) -> None:
    monkeypatch.setenv("EKIDEN_STORE", place.store)
    more = ["--json"] if form == "json" and "--json-lines" not in words else []
    here, there = both([*words, *more], *TEAM)
    assert there == here


def test_a_run_prints_the_same_json_fields_locally_and_remotely(both: Any, place: Place) -> None:
    (code, here), (remote, there) = both(["run", "hi", "--json"], *TEAM, "--store", "memory:")
    assert code == remote == 0
    local, told = json.loads(here), json.loads(there)
    assert list(told) == list(local)
    assert {**told, "session_id": 0, "handoffs": 0} == {**local, "session_id": 0, "handoffs": 0}


def test_a_streamed_run_prints_the_same_json_lines_locally_and_remotely(both: Any) -> None:
    words = ["run", "hi", "--json", "--stream"]
    (_, here), (_, there) = both(words, *TEAM, "--store", "memory:")
    lines = [[json.loads(line) for line in text.splitlines()] for text in (here, there)]

    def shape(found: list[Any]) -> list[Any]:
        return [
            each["event"]["event_type"] if "event" in each else each
            for each in found
            if "result" not in each
        ]

    assert shape(lines[1]) == shape(lines[0])


def test_routes_and_plans_are_printed_the_same_locally_and_remotely(
    both: Any, tmp_path: Path
) -> None:
    with server_in_thread(tmp_path) as url:
        for words in (
            ["route", "I want a refund"],
            ["route", "@billing hm"],
            ["route", "--strategy", "rule", "Explain quantum chromodynamics"],
            ["plan", "refund 1042"],
        ):
            here, there = (
                json.loads(_out(main, [*words, "--json", *more]))
                for more in ([], ["--server", url])
            )
            assert {**there, "elapsed_ms": 0, "stages": 0} == {**here, "elapsed_ms": 0, "stages": 0}
            shown = [_TOOK.sub("", _out(main, [*words, *more])) for more in ([], ["--server", url])]
            assert shown[0] == shown[1]


def _out(run: Any, words: list[str]) -> str:
    import contextlib
    import io

    with contextlib.redirect_stdout(io.StringIO()) as out:
        assert run(words) == 0
    return out.getvalue()
