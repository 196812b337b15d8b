"""Counts events in counters and histograms, whose labels have few different values.

Events of all processes are counted, so the metrics describe the whole store. Label values are
Ekiden's own words, or the names of models and tenants. Only the first few models and tenants have
label values of their own. No label contains a session, an agent, a tool or a text.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping
from typing import Any, Final, Generic, TypeVar, get_args

from prometheus_client import CollectorRegistry, Counter, Histogram

from ekiden.core.events import Event, EventType
from ekiden.core.handoffs import PolicyName, StatusName
from ekiden.core.runs import Conclusion
from ekiden.core.values import SYSTEM_CLOCK
from ekiden.inbox.items import ChangeName
from ekiden.routing.decision import Method

OTHER = "other"
"""The label value for unknown values, and for new values above a limit."""
_LONGEST = 100

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
M = TypeVar("M", Counter, Histogram)


class FewNames:
    """Keeps the first `most` names, and replaces all others by `OTHER`.

    Providers and settings may have any number of names, but a label needs a limited number of
    values.
    """

    __slots__ = ("_known", "_most")

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: dict[str, str] = {}

    def __call__(self, name: str) -> str:
        """The name, shortened and printable, or `OTHER`."""
        known = self._known.get(name)
        if known is not None:
            return known
        if len(self._known) >= self._most:
            return OTHER
        shown = "".join(char if char.isprintable() else "?" for char in name[:_LONGEST])
        self._known[name] = shown or OTHER
        return self._known[name]


def one_of(value: object, known: Collection[str]) -> str:
    """The value if it is known, otherwise `OTHER`."""
    return value if isinstance(value, str) and value in known else OTHER


class Series(Generic[M]):
    """A cache of a metric's series, by the values of their labels.

    The cache avoids the library's own `labels`, which takes a lock and checks all values for every
    event.
    """

    __slots__ = ("_made", "_metric")

    def __init__(self, metric: M) -> None:
        self._metric: M = metric
        self._made: dict[tuple[str, ...], M] = {}

    def __call__(self, *labels: str) -> M:
        """The series with these label values."""
        made = self._made.get(labels)
        if made is None:
            made = self._made[labels] = self._metric.labels(*labels)
        return made


class Remembered(Generic[K, V]):
    """A dictionary of at most `most` entries; the oldest entries are dropped."""

    __slots__ = ("_items", "_most")

    def __init__(self, most: int) -> None:
        self._most = most
        self._items: dict[K, V] = {}

    def __len__(self) -> int:
        return len(self._items)

    def put(self, key: K, value: V) -> None:
        """Add the value, unless the key already has a value."""
        if key not in self._items:
            if len(self._items) >= self._most:
                del self._items[next(iter(self._items))]
            self._items[key] = value

    def take(self, key: K) -> V | None:
        """Remove the value and return it. Returns `None` if the key has no value."""
        return self._items.pop(key, None)


MOST_MODELS: Final = 50
MOST_TENANTS: Final = 20

_SHORT = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
"""Buckets in seconds, for tool and model calls."""
_LONG = (0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 1800.0, 7200.0, 86_400.0, 604_800.0)
"""Buckets in seconds, for runs and handoffs, which may wait for people."""
_MOST_OPEN = 20_000
_GRACE_US = 60_000_000
"""The tolerated difference of clocks: events older than this at the start are not counted."""

_TYPES = frozenset(get_args(EventType))
_POLICIES = frozenset(get_args(PolicyName))
_STATUSES = frozenset(get_args(StatusName))
_SETTLED = frozenset({"completed", "failed", "rolled_back"})
_UNANSWERED = {"expired": "expired", "cancelled": "withdrawn", "unavailable": "unavailable"}
_OUTCOMES = frozenset({"done", "waiting", "refused", "failed", "out_of_budget", "cancelled"})
_CONCLUSIONS = frozenset(get_args(Conclusion))
_CONCLUDED = {"done": "succeeded", "cancelled": "stopped", "waiting": ""}
"""The conclusions of outcomes with another name. A run that waits has none."""
_METHODS = frozenset(get_args(Method))
_STAGES = frozenset({"input", "output", "handoff", "tool_input", "tool_output"})
_RESULTS = frozenset({"passed", "failed", "repaired", "warned"})
_CHANGES = frozenset(get_args(ChangeName))
_WORK = frozenset({"agent_start", "llm_call", "tool_call", "route", "tool_confirmation"})
"""Events that begin or resume a run, if no message does."""
_TOKENS = (
    ("input_tokens", "input"),
    ("output_tokens", "output"),
    ("cached_tokens", "cached"),
    ("reasoning_tokens", "reasoning"),
)


class EventMetrics:
    """Counts each event once. Objects of this class are not thread-safe."""

    def __init__(self, registry: CollectorRegistry, *, since_us: int | None = None) -> None:
        """Events before `since_us`, by default now, are not counted. So old events of imported
        sessions are left out."""
        began = SYSTEM_CLOCK.now_us() if since_us is None else since_us
        self._since_us = began - _GRACE_US
        self._model = FewNames(MOST_MODELS)
        self._tenant = FewNames(MOST_TENANTS)
        self._runs: Remembered[tuple[str, str], int] = Remembered(_MOST_OPEN)
        """The start times of current runs."""
        self._handoffs: Remembered[tuple[str, str], tuple[str, int]] = Remembered(_MOST_OPEN)
        """The policy and the start time of current handoffs."""
        self._make(registry)
        self._readers: Mapping[str, Callable[[Event, Mapping[str, Any], str], None]] = {
            "llm_call": self._model_call,
            "tool_call": self._tool_call,
            "handoff": self._handoff,
            "route": self._route,
            "guardrail": self._guardrail,
            "tool_confirmation": self._confirmation,
            "agent_complete": self._end,
            "agent_error": self._end,
            "message": self._message,
            "inbox": self._inbox,
        }

    def tenant(self, name: str) -> str:
        """The tenant as a label."""
        return self._tenant(name)

    def observe(self, event: Event, *, tenant: str) -> None:
        """Count one event of a tenant."""
        if event.at_us < self._since_us:
            return
        self._events(one_of(event.type, _TYPES)).inc()
        if event.session_id and (event.type in _WORK or (event.type == "message" and event.items)):
            self._runs.put((tenant, event.session_id), event.at_us)
        details = event.details or {}
        read = self._readers.get(event.type)
        if read is not None:
            read(event, details, tenant)
        passed = details.get("guardrails")
        if isinstance(passed, list):
            for each in passed:
                self._count_guardrail(each if isinstance(each, Mapping) else {})

    def _model_call(self, event: Event, details: Mapping[str, Any], tenant: str) -> None:
        model = self._model(str(details.get("model") or "unknown"))
        self._model_calls(model, _result(event)).inc()
        if event.duration_us is not None:
            self._model_seconds(model).observe(event.duration_us / 1e6)
        self._count_tokens(details.get("usage"), model, tenant)

    def _count_tokens(self, usage: Any, model: str, tenant: str) -> None:
        if not isinstance(usage, Mapping):
            return
        for key, label in _TOKENS:
            count = _count(usage.get(key))
            if count:
                self._tokens(model, label).inc(count)
        used = _count(usage.get("input_tokens")) + _count(usage.get("output_tokens"))
        total = max(used, _count(usage.get("total_tokens")))
        if total:
            self._tenant_tokens(self._tenant(tenant)).inc(total)

    def _tool_call(self, event: Event, details: Mapping[str, Any], tenant: str) -> None:
        result = _result(event)
        self._tool_calls(result).inc()
        if event.duration_us is not None:
            self._tool_seconds(result).observe(event.duration_us / 1e6)

    def _handoff(self, event: Event, details: Mapping[str, Any], tenant: str) -> None:
        if "compensation" in details:
            self._compensations(_result(event)).inc()
            return
        status = one_of(details.get("status", "completed"), _STATUSES)
        key = (tenant, str(details.get("id") or event.event_id))
        began = details.get("at")
        began_us = began.get("initiated") if isinstance(began, Mapping) else None
        if "initiated" in details.get("moves", ()):
            policy = one_of(details.get("policy", "graceful"), _POLICIES)
            self._handoffs.put(key, (policy, began_us or event.at_us))
        if status not in _SETTLED:
            return
        policy, began_us = self._handoffs.take(key) or ("unknown", None)
        self._handoff_count(status, policy).inc()
        if began_us is not None:
            self._handoff_seconds(status).observe(max(event.at_us - began_us, 0) / 1e6)

    def _route(self, event: Event, details: Mapping[str, Any], tenant: str) -> None:
        self._routes(one_of(details.get("method"), _METHODS)).inc()
        if isinstance(details.get("usage"), Mapping):
            self._model_call(event, details, tenant)

    def _guardrail(self, event: Event, details: Mapping[str, Any], tenant: str) -> None:
        self._count_guardrail(details)

    def _count_guardrail(self, found: Mapping[str, Any]) -> None:
        stage = one_of(found.get("type"), _STAGES)
        self._guardrails(stage, one_of(found.get("result"), _RESULTS)).inc()

    def _confirmation(self, event: Event, details: Mapping[str, Any], tenant: str) -> None:
        result = "approved" if details.get("approved") else "refused"
        result = _UNANSWERED.get(str(details.get("status")), result)
        self._confirmations(result).inc()

    def _end(self, event: Event, details: Mapping[str, Any], tenant: str) -> None:
        if not event.session_id:
            return
        outcome = "done" if event.type == "agent_complete" else "failed"
        outcome = one_of(details.get("outcome", outcome), _OUTCOMES)
        conclusion = _CONCLUDED.get(outcome, outcome)
        if outcome == "done":
            conclusion = one_of(details.get("conclusion", conclusion), _CONCLUSIONS)
        self._run_count(outcome, conclusion, self._tenant(tenant)).inc()
        began_us = self._runs.take((tenant, event.session_id))
        if began_us is not None and began_us < event.at_us:
            self._run_seconds(outcome).observe((event.at_us - began_us) / 1e6)

    def _message(self, event: Event, details: Mapping[str, Any], tenant: str) -> None:
        if "deadlock" in details:
            self._deadlocks.inc()

    def _inbox(self, event: Event, details: Mapping[str, Any], tenant: str) -> None:
        if "change" in details:
            self._inbox_changes(one_of(details["change"], _CHANGES)).inc()

    def _make(self, registry: CollectorRegistry) -> None:
        def counter(name: str, text: str, *labels: str) -> Series[Counter]:
            return Series(Counter(f"ekiden_{name}", text, labels, registry=registry))

        def histogram(
            name: str, text: str, *labels: str, buckets: tuple[float, ...] = _SHORT
        ) -> Series[Histogram]:
            made = Histogram(f"ekiden_{name}", text, labels, buckets=buckets, registry=registry)
            return Series(made)

        self._events = counter("events_total", "Events by type.", "type")
        self._handoff_count = counter("handoffs_total", "Completed handoffs.", "status", "policy")
        self._handoff_seconds = histogram(
            "handoff_duration_seconds", "From the request to the end.", "status", buckets=_LONG
        )
        self._compensations = counter(
            "compensations_total", "Attempts to compensate in a rollback.", "result"
        )
        self._run_count = counter(
            "runs_total", "Runs by outcome and conclusion.", "outcome", "conclusion", "tenant"
        )
        self._run_seconds = histogram(
            "run_duration_seconds",
            "From the first event of a run, or of its resume, to its end or wait.",
            "outcome",
            buckets=_LONG,
        )
        self._model_calls = counter(
            "model_calls_total", "Model calls, including those of routers.", "model", "result"
        )
        self._model_seconds = histogram("model_call_duration_seconds", "Of one call.", "model")
        self._tokens = counter(
            "model_tokens_total",
            "Tokens; cached ones are also input, and reasoning is also output.",
            "model",
            "type",
        )
        self._tenant_tokens = counter("tenant_tokens_total", "All tokens of a tenant.", "tenant")
        self._tool_calls = counter("tool_calls_total", "Tool calls.", "result")
        self._tool_seconds = histogram("tool_call_duration_seconds", "Of one call.", "result")
        self._routes = counter("routes_total", "Routing decisions by method.", "method")
        self._guardrails = counter(
            "guardrail_checks_total", "Results of guardrails.", "type", "result"
        )
        self._confirmations = counter(
            "tool_confirmations_total", "Tool calls that needed approval.", "result"
        )
        self._deadlocks = Counter(
            "ekiden_deadlocks_total", "Deadlocks that were broken.", registry=registry
        )
        self._inbox_changes = counter("inbox_changes_total", "Changes of inbox items.", "change")


def _result(event: Event) -> str:
    return "ok" if event.error is None else "error"


def _count(value: Any) -> float:
    """A reported count; an invalid one counts as 0."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0 < value < 1e15 else 0.0
