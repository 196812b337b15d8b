"""`ekiden state …`."""

from __future__ import annotations

import pytest

from tests.acceptance.conftest import Ekiden

TEAM = """
from ekiden import Agent

async def answer(ctx):
    name, _, value = ctx.text.partition("=")
    if value:
        ctx.set(name, value)
    return ", ".join(sorted(f"{name}={value}" for name, value in ctx.variables.items()))

team = Agent("clerk", run=answer)
"""


@pytest.fixture
def desk(ekiden: Ekiden) -> Ekiden:
    """The command, with a team that stores the variables in a message."""
    (ekiden.folder / "shop.py").write_text(TEAM)
    ekiden.env["EKIDEN_TEAM"] = "shop:team"
    return ekiden


def said(desk: Ekiden, session: str, user: str, text: str) -> str:
    ran = desk("run", "--session", session, text, EKIDEN_USER=user)
    assert ran.code == 0, ran.err
    return ran.out.strip()


def test_state_is_shown_as_of_now_and_after_any_event(desk: Ekiden) -> None:
    said(desk, "s", "ada", "colour=red")
    said(desk, "s", "ada", "colour=blue")
    ran = desk("state", "show", "s")
    assert ran.code == 0
    assert ran.out.splitlines()[:6:5] == ["session: s", "agent: clerk"]
    assert "blue" in ran.out
    now = desk("state", "show", "s", "--json").json
    assert now["variables"] == {"colour": "blue"}
    assert now["current_task"] == "colour=blue"
    values = [
        desk("state", "show", "s", "--at", str(seq), "--json").json["variables"].get("colour")
        for seq in range(1, now["seq"] + 1)
    ]
    assert list(dict.fromkeys(values)) == [None, "red", "blue"]
    beyond = desk("state", "show", "s", "--at", "99", "--json")
    assert (beyond.code, beyond.error["code"]) == (2, "user.error")


@pytest.mark.slow
def test_state_is_set_and_deleted_with_versions(desk: Ekiden) -> None:
    said(desk, "s", "ada", "colour=red")
    seen = desk("state", "show", "s", "--json").json["version"]
    changed = desk(
        "state", "set", "s", "size=3", "tags=[1, 2]", "note=plain text", "--expect", str(seen),
        "--by", "bob", "--json",
    )  # fmt: skip
    assert changed.code == 0
    stale = desk("state", "delete", "--yes", "s", "colour", "--expect", str(seen), "--json")
    assert (stale.code, stale.error["code"]) == (1, "state.stale")
    assert desk("state", "delete", "--yes", "s", "colour", "--by", "bob").code == 0
    variables = desk("state", "show", "s", "--json").json["variables"]
    assert variables == {"size": 3, "tags": [1, 2], "note": "plain text"}
    assert said(desk, "s", "ada", "?").startswith("note=plain text, size=3")


@pytest.mark.slow
def test_user_and_app_state_have_options_of_their_own(desk: Ekiden) -> None:
    said(desk, "s", "ada", "user:language=fr")
    said(desk, "t", "bob", "app:greeting=hello")
    assert said(desk, "u", "ada", "?") == "app:greeting=hello, user:language=fr"
    assert said(desk, "v", "bob", "?") == "app:greeting=hello"
    shown = desk("state", "show", "--user", "ada", "--json").json
    assert shown["variables"]["language"]["value"] == "fr"
    assert desk("state", "show", "--user", "bob").out == "the user bob has no variables\n"
    assert desk("state", "show", "--user", "ad").out == "the user ad has no variables\n"
    assert "greeting" in desk("state", "show", "--app", "ekiden").out
    done = desk("state", "set", "--user", "ada", "language=de", "--expect", "1", "--by", "x")
    assert done.out == "language has version 2\n"
    again = desk("state", "set", "--user", "ada", "language=it", "--expect", "1", "--by", "x")
    assert (again.code, again.err.startswith("error[state.stale]")) == (1, True)
    gone = desk("state", "delete", "--yes", "--user", "ada", "language", "--by", "x")
    assert gone.out == "language is deleted\n"
    assert said(desk, "w", "ada", "?") == "app:greeting=hello"


SENSELESS: list[tuple[str | bytes, ...]] = [
    ("show",),
    ("show", "s", "--user", "ada"),
    ("show", "--user", "ada", "--app", "x"),
    ("show", "--user", "ada", "--at", "1"),
    ("show", "--user", ""),
    ("set",),
    ("set", "s"),
    ("set", "s", "novalue"),
    ("set", "s", "=1"),
    ("set", "s", "a=1", "a=2"),
    ("set", "s", "user:a=1"),
    ("set", "s", "a=NaN"),
    ("set", "--user", "ada", "a=1", "b=2", "--expect", "0"),
    ("set", "s", b"a=\xff"),
    ("set", "--user", b"\xff", "a=1"),
    ("set", "--user", "ada", "user:a=1"),
    ("show", "--app", b"\xff"),
    ("delete", "s", "colour", "colour"),
    ("delete", "s"),
    ("delete", "--app", "x"),
]


@pytest.mark.slow
def test_invalid_state_arguments_are_refused(desk: Ekiden) -> None:
    said(desk, "s", "ada", "colour=red")
    for arguments in SENSELESS:
        ran = desk("state", *arguments, "--json")
        assert (ran.code, ran.out) == (2, ""), arguments
        assert ran.error["message"]


@pytest.mark.slow
def test_state_of_an_unknown_session_exits_with_5(desk: Ekiden) -> None:
    said(desk, "s", "ada", "colour=red")
    assert desk("state", "show", "nope").code == 5
    assert desk("state", "set", "nope", "a=1").code == 5


@pytest.mark.slow
def test_processes_of_agents_cannot_access_user_state(desk: Ekiden) -> None:
    said(desk, "s", "ada", "user:secret=x")
    for arguments in (
        ("show", "--user", "ada"),
        ("set", "--user", "ada", "a=1"),
        ("set", "s", "a=1"),
    ):
        ran = desk("state", *arguments, "--json", EKIDEN_ACTING_AGENT="spy")
        assert (ran.code, ran.error["code"]) == (1, "state.refused")
        assert "secret" not in ran.out
