"""`ekiden keys …`."""

from __future__ import annotations

import re

import pytest

from tests.acceptance.conftest import Ekiden

RECORD = {
    "id",
    "name",
    "tenant",
    "scopes",
    "status",
    "created_at",
    "expires_at",
    "last_used_at",
    "revoked_at",
}


def test_a_key_is_shown_once(ekiden: Ekiden) -> None:
    made = ekiden("keys", "create", "console", "--scope", "read", "--scope", "answer")
    assert made.code == 0, made.err
    key = made.out.strip()
    assert re.fullmatch(r"ek_[a-z0-9]{8}_[A-Za-z0-9]{40}", key)
    assert key not in made.err
    listed = ekiden("keys", "list")
    assert key.split("_")[1] in listed.out
    assert key.split("_")[2] not in listed.out
    assert "read answer" in listed.out
    for path in ekiden.folder.rglob("*.db*"):
        assert key.split("_")[2].encode() not in path.read_bytes()


@pytest.mark.slow
def test_keys_are_printed_as_json(ekiden: Ekiden) -> None:
    made = ekiden(
        "keys", "create", "安娜", "--scope", "run", "--tenant", "acme", "--expires", "30d", "--json"
    ).json
    assert made.keys() == {*RECORD, "key"}
    assert (made["name"], made["tenant"], made["scopes"]) == ("安娜", "acme", ["run"])
    assert made["expires_at"] - made["created_at"] == pytest.approx(30 * 86400)
    [listed] = ekiden("keys", "list", "--json").json
    assert listed.keys() == RECORD
    assert listed["status"] == "active"
    assert ekiden("keys", "list", "--tenant", "other", "--json").json == []


@pytest.mark.slow
def test_a_revoked_key_is_listed_as_revoked(ekiden: Ekiden) -> None:
    made = ekiden("keys", "create", "old", "--scope", "admin", "--json").json
    said = ekiden("keys", "revoke", "--yes", made["id"])
    assert said.out == f"{made['id']} (old) is revoked\n"
    revoked = ekiden("keys", "revoke", "--yes", f"ek_{made['id']}", "--json").json
    assert revoked["status"] == "revoked"
    [listed] = ekiden("keys", "list", "--json").json
    assert listed == revoked


@pytest.mark.slow
def test_an_empty_store_has_no_keys(ekiden: Ekiden) -> None:
    ekiden("run", "@triage Hello")
    assert ekiden("keys", "list").out == "there are no keys\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "code", "error"),
    [
        (["keys", "create", "x"], 2, "cli.usage"),
        (["keys", "create", "x", "--scope", "root"], 2, "cli.usage"),
        (["keys", "create", "", "--scope", "read"], 2, "request.invalid"),
        (["keys", "create", "x", "--scope", "read", "--tenant", "../x"], 2, "request.invalid"),
        (["keys", "create", "x", "--scope", "read", "--expires", "never"], 2, "cli.usage"),
        (["keys", "create", "x", "--scope", "read", "--store", "memory:"], 2, "cli.usage"),
        (["keys", "list", "--store", "none.db"], None, "store.unavailable"),
    ],
)
def test_invalid_keys_commands_are_refused(
    ekiden: Ekiden, arguments: list[str], code: int | None, error: str
) -> None:
    ran = ekiden(*arguments, "--json")
    assert ran.error["code"] == error
    assert ran.code != 0
    assert code is None or ran.code == code


@pytest.mark.slow
def test_an_unknown_key_is_not_found(ekiden: Ekiden) -> None:
    ekiden("keys", "create", "x", "--scope", "read")
    ran = ekiden("keys", "revoke", "--yes", "nonesuch", "--json")
    assert ran.error["code"] == "auth.unknown_key"
    assert ran.code == 5


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_a_server_open_to_other_machines_does_not_start_without_a_key(
    ekiden: Ekiden, host: str
) -> None:
    ran = ekiden("serve", "--host", host, "--port", "0", "--json")
    assert ran.error["code"] == "server.exposed"
    assert "ekiden keys create" in ran.error["message"]
    assert ran.code == 2
