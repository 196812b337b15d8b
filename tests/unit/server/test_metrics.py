"""Metrics: what is counted, what the labels are, and that there are never too many of them."""

from __future__ import annotations

import re
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from ekiden import Agent, Runner, Session, function_tool
from ekiden.core.errors import StoreUnavailable
from ekiden.core.events import Event
from ekiden.core.questions import InboxItem
from ekiden.inbox import Inbox
from ekiden.server.event_metrics import FewNames, Remembered
from ekiden.server.metrics import Metrics
from ekiden.storage.base import NewSession, QueuePut, SessionPage, Store
from ekiden.storage.memory import MemoryStore
from ekiden.testing import ScriptedModel, call, say, transfer

NOW_US = 1_800_000_000_000_000


class Desk:
    """What metrics need of a desk."""

    def __init__(self, store: Store | None = None, tenant: str = "default") -> None:
        self.store = store or MemoryStore()
        self.tenant = tenant
        self.inbox = Inbox(self.store)


class Page:
    """A page of metrics, read with the parser of Prometheus' own library."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.families = {family.name: family for family in text_string_to_metric_families(text)}

    def value(self, name: str, **labels: str) -> float | None:
        for family in self.families.values():
            for sample in family.samples:
                if sample.name == name and sample.labels == labels:
                    return float(sample.value)
        return None

    def series(self, name: str) -> list[dict[str, str]]:
        found = [each for family in self.families.values() for each in family.samples]
        return [sample.labels for sample in found if sample.name == name]


async def page_of(metrics: Metrics, *tenant_services: Desk) -> Page:
    return Page((await metrics.collect(tenant_services)).decode())


def event(type: Any, *, session_id: str = "s1", at_us: int = NOW_US, **more: Any) -> Event:
    return Event(session_id=session_id, seq=1, type=type, at_us=at_us, **more)


def counted(*events: Event, tenant: str = "default") -> Metrics:
    metrics = Metrics(since_us=NOW_US)
    for each in events:
        metrics.observe(each, tenant=tenant)
    return metrics


def handoff(status: str, *moves: str, **more: Any) -> Event:
    at_us = more.pop("at_us", NOW_US)
    details = {"id": "s1.h1", "from": "a", "to": "b", "status": status, "moves": list(moves)}
    return event("handoff", at_us=at_us, details={**details, **more})


async def test_a_conversation_is_counted() -> None:
    @function_tool
    def lookup() -> str:
        """Look."""
        return "found"

    billing = Agent("billing", model=ScriptedModel([call("lookup"), say("ok")]), tools=[lookup])
    triage = Agent("triage", model=ScriptedModel([transfer("billing")]), handoffs=[billing])
    store = MemoryStore()
    metrics = Metrics()
    await Runner.run(triage, "hi", session=Session("s1", store=store))
    for each in await store.events("s1"):
        metrics.observe(each, tenant="default")
    page = await page_of(metrics, Desk(store))
    assert page.value("ekiden_handoffs_total", status="completed", policy="graceful") == 1
    assert page.value("ekiden_handoff_duration_seconds_count", status="completed") == 1
    assert page.value("ekiden_runs_total", **_run("done", "succeeded")) == 1
    assert page.value("ekiden_run_duration_seconds_count", outcome="done") == 1
    assert page.value("ekiden_model_calls_total", model="scripted", result="ok") == 3
    assert page.value("ekiden_tool_calls_total", result="ok") == 1
    assert page.value("ekiden_events_total", type="llm_call") == 3


async def test_handoffs_are_counted_by_outcome_and_policy() -> None:
    begun = ("initiated", "validating", "transferring")
    metrics = counted(
        handoff("transferring", *begun, policy="immediate", at={"initiated": NOW_US - 500_000}),
        handoff("transferring", compensation="refund", at_us=NOW_US + 1_000_000),
        handoff("rolled_back", "rolled_back", at_us=NOW_US + 1_500_000),
        handoff("failed", "initiated", "validating", "failed"),
        handoff("completed", "completed"),
    )
    page = await page_of(metrics)
    assert page.value("ekiden_handoffs_total", status="rolled_back", policy="immediate") == 1
    assert page.value("ekiden_handoffs_total", status="failed", policy="graceful") == 1
    # It began before anybody counted.
    assert page.value("ekiden_handoffs_total", status="completed", policy="unknown") == 1
    assert page.value("ekiden_handoff_duration_seconds_sum", status="rolled_back") == 2.0
    assert page.value("ekiden_handoff_duration_seconds_count", status="completed") is None
    assert page.value("ekiden_compensations_total", result="ok") == 1


def _run(outcome: str, conclusion: str) -> dict[str, str]:
    return {"outcome": outcome, "conclusion": conclusion, "tenant": "default"}


async def test_runs_are_counted_by_outcome_with_their_duration() -> None:
    metrics = counted(
        event("message", items=({"role": "user", "content": "hi"},)),
        event("agent_complete", at_us=NOW_US + 2_000_000, details={"outcome": "waiting"}),
        event("message", at_us=NOW_US + 2_000_001, details={"answer": {}}),
        event("agent_start", at_us=NOW_US + 60_000_000),
        event("agent_complete", at_us=NOW_US + 61_000_000),
        event("agent_error", session_id="s2", error="x", details={"outcome": "failed"}),
        event("agent_complete", session_id="s3", details={"conclusion": "with_errors"}),
        event("agent_complete", session_id="s4", details={"outcome": "cancelled"}),
        event("agent_error", session_id="", error="a handler on the bus"),
    )
    page = await page_of(metrics)
    assert page.value("ekiden_runs_total", **_run("waiting", "")) == 1
    assert page.value("ekiden_runs_total", **_run("done", "succeeded")) == 1
    assert page.value("ekiden_runs_total", **_run("failed", "failed"))
    assert page.value("ekiden_runs_total", **_run("done", "with_errors")) == 1
    assert page.value("ekiden_runs_total", **_run("cancelled", "stopped")) == 1
    assert page.value("ekiden_run_duration_seconds_sum", outcome="waiting") == 2.0
    assert page.value("ekiden_run_duration_seconds_sum", outcome="done") == 1.0


async def test_tokens_are_counted_by_model_and_by_tenant() -> None:
    usage = {"input_tokens": 100, "output_tokens": 20, "cached_tokens": 60, "reasoning_tokens": 5}
    odd = {"input_tokens": "many", "output_tokens": -1, "total_tokens": True}
    metrics = counted(
        event("llm_call", duration_us=250_000, details={"model": "gpt-5", "usage": usage}),
        event("llm_call", details={"model": "gpt-5", "usage": odd}, error="x"),
        event("route", details={"method": "llm", "usage": {"total_tokens": 7}}),
        tenant="acme",
    )
    page = await page_of(metrics)
    for kind, count in {"input": 100, "output": 20, "cached": 60, "reasoning": 5}.items():
        assert page.value("ekiden_model_tokens_total", model="gpt-5", type=kind) == count
    assert page.value("ekiden_tenant_tokens_total", tenant="acme") == 127
    assert page.value("ekiden_model_calls_total", model="gpt-5", result="error") == 1
    assert page.value("ekiden_model_calls_total", model="unknown", result="ok") == 1
    assert page.value("ekiden_model_call_duration_seconds_sum", model="gpt-5") == 0.25
    assert page.value("ekiden_routes_total", method="llm") == 1


async def test_tools_guardrails_confirmations_deadlocks_and_the_inbox_are_counted() -> None:
    passed = [{"type": "input", "result": "passed"}, "odd"]
    metrics = counted(
        event("tool_call", duration_us=1_000_000, details={"tool": "x"}, error="no"),
        event("guardrail", details={"type": "output", "result": "failed"}),
        event("agent_start", details={"guardrails": passed}),
        event("tool_confirmation", details={"approved": True}),
        event("tool_confirmation", details={"approved": False}),
        event("message", session_id="", details={"deadlock": {"cycle": ["a", "b"]}}),
        event("inbox", session_id="", details={"change": "answered"}),
        event("inbox", details={"case": 1}),
        event("route", details={"method": "rule"}),
        event("task"),
    )
    page = await page_of(metrics)
    assert page.value("ekiden_tool_calls_total", result="error") == 1
    assert page.value("ekiden_tool_call_duration_seconds_sum", result="error") == 1.0
    assert page.value("ekiden_guardrail_checks_total", type="output", result="failed") == 1
    assert page.value("ekiden_guardrail_checks_total", type="input", result="passed") == 1
    assert page.value("ekiden_guardrail_checks_total", type="other", result="other") == 1
    assert page.value("ekiden_tool_confirmations_total", result="approved") == 1
    assert page.value("ekiden_tool_confirmations_total", result="refused") == 1
    assert page.value("ekiden_deadlocks_total") == 1
    assert page.value("ekiden_inbox_changes_total", change="answered") == 1
    assert page.value("ekiden_routes_total", method="rule") == 1


async def test_events_before_the_start_are_not_counted() -> None:
    page = await page_of(counted(event("tool_call", at_us=NOW_US - 61_000_000)))
    assert page.value("ekiden_tool_calls_total", result="ok") is None


async def test_unknown_label_values_are_counted_as_other() -> None:
    odd: Any = "surprise"
    page = await page_of(
        counted(
            event(odd),
            handoff("surprise", "initiated"),
            handoff("failed", "initiated", policy="surprise"),
            event("agent_complete", details={"outcome": "surprise"}),
            event("route", details={"method": ["a"]}),
            event("inbox", details={"change": "surprise"}),
        )
    )
    assert "surprise" not in page.text
    assert page.value("ekiden_events_total", type="other") == 1
    assert page.value("ekiden_runs_total", **_run("other", "other")) == 1


async def test_only_the_first_models_and_tenants_get_their_own_labels() -> None:
    metrics = Metrics(since_us=NOW_US)
    for number in range(500):
        details = {"model": f"model-{number}", "usage": {"input_tokens": 1}}
        metrics.observe(event("llm_call", details=details), tenant=f"tenant_{number}")
    tenant_services = [Desk(tenant=f"tenant_{number}") for number in range(30)]
    page = await page_of(metrics, *tenant_services)
    models = {labels["model"] for labels in page.series("ekiden_model_calls_total")}
    assert len(models) == 51
    assert page.value("ekiden_model_calls_total", model="other", result="ok") == 450
    assert page.value("ekiden_tenant_tokens_total", tenant="other") == 480
    assert len(page.series("ekiden_store_up")) == 21
    assert page.value("ekiden_store_up", tenant="other") == 1


async def test_unusual_names_do_not_break_the_metrics_page() -> None:
    name = 'a"b\\c\n\ud800' + "長" * 500
    page = await page_of(counted(event("llm_call", details={"model": name})))
    (labels,) = page.series("ekiden_model_calls_total")
    assert labels["model"] == ('a"b\\c??' + "長" * 500)[:100]


async def test_requests_are_counted_by_route_template() -> None:
    metrics = Metrics()
    route = "/api/v1/sessions/{session_id}"
    metrics.http_request(method="get", route=route, status=200, seconds=0.02)
    metrics.http_request(method="BREW", route=None, status=404, seconds=0.001)
    metrics.http_request(method="GET", route=route, status=9999, seconds=0.001)
    for number in range(1000):
        metrics.http_request(method="GET", route=f"/{number}", status=200, seconds=0.001)
    page = await page_of(metrics)
    assert page.value("ekiden_http_requests_total", method="GET", route=route, status="200") == 1
    assert page.value("ekiden_http_requests_total", method="GET", route=route, status="other") == 1
    unmatched = {"method": "other", "route": "unmatched", "status": "404"}
    assert page.value("ekiden_http_requests_total", **unmatched) == 1
    assert page.value("ekiden_http_request_duration_seconds_count", method="GET", route=route) == 2
    assert len(page.series("ekiden_http_requests_total")) < 310


async def test_open_streams_are_a_gauge() -> None:
    metrics = Metrics()
    page = await page_of(metrics)
    assert page.value("ekiden_live_connections", transport="sse") == 0
    with metrics.connection("sse"), metrics.connection("sse"), metrics.connection("websocket"):
        page = await page_of(metrics)
    assert page.value("ekiden_live_connections", transport="sse") == 2
    assert page.value("ekiden_live_connections", transport="websocket") == 1
    with pytest.raises(RuntimeError), metrics.connection("sse"):
        raise RuntimeError
    assert (await page_of(metrics)).value("ekiden_live_connections", transport="sse") == 0


async def test_waiting_sessions_and_items_are_read_from_the_stores() -> None:
    desk = Desk()
    await desk.store.create(NewSession(id="r", agent="a", status="ready"))
    await desk.store.create(NewSession(id="w", agent="a", status="waiting"))
    await desk.store.create(NewSession(id="i", agent="a"))
    await desk.inbox.post(InboxItem(kind="approval", from_agent="a", subject="?"))
    await desk.store.put_messages([QueuePut(queue="q", body=1), QueuePut(queue="p", body=2)])
    metrics = Metrics()
    page = await page_of(metrics, desk, Desk(tenant="acme"))
    assert page.value("ekiden_sessions", tenant="default", status="ready") == 1
    assert page.value("ekiden_sessions", tenant="default", status="waiting") == 1
    assert page.value("ekiden_inbox_open_items", tenant="default") == 1
    assert page.value("ekiden_queue_messages", tenant="default") == 2
    assert page.value("ekiden_inbox_open_items", tenant="acme") == 0
    assert page.value("ekiden_store_up", tenant="acme") == 1


class Away(MemoryStore):
    """A store that cannot be reached, and counts who tries."""

    tries = 0

    async def list(self, *args: Any, **named: Any) -> SessionPage:
        self.tries += 1
        raise StoreUnavailable("the database is away")


async def test_an_unavailable_store_is_reported_and_not_asked_again_at_once() -> None:
    store = Away()
    metrics = counted(event("tool_call"))
    for _ in range(3):
        page = await page_of(metrics, Desk(store))
        assert page.value("ekiden_store_up", tenant="default") == 0
        assert page.value("ekiden_tool_calls_total", result="ok") == 1
    assert store.tries == 1


async def test_metric_names_and_labels_follow_the_prometheus_rules() -> None:
    metrics = counted(event("tool_call", duration_us=1), event("llm_call", duration_us=1))
    metrics.http_request(method="GET", route="/", status=200, seconds=1)
    page = await page_of(metrics, Desk())
    assert len(page.families) > 20
    bases = {"seconds"}
    for name, family in page.families.items():
        full = f"{name}_total" if family.type == "counter" else name
        assert re.fullmatch(r"ekiden_[a-z]+(_[a-z]+)*", full), full
        assert family.documentation.endswith("."), full
        assert f"# TYPE {full} {family.type}" in page.text
        if family.type == "histogram":
            assert name.rpartition("_")[2] in bases, name
        if family.type == "gauge":
            assert not name.endswith(("_total", "_count", "_sum", "_bucket")), name
        for wrong in ("milliseconds", "_ms", "minutes", "kilobytes", "counter", "gauge"):
            assert wrong not in name
        for sample in family.samples:
            for label in sample.labels:
                assert re.fullmatch(r"[a-z]+(_[a-z]+)*", label)
                assert (
                    label not in ("session_id", "user_id", "agent", "tool", "le_") or label == "le"
                )
    assert "_created" not in page.text


async def test_two_servers_in_one_process_count_separately() -> None:
    first, second = counted(event("tool_call")), counted()
    assert (await page_of(first)).value("ekiden_tool_calls_total", result="ok") == 1
    assert (await page_of(second)).value("ekiden_tool_calls_total", result="ok") is None


def test_the_number_of_remembered_values_is_limited() -> None:
    kept: Remembered[int, str] = Remembered(2)
    for number in range(4):
        kept.put(number, str(number))
        kept.put(number, "again")
    assert len(kept) == 2
    assert (kept.take(0), kept.take(3), kept.take(3)) == (None, "3", None)


def test_empty_names_and_names_beyond_the_limit_are_counted_as_other() -> None:
    few = FewNames(2)
    assert [few(name) for name in ("", "a", "b", "a")] == ["other", "a", "other", "a"]
