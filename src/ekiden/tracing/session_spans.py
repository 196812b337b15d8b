"""The state of a session's spans while its events are processed, and the events that were
undone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ekiden.core.conversation.model import Item
from ekiden.core.events import PRIVATE, Event
from ekiden.tracing.spans import (
    NOTHING,
    CostOf,
    Span,
    SpanDraft,
    SpanKind,
    TraceContext,
    is_rewind,
    session_span_id,
    span_id_of,
    split_details,
    text,
)

_LOOSE_ENDS = 10_000
"""The number of unanswered tool calls that are kept for their arguments, at most."""


class UndoneEvents:
    """Collects the events of a session that undo other events."""

    __slots__ = ("_others", "_rewinds")

    def __init__(self) -> None:
        self._rewinds: list[tuple[int, int, int]] = []
        self._others: list[tuple[int, int, int, frozenset[int]]] = []

    def add(self, event: Event, details: Mapping[str, Any]) -> None:
        """Process the next event. It can only undo events before it."""
        if "undoes" not in details:
            return
        span = _range(details["undoes"], event.seq)
        if span is None:
            return
        if is_rewind(event, details):
            self._rewinds.append((event.seq, *span))
        elif event.type == "handoff" or (event.step or "").endswith(".popped"):
            keeps = details.get("keeps")
            kept = frozenset(_numbers(keeps)) if isinstance(keeps, list) else frozenset()
            self._others.append((event.seq, *span, kept))

    def undone(self) -> dict[int, int]:
        """For each undone event, return the number of the event that undid it.

        A rewind or rollback that was itself undone has no effect. The computation takes linear time
        in the number of events.
        """
        marks = _Marks()
        for seq, first, last in reversed(self._rewinds):
            if seq not in marks.by:
                marks.mark(first, last, seq, frozenset())
        rewound = set(marks.by)
        for seq, first, last, kept in self._others:
            if seq not in rewound:
                marks.mark(first, last, seq, kept)
        return marks.by


class _Marks:
    """Numbers with marks. Each is marked once; ranges of marked numbers are skipped, as in a
    union-find structure."""

    def __init__(self) -> None:
        self.by: dict[int, int] = {}
        self._next: dict[int, int] = {}

    def mark(self, first: int, last: int, seq: int, kept: frozenset[int]) -> None:
        number = self._free(first)
        while number <= last:
            if number not in kept:
                self.by[number] = seq
                self._next[number] = number + 1
            number = self._free(number + 1)

    def _free(self, number: int) -> int:
        """The first unmarked number from `number` on."""
        path = []
        while number in self._next:
            path.append(number)
            number = self._next[number]
        for each in path:
            self._next[each] = number
        return number


def _range(value: Any, seq: int) -> tuple[int, int] | None:
    if not isinstance(value, list) or len(value) != 2:
        return None
    numbers = _numbers(value)
    if len(numbers) != 2:
        return None
    first, last = max(numbers[0], 1), min(numbers[1], seq - 1)
    return (first, last) if first <= last else None


def _numbers(values: Sequence[Any]) -> list[int]:
    return [each for each in values if isinstance(each, int) and not isinstance(each, bool)]


class SessionSpans:
    """The spans of one session so far."""

    def __init__(
        self,
        session_id: str,
        context: TraceContext,
        *,
        correlation_id: str | None = None,
        started_at_us: int = 0,
        runs: int = 0,
        cost: CostOf | None = None,
        details: Mapping[str, Any] = NOTHING,
        links: tuple[str, ...] = (),
        is_live: bool = False,
    ) -> None:
        """`started_at_us` is the creation time of the session, for sessions without events.

        `runs` is the number of runs before the first event. `details` and `links` belong to the
        session's span. With `is_live`, only open spans are kept, and `take` returns the starts and
        ends of spans.
        """
        self.session_id = session_id
        self.context = context
        self.created_at_us = 0
        """The creation time of the session in the store, for readers of several sessions."""
        self.correlation_id = correlation_id or session_id
        self.cost = cost
        self.last_seq = 0
        self.now_us = 0
        self.runs = runs
        self.run: SpanDraft | None = None
        self.stay: SpanDraft | None = None
        self.open_handoffs: dict[str, SpanDraft] = {}
        self.arriving: SpanDraft | None = None
        """The handoff whose target has no event yet."""
        self.waits: dict[str, SpanDraft] = {}
        """Open questions by the id of the message or inbox item."""
        self.tasks: dict[str, SpanDraft] = {}
        """The tasks of the plan by id."""
        self.latest_task: SpanDraft | None = None
        self.plan: SpanDraft | None = None
        self.calls: dict[str, tuple[str, Any]] = {}
        """Unanswered tool calls by id: the tool and its arguments."""
        self.heard: list[Item] = []
        """The items since the last model call: the input of the next one."""
        self.session = SpanDraft(
            session_span_id(session_id), "session", session_id, seq=0, at_us=started_at_us,
            parent=None,
        )  # fmt: skip
        self.session.parent_id = context.parent_id
        self.session.details.update(details)
        self.session.links = links
        self._parts: list[SpanDraft] = [self.session]
        self._span_of: dict[int, SpanDraft] = {}
        """The span of each event."""
        self._undone = UndoneEvents()
        self._is_private = False
        """Whether the current event belongs to a private run."""
        self._ended_run: SpanDraft | None = None
        self.known: dict[str, SpanDraft] = {}
        """Handoffs and questions by id: each is one span, whatever events follow."""
        self._news: list[tuple[bool, SpanDraft]] | None = [] if is_live else None

    def begin(self, event: Event, details: Mapping[str, Any]) -> None:
        """Begin to process the next event."""
        self._is_private = PRIVATE in details
        if not self.last_seq:
            self.session.start = event.at_us - duration_of(event)
            self.now_us = event.at_us
        self.last_seq = event.seq
        if event.at_us > self.now_us:
            self.now_us = event.at_us
        self.session.last = event.seq
        self._undone.add(event, details)

    def new(
        self,
        event: Event,
        kind: SpanKind,
        name: str,
        *,
        parent: SpanDraft,
        key: str | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> SpanDraft:
        """Create a span that begins with the event."""
        facts, words = split_details((event.details or NOTHING) if details is None else details)
        made = SpanDraft(
            span_id_of(self.session_id, key or f"e{event.seq}"),
            kind,
            name,
            seq=event.seq,
            at_us=self.now_us - duration_of(event),
            parent=parent,
            agent=event.agent,
            details=facts,
            content=words,
            error=event.error,
        )
        self.keep(made)
        self._span_of[event.seq] = made
        return made

    def moment(self, event: Event, kind: SpanKind, name: str, *, parent: SpanDraft) -> SpanDraft:
        """Create a span for one event, with the event's duration."""
        made = self.new(event, kind, name, parent=parent)
        self.end(made)
        return made

    def keep(self, made: SpanDraft) -> None:
        """Add a new span to the trace."""
        made.is_private = self._is_private
        if self._news is None:
            self._parts.append(made)
        else:
            self._news.append((True, made))

    def assign(self, event: Event, span: SpanDraft) -> None:
        """Assign the event to an existing span."""
        self._span_of[event.seq] = span
        span.last = event.seq
        if self._is_private:
            span.is_private = True

    def end(self, span: SpanDraft, outcome: str | None = None) -> None:
        """End the span, and the open spans that are to end with it."""
        if span.end is not None:
            return
        span.end = self.now_us if self.now_us > span.start else span.start
        if outcome is not None:
            span.details["outcome"] = outcome
        if span.status == "waiting":
            span.status = "ok"
        if span.open_parts:
            for each in span.open_parts.values():
                self.end(each, "withdrawn")
            span.open_parts = None
        if self._news is not None:
            self._news.append((False, span))

    def begin_run(self, event: Event) -> SpanDraft:
        """Start a run with the event."""
        if self.run is not None:
            self.end_run("abandoned")
        self.runs += 1
        return self._open_run(event)

    def _open_run(self, event: Event) -> SpanDraft:
        run = SpanDraft(
            span_id_of(self.session_id, f"r{event.seq}"),
            "run",
            f"run {self.runs}",
            seq=event.seq,
            at_us=self.now_us - duration_of(event),
            parent=self.session,
            agent=event.agent,
            details={"run": self.runs},
        )
        self.run, self.stay = run, None
        self.calls.clear()
        self.keep(run)
        return run

    def end_run(self, outcome: str | None = None, error: str | None = None) -> None:
        """End the run, and the stay of the active agent."""
        self.end_stay(outcome, error)
        run = self.run
        if run is None:
            return
        if error is not None:
            run.fail(error)
        self.end(run, outcome)
        self._ended_run, self.run = run, None
        self.plan = self.latest_task = None
        self.tasks.clear()

    def end_stay(self, outcome: str | None = None, error: str | None = None) -> None:
        """End the stay of the active agent."""
        stay, self.stay = self.stay, None
        if stay is not None:
            if error is not None:
                stay.fail(error)
            self.end(stay, outcome)

    def working_run(self, event: Event) -> SpanDraft:
        """Return the run of the event. The event may continue a waiting run or resume an ended
        run."""
        if self.run is None:
            before = self._ended_run
            self.runs = max(self.runs, 1)
            run = self._open_run(event)
            if before is not None:
                run.details["resumes"] = before.id
                run.links = (before.id,)
                run.is_private = before.is_private
            return run
        if self.run.status == "waiting":
            self.run.status = "ok"
            if self.stay is not None and self.stay.status == "waiting":
                self.stay.status = "ok"
        return self.run

    def working_stay(self, event: Event) -> SpanDraft:
        """Return the stay (the open span) of the event's agent. If the agent has no open stay, the
        event begins one."""
        run = self.working_run(event)
        stay = self.stay
        if stay is not None and stay.agent == event.agent:
            return stay
        self.end_stay()
        stay = SpanDraft(
            span_id_of(self.session_id, f"a{event.seq}"),
            "agent",
            text(event.agent, "?"),
            seq=event.seq,
            at_us=self.now_us - duration_of(event),
            parent=run,
            agent=event.agent,
        )
        handoff, self.arriving = self.arriving, None
        if handoff is not None:
            handoff.links = (stay.id,)
            if handoff.details.get("to") == event.agent:
                stay.details["handoff"] = handoff.details.get("id")
                stay.links = (handoff.id,)
        self.stay = stay
        self.keep(stay)
        return stay

    def innermost(self) -> SpanDraft:
        """The innermost open span. It is the parent of events that are not an agent's work."""
        return self.stay or self.run or self.session

    def remember_call(self, item: Item) -> None:
        """Keep the arguments of a tool call for its result."""
        if len(self.calls) < _LOOSE_ENDS:
            call_id = item.get("call_id")
            if isinstance(call_id, str):
                self.calls[call_id] = (text(item.get("name"), "?"), item.get("arguments"))

    def spans(self) -> list[Span]:
        """All spans in the order of their start, each after its parent.

        The builder cannot be used afterwards.
        """
        undone = self._undone.undone()
        self._settle_session()
        trace_id = self.context.trace_id
        return [
            each.span(trace_id, self.session_id, self.correlation_id, undone.get(each.first, 0))
            for each in self._parts
        ]

    def span(self, draft: SpanDraft) -> Span:
        """A copy of one span in its present state."""
        span = draft.span(self.context.trace_id, self.session_id, self.correlation_id)
        span.details, span.content = dict(span.details), dict(span.content)
        return span

    def span_of(self, seq: int) -> SpanDraft:
        """The span of the event with this number."""
        return self._span_of.get(seq, self.session)

    def take(self) -> list[tuple[bool, SpanDraft]]:
        """The starts (`True`) and ends of spans since the last call, in order."""
        taken, self._news = self._news or [], []
        self._span_of.clear()
        return taken

    def _settle_session(self) -> None:
        """Set the status and end of the session's span: open while a run is open."""
        session, run = self.session, self.run
        if run is not None and run.end is None and run.details.get("live"):
            self.end_run()  # No event marks the end of a live conversation.
            run = None
        session.status = "ok" if run is None else run.status
        ended = self._ended_run
        if run is None and ended is not None and ended.status == "error":
            session.status = "error"
        session.end = max(self.now_us, session.start) if run is None and self.last_seq else None


def duration_of(event: Event) -> int:
    """The duration of the event in microseconds; 0 if the event has no duration."""
    took = event.duration_us
    return took if took is not None and took > 0 else 0
