"""Log lines: what they belong to, how they look, and what is not in them."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from ekiden import Agent, Runner, Session, function_tool, submit
from ekiden.core.current_agent import acting_as, logging_for
from ekiden.core.errors import UserError
from ekiden.engine import Worker
from ekiden.storage.memory import MemoryStore
from ekiden.testing import ScriptedModel, call, say
from ekiden.tracing import read_trace
from ekiden.tracing.logs import (
    ContextFilter,
    JsonFormatter,
    LogSession,
    Redaction,
    TextFormatter,
    current_log_fields,
    level_number,
    log_fields,
    setup_logging,
)
from ekiden.tracing.spans import trace_id_of

KEY = "sk-proj-abc123def456ghi789jkl012"
LOG = logging.getLogger("ekiden.test")


@pytest.fixture(autouse=True)
def logging_as_it_was() -> Iterator[None]:
    root, own = logging.getLogger(), logging.getLogger("ekiden")
    before = (list(root.handlers), root.level, own.level)
    yield
    root.handlers[:], level, own_level = before
    root.setLevel(level)
    own.setLevel(own_level)


class Lines(io.StringIO):
    """A stream, and the JSON that was written to it."""

    @property
    def records(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.getvalue().splitlines()]


def as_json(**environ: str) -> Lines:
    lines = Lines()
    setup_logging("json", level="DEBUG", stream=lines, environ=environ)
    return lines


def as_text(**environ: str) -> io.StringIO:
    stream = io.StringIO()
    setup_logging("text", level="DEBUG", stream=stream, environ=environ)
    return stream


def test_a_json_line_has_the_ids_of_its_session() -> None:
    lines = as_json()
    s1 = LogSession(session_id="s1", meta={"correlation_id": "c1"}, created_at_us=7)
    with logging_for(s1):
        LOG.info("hello %s", "你好")
    (line,) = lines.records
    assert line.pop("timestamp").endswith("Z")
    assert line == {
        "level": "INFO",
        "logger": "ekiden.test",
        "message": "hello 你好",
        "session_id": "s1",
        "correlation_id": "c1",
        "trace_id": trace_id_of("s1", 7),
    }


def test_a_json_line_outside_a_session_has_no_session_id() -> None:
    lines = as_json()
    LOG.info("hello")
    assert set(lines.records[0]) == {"timestamp", "level", "logger", "message"}


def test_the_trace_id_is_that_of_the_caller_and_missing_for_an_asked_session() -> None:
    given = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
    with logging_for(LogSession(session_id="s1", meta=given)):
        assert current_log_fields()["trace_id"] == "0af7651916cd43dd8448eb211c80319c"
    with logging_for(LogSession(session_id="s2", meta={"asked_in": "s1"})):
        assert current_log_fields() == {"session_id": "s2", "correlation_id": "s2"}
    assert current_log_fields() == {}


def test_log_fields_are_added_until_their_block_ends() -> None:
    with log_fields(request_id="r1", tenant="acme"), log_fields(tenant="zen", agent=None):
        with logging_for(LogSession(session_id="s1", meta={})), acting_as("triage"):
            fields = current_log_fields()
        assert "session_id" not in current_log_fields()
    assert fields["request_id"] == "r1"
    assert fields["tenant"] == "zen"
    assert fields["agent"] == "triage"
    assert current_log_fields() == {}


def test_fields_given_with_extra_override_and_are_shown() -> None:
    lines = as_json()
    more = {"session_id": "other", "count": 3, "ratio": float("nan"), "ok": True, "none": None}
    with logging_for(LogSession(session_id="s1", meta={})):
        LOG.info("hi", extra={**more, "data": {"a": [1]}, "thing": object(), "message_": "m"})
    (line,) = lines.records
    assert line["session_id"] == "other"
    assert (line["count"], line["ratio"], line["ok"], line["none"]) == (3, "nan", True, None)
    assert line["data"] == '{"a":[1]}'
    assert line["thing"].startswith("<object object")


async def test_lines_of_a_run_have_its_session_agent_and_correlation_id() -> None:
    lines = as_json()

    @function_tool
    async def look() -> str:
        """Look."""
        LOG.info("in a tool")
        await asyncio.create_task(later())
        return "seen"

    async def later() -> None:
        LOG.info("in a task of it")

    agent = Agent("triage", model=ScriptedModel([call("look"), say("ok")]), tools=[look])
    store = MemoryStore()
    session = Session("s1", store=store, correlation_id="c1")
    await Runner.run(agent, "hi", session=session)
    assert [line["message"] for line in lines.records] == ["in a tool", "in a task of it"]
    for line in lines.records:
        assert (line["session_id"], line["correlation_id"]) == ("s1", "c1")
        assert line["agent"] == "triage"
        assert line["trace_id"] == (await read_trace(store, "s1")).trace_id
    assert current_log_fields() == {}


async def test_lines_of_concurrent_sessions_are_distinguished() -> None:
    lines = as_json()
    together = asyncio.Barrier(3)

    @function_tool
    async def look(name: str) -> str:
        """Look."""
        await together.wait()
        LOG.info(name)
        return "seen"

    store = MemoryStore()
    team = []
    for name in ("s1", "s2", "s3"):
        model = ScriptedModel([call("look", name=name), say("ok")])
        team.append(Agent(f"agent-{name}", model=model, tools=[look]))
        await submit(team[-1], "hi", session=Session(name, store=store))
    await asyncio.gather(*(Worker(store, each).run(until_idle=True) for each in team))
    assert sorted(line["message"] for line in lines.records) == ["s1", "s2", "s3"]
    for line in lines.records:
        assert line["session_id"] == line["message"]
        assert line["agent"] == f"agent-{line['message']}"


async def test_lines_of_a_worker_about_a_session_have_its_id() -> None:
    lines = as_json()
    store = MemoryStore()
    agent = Agent("triage", model=ScriptedModel([RuntimeError("broken")]))
    await submit(agent, "hi", session=Session("s1", store=store))
    await Worker(store, agent).run(until_idle=True)
    told = [line for line in lines.records if line["logger"] == "ekiden.worker"]
    assert [line["session_id"] for line in told] == ["s1"]


@pytest.mark.parametrize("make", [as_json, as_text])
def test_api_keys_and_tokens_are_masked_everywhere(make: Any) -> None:
    stream = make(DESK_PASSWORD="correct horse", SHORT_KEY="abc", OTHER="visible")
    LOG.info("calling with %s and correct horse, visible abc", KEY)
    LOG.info("more", extra={"header": f"Bearer {KEY}", "session_id": KEY})
    try:
        raise ValueError(f"no entry for {KEY}")
    except ValueError:
        LOG.exception("failed")
    LOG.warning("https://user:hunter22@db/ is away")
    written = stream.getvalue()
    assert KEY not in written
    assert "hunter22" not in written
    assert "correct horse" not in written
    assert "visible abc" in written
    assert "ValueError: no entry for [redacted]" in written


def test_a_key_at_the_truncation_limit_is_masked() -> None:
    redact = Redaction({})
    shown = redact("a " * 60_000 + KEY, 16_000)
    assert len(shown) < 16_100
    assert shown.endswith("(of 120032 characters)")
    for length in (99_985, 99_990, 100_000 - 5):
        assert "sk-proj" not in redact("b" * length + " " + KEY, 100_000)


def test_an_error_has_type_message_and_stack() -> None:
    lines = as_json()
    try:
        raise KeyError("订单")
    except KeyError:
        LOG.exception("failed")
    error = lines.records[0]["error"]
    assert (error["type"], error["message"]) == ("KeyError", "'订单'")
    assert "Traceback" in error["stack"]
    LOG.info("where", stack_info=True)
    assert "Stack (most recent call last)" in lines.records[1]["error"]["stack"]


def test_a_text_line_is_one_line_for_any_message() -> None:
    stream = as_text()
    del logging.getLogger().handlers[:-1]  # Not everybody can write a lone surrogate.
    with logging_for(LogSession(session_id="s1", meta={}, created_at_us=7)):
        LOG.warning("a\nWARNING forged: b\r\x1b[31m\u202e\ud800\x85")
    (line,) = stream.getvalue().splitlines()
    assert " WARNING ekiden.test: a\\nWARNING forged: b\\r\\x1b[31m\\u202e\\ud800\\x85 [" in line
    assert line.endswith(f"[session_id=s1 correlation_id=s1 trace_id={trace_id_of('s1', 7)}]")


def test_a_stack_is_indented_below_its_line() -> None:
    stream = as_text()
    try:
        raise ValueError("first\nsecond\x1b")
    except ValueError:
        LOG.exception("failed")
    first, *rest = stream.getvalue().rstrip("\n").split("\n")
    assert first.endswith("failed")
    assert all(line.startswith("    ") for line in rest)
    assert rest[-2:] == ["    ValueError: first", "    second\\x1b"]


def test_any_text_is_written_as_a_json_line() -> None:
    lines = as_json()
    del logging.getLogger().handlers[:-1]  # Not everybody can write a lone surrogate.
    LOG.info("\ud800 日本 🏃 \x00 \u2028")
    assert lines.getvalue().isascii()
    assert lines.records[0]["message"] == "\ud800 日本 🏃 \x00 \u2028"


def test_a_line_with_invalid_arguments_or_an_unprintable_value_is_written() -> None:
    class Odd(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no")

    lines = as_json()
    del logging.getLogger().handlers[:-1]  # Others complain about such a line.
    LOG.info("one %s two %s", "a")
    LOG.info("odd", extra={"thing": Odd()})
    try:
        raise Odd
    except Odd:
        LOG.exception("failed")
    assert lines.records[0]["message"] == "one %s two %s (TypeError in its arguments)"
    assert lines.records[1]["thing"] == "(Odd, which cannot be shown)"
    assert lines.records[2]["error"]["message"] == "(Odd, which cannot be shown)"


def test_repeated_setup_replaces_its_handler_and_keeps_others() -> None:
    mine = logging.NullHandler()
    logging.getLogger().addHandler(mine)
    first, second = io.StringIO(), io.StringIO()
    setup_logging("json", stream=first)
    handler = setup_logging("text", level="warning", others="error", stream=second)
    LOG.info("not wanted")
    LOG.warning("wanted")
    logging.getLogger("somebody.else").warning("not wanted")
    logging.getLogger("somebody.else").error("wanted, too")
    assert first.getvalue() == ""
    assert [line.rpartition(": ")[2] for line in second.getvalue().splitlines()] == [
        "wanted",
        "wanted, too",
    ]
    assert mine in logging.getLogger().handlers
    assert handler in logging.getLogger().handlers


def test_lines_are_written_to_standard_error_by_default(capsys: pytest.CaptureFixture[str]) -> None:
    setup_logging()
    LOG.info("hello")
    assert "INFO ekiden.test: hello" in capsys.readouterr().err


def test_an_invalid_setup_is_refused_and_changes_nothing() -> None:
    before = list(logging.getLogger().handlers)
    wrong: Any = "jsno"
    with pytest.raises(UserError, match="there is no log format 'jsno', known: json, text"):
        setup_logging(wrong)
    with pytest.raises(UserError, match="there is no log level 'loud'"):
        setup_logging("json", level="loud")
    assert list(logging.getLogger().handlers) == before


@pytest.mark.parametrize(("level", "number"), [("debug", 10), (" Warning ", 30), (25, 25)])
def test_a_level_may_be_a_name_or_a_number(level: str | int, number: int) -> None:
    assert level_number(level) == number


@pytest.mark.parametrize("level", ["Level 10", "NOTSET", "", True])
def test_an_unknown_level_is_refused(level: Any) -> None:
    with pytest.raises(UserError, match="there is no log level"):
        level_number(level)


def test_formatters_and_filters_can_be_used_by_a_custom_setup() -> None:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter("%(session_id)s %(agent)s %(message)s"))
    handler.addFilter(ContextFilter())
    logging.getLogger().addHandler(handler)
    with logging_for(LogSession(session_id="s1", meta={})):
        LOG.warning("hi")
    assert stream.getvalue() == "s1 None hi\n"
    record = logging.makeLogRecord({"msg": "hi", "levelname": "INFO", "name": "x"})
    record.exc_text = f"kept {KEY}"
    assert json.loads(JsonFormatter().format(record))["error"] == {"stack": "kept [redacted]"}
    assert TextFormatter().format(record).endswith("INFO x: hi\n    kept [redacted]")
