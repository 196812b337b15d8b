"""Stores that are elsewhere, away, or not what they should be."""

from __future__ import annotations

import apsw
import pytest

from tests.acceptance.conftest import Ekiden

ORDER = "Where is my order 1042?"


@pytest.mark.slow
def test_the_environment_names_the_store(ekiden: Ekiden) -> None:
    assert ekiden("run", "--session", "s1", ORDER, EKIDEN_STORE="desk.db").code == 0
    assert ekiden("session", "show", "s1", "--store", "sqlite:///desk.db").code == 0
    assert not (ekiden.folder / ".ekiden").exists()


@pytest.mark.slow
def test_the_memory_store_writes_no_files(ekiden: Ekiden) -> None:
    assert ekiden("run", ORDER, "--store", "memory:").code == 0
    assert not list(ekiden.folder.iterdir())


def test_everything_works_on_postgres(ekiden: Ekiden, postgres_url: str) -> None:
    ekiden.env["EKIDEN_STORE"] = postgres_url
    assert ekiden("run", "--session", "s1", ORDER).code == 0
    assert ekiden("chain", "--json").json["chain"] == ["user", "triage", "orders"]
    assert f"user: {ORDER}\n" in ekiden("session", "show", "s1").out
    assert ekiden("doctor", "--json").json["ok"] is True
    assert ekiden("session", "delete", "s1", "--yes").code == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [["session", "list"], ["session", "show", "s1"], ["chain"], ["session", "resume", "s1"]],
)
def test_read_only_commands_create_no_store(ekiden: Ekiden, command: list[str]) -> None:
    ran = ekiden(*command, "--json")
    assert (ran.code, ran.error["code"]) == (7, "store.unavailable")
    assert "`ekiden run` creates it" in ran.error["message"]
    assert not list(ekiden.folder.iterdir())


@pytest.mark.slow
def test_a_missing_folder_exits_with_7(ekiden: Ekiden) -> None:
    ran = ekiden("run", ORDER, "--store", "typo/desk.db")
    assert ran.code == 7
    assert ran.err.startswith("error[store.unavailable]: the folder typo does not exist")


@pytest.mark.slow
def test_a_file_that_is_no_store_exits_with_7(ekiden: Ekiden) -> None:
    ekiden.write("desk.db", "this is a text and not a database" * 200)
    ran = ekiden("run", ORDER, "--store", "desk.db")
    assert ran.code == 7
    assert ran.err.startswith("error[store.")


def test_a_newer_store_exits_with_7_and_advice(ekiden: Ekiden) -> None:
    ekiden("run", ORDER, EKIDEN_STORE="desk.db")
    connection = apsw.Connection(str(ekiden.folder / "desk.db"))
    connection.pragma("user_version", 999)
    connection.close()
    ran = ekiden("session", "list", "--store", "desk.db", "--json")
    assert (ran.code, ran.error["code"]) == (7, "store.too_new")
    assert "pip install -U ekiden" in ran.error["message"]


@pytest.mark.slow
def test_an_unreachable_server_exits_with_7_and_the_password_is_masked(ekiden: Ekiden) -> None:
    ran = ekiden("session", "list", "--store", "postgresql://me:geheim@127.0.0.1:9/desk")
    assert ran.code == 7
    assert ran.err.startswith("error[store.unavailable]: ")
    assert "geheim" not in ran.err


@pytest.mark.slow
def test_an_unsupported_store_address_exits_with_2(ekiden: Ekiden) -> None:
    assert ekiden("run", ORDER, "--store", "mysql://localhost/desk").code == 2
