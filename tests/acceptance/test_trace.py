"""`ekiden trace`: what happened in a session, for people and for other programs."""

from __future__ import annotations

import json
import signal
import subprocess
from typing import Any

import pytest

from tests.acceptance.conftest import Ekiden

ORDER = "Where is my order 1042?"
KEY = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789"


@pytest.fixture
def desk(ekiden: Ekiden) -> Ekiden:
    """A folder with a store that has sessions."""
    ekiden("run", "--session", "s1", ORDER)
    return ekiden


def lines_of(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]


def test_the_tree_has_runs_agents_calls_and_handoffs_with_times(desk: Ekiden) -> None:
    shown = desk("trace").out
    assert shown.startswith("trace ")
    for part in ("◆ s1", "└─ ▶ run 1", "✉ user", "● triage", "⇒ triage → orders", "● orders"):
        assert part in shown
    assert ORDER in shown
    plain = desk("trace", "s1", "--plain").out
    assert "`- [run] run 1" in plain
    assert "[handoff] triage -> orders" in plain
    assert desk("trace", "--errors").out == "no errors\n"


@pytest.mark.slow
def test_json_output_has_all_spans_in_tree_order(desk: Ekiden) -> None:
    spans = desk("trace", "--json").json
    assert [each["depth"] for each in spans[:2]] == [0, 1]
    ids = [each["span_id"] for each in spans]
    assert all(each["parent_id"] in ids[:place] for place, each in enumerate(spans) if place)
    [handoff] = [each for each in spans if each["kind"] == "handoff"]
    assert handoff["details"]["status"] == "completed"
    assert handoff["links"][0] in ids
    assert desk("trace", "s1", "--json").json == spans, "ids are the same for every reader"
    assert desk("trace", "--errors", "--json").json == []


@pytest.mark.slow
def test_exported_traces_have_content_only_on_request(
    desk: Ekiden,
) -> None:
    for format, name in (("jsonl", "span_id"), ("events", "event_id"), ("openai", "object")):
        shown = desk("trace", "--format", format)
        assert all(name in each for each in lines_of(shown.out))
        assert ORDER not in shown.out
        assert ORDER in desk("trace", "--format", format, "--content").out
    written = desk("trace", "--format", "openai", "-o", "trace.jsonl")
    assert written.out == ""
    assert "lines in trace.jsonl" in written.err
    first, *spans = lines_of((desk.folder / "trace.jsonl").read_text(encoding="utf-8"))
    assert (first["object"], {each["object"] for each in spans}) == ("trace", {"trace.span"})
    again = desk("trace", "--format", "openai", "-o", "trace.jsonl")
    assert again.code == 2
    assert "name another file" in again.err


@pytest.mark.slow
def test_typed_api_keys_are_masked_in_every_output(ekiden: Ekiden) -> None:
    ekiden("run", "--session", "s1", f"my key is {KEY}, 你好 👋")
    for options in ((), ("--json",), ("--plain",), ("--format", "jsonl", "--content")):
        shown = ekiden("trace", *options).out
        assert KEY not in shown
        assert "[api_key]" in shown


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        ("--content",),
        ("-o", "x"),
        ("--format", "jsonl", "--json"),
        ("--format", "xml"),
        ("--follow", "--errors"),
    ],
)
def test_invalid_trace_options_are_refused(desk: Ekiden, options: tuple[str, ...]) -> None:
    refused = desk("trace", *options)
    assert refused.code == 2
    assert "error[cli.usage]" in refused.err or "cli.usage" in refused.err


@pytest.mark.slow
def test_trace_of_an_unknown_session_exits_with_5(desk: Ekiden) -> None:
    assert desk("trace", "s9").code == 5
    assert desk("trace", "s9", "--follow").code == 5


@pytest.mark.parametrize("as_json", [False, True])
def test_a_run_of_another_process_is_followed_until_it_ends(desk: Ekiden, as_json: bool) -> None:
    follower = desk.start("trace", "s1", "--follow", *(["--json"] if as_json else []))
    try:
        assert follower.stderr is not None
        begun = follower.stderr.readline()
        assert ("following" if as_json else "waiting for the next one") in begun
        desk("run", "--session", "s1", "Thank you!")
        out, _ = follower.communicate(timeout=60)
    finally:
        follower.kill()
    assert follower.returncode == 0
    if as_json:
        runs = [each for each in lines_of(out) if each["kind"] == "run"]
        assert [(each["name"], each["change"]) for each in runs] == [
            ("run 1", "start"),
            ("run 1", "end"),
            ("run 2", "start"),
            ("run 2", "end"),
        ]
    else:
        assert "▶ run 2 done" in out


@pytest.mark.slow
def test_ctrl_c_ends_following(desk: Ekiden) -> None:
    follower: subprocess.Popen[str] = desk.start("trace", "s1", "--follow", "--plain")
    try:
        assert follower.stderr is not None
        follower.stderr.readline()
        follower.send_signal(signal.SIGINT)
        out, err = follower.communicate(timeout=60)
    finally:
        follower.kill()
    assert follower.returncode == 130
    assert "[run] run 1 done" in out
    assert "Traceback" not in err
