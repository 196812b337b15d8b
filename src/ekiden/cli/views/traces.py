"""Traces for people: a tree with times, tokens and cost, errors first."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from ekiden.cli.output import cut, is_terminal, safe
from ekiden.core.conversation.model import text_of
from ekiden.core.questions import UNANSWERED
from ekiden.core.values import dumps

if TYPE_CHECKING:
    from ekiden.api.traces import SessionTrace, TraceSpan
    from ekiden.tracing import Node, Span, SpanKind, Tokens, Trace


_LONGEST_GIST = 100
_WIDEST_LABEL = 60
_NARROWEST_LABEL = 12
_TOOK = 9
_TOKENS = ("input", "output", "total", "cached", "reasoning")


@dataclass(frozen=True, slots=True, kw_only=True)
class Glyphs:
    """The characters that a tree is drawn with."""

    icons: Mapping[SpanKind, str]
    between: str
    last: str
    below: str
    error: str
    waiting: str
    running: str
    cut: str
    arrow: str = "→"

    def own(self, text: str) -> str:
        """`text` with the arrows that this terminal can show."""
        return text if self.arrow == "→" else text.replace("→", self.arrow)


FINE = Glyphs(
    icons={
        "session": "◆",
        "run": "▶",
        "agent": "●",
        "llm_call": "✦",
        "tool_call": "⚙",
        "handoff": "⇒",
        "guardrail": "▣",
        "route": "⑂",
        "tool_confirmation": "☑",
        "message": "✉",
        "task": "◇",
        "inbox": "☎",
    },
    between="├─ ",
    last="└─ ",
    below="│  ",
    error="✗",
    waiting="◌",
    running="…",
    cut="…",
)
PLAIN = Glyphs(
    icons={
        "session": "[session]",
        "run": "[run]",
        "agent": "[agent]",
        "llm_call": "[llm]",
        "tool_call": "[tool]",
        "handoff": "[handoff]",
        "guardrail": "[guardrail]",
        "route": "[route]",
        "tool_confirmation": "[confirm]",
        "message": "[message]",
        "task": "[task]",
        "inbox": "[inbox]",
    },
    between="|- ",
    last="`- ",
    below="|  ",
    error="!",
    waiting="~",
    running="...",
    cut="...",
    arrow="->",
)


def glyphs(*, plain: bool) -> Glyphs:
    """The characters that this terminal can show; `plain` for ASCII only."""
    encoding = (sys.stdout.encoding or "").lower().replace("-", "")
    return PLAIN if plain or encoding != "utf8" else FINE


def print_trace(trace: Trace, *, plain: bool = False, wide: bool = False) -> None:
    """The whole trace. A terminal gets one line for each span, unless `wide`."""
    look = glyphs(plain=plain)
    room = shutil.get_terminal_size().columns if is_terminal() and not wide else None
    _write(_heading(trace, look))
    errors = error_lines(trace, look)
    if errors:
        _write([TraceLine("", "bold"), TraceLine("errors", "bold"), *errors])
    waits = [_wait_line(span, look) for span in trace.waits()]
    if waits:
        _write([TraceLine("", "bold"), TraceLine("waiting", "bold"), *waits])
    _write([TraceLine("", ""), *tree_lines(trace, look, room=room)])


def print_errors(trace: Trace, *, plain: bool = False) -> None:
    """Only the errors."""
    lines = error_lines(trace, glyphs(plain=plain))
    _write(lines or [TraceLine("no errors", "")])


@dataclass(frozen=True, slots=True)
class TraceLine:
    """A line, and how a terminal shows it."""

    text: str
    style: str


def _heading(trace: Trace, look: Glyphs) -> list[TraceLine]:
    root = trace.root
    parts = [
        f"trace {trace.trace_id}",
        f"session {trace.session_id}",
        datetime.fromtimestamp(root.span.started_at_us / 1e6).strftime("%Y-%m-%d"),
        _took(root.span, look),
        tokens_text(root.tokens),
        money_text(root.cost, root.unpriced),
    ]
    return [TraceLine("  ".join(part for part in parts if part), "bold")]


def error_lines(trace: Trace, look: Glyphs) -> list[TraceLine]:
    """The errors, in order."""
    return [
        TraceLine(
            f"{look.error} {clock(span.started_at_us)}  {look.own(_where(span))}: "
            f"{_one_line(span.error or _fault(span), look)}",
            "red",
        )
        for span in trace.errors()
    ]


def _where(span: Span) -> str:
    who = f"{span.agent_name}: " if span.agent_name and span.kind != "agent" else ""
    undone = " (undone)" if span.is_undone else ""
    return f"{span.session_id}  {who}{span.kind} {span.name}{undone}"


def _wait_line(span: Span, look: Glyphs) -> TraceLine:
    whom = span.details.get("waiting_for") or span.name
    return TraceLine(f"{look.waiting} since {clock(span.started_at_us)}  {whom}", "yellow")


def tree_lines(trace: Trace, look: Glyphs, *, room: int | None = None) -> list[TraceLine]:
    """All spans, each on a line of at most `room`, below its parent."""
    from rich.cells import cell_len

    rows = list(_with_prefixes(trace.root, look))
    labels = [f"{prefix}{label(node.span, look)}" for prefix, node in rows]
    used = [_used(node) for _, node in rows]
    most = max(map(len, used))
    width = min(max(map(cell_len, labels)), _WIDEST_LABEL)
    if room is not None:
        left = room - len("00:00:00.000") - _TOOK - most - 8
        width = min(width, max(left * 2 // 3, _NARROWEST_LABEL))
        labels = [cut(text, width, mark=look.cut) for text in labels]
    lines = []
    for text, tokens, (_, node) in zip(labels, used, rows, strict=True):
        pad = " " * max(width - cell_len(text), 0)
        columns = f"{text}{pad}  {_took(node.span, look):>{_TOOK}}  {tokens:>{most}}"
        line = f"{clock(node.span.started_at_us)}  {columns}  {gist(node.span, look)}".rstrip()
        if room is not None:
            line = cut(line, room, mark=look.cut)
        lines.append(TraceLine(line, style_of(node.span)))
    return lines


def _with_prefixes(root: Node, look: Glyphs) -> Iterator[tuple[str, Node]]:
    """Each node with the tree lines before it."""
    waiting: list[tuple[str, str, Node]] = [("", "", root)]
    while waiting:
        own, below, node = waiting.pop()
        yield own, node
        blank = " " * len(look.below)
        for place, child in enumerate(reversed(node.children)):
            is_last = place == 0
            waiting.append(
                (
                    below + (look.last if is_last else look.between),
                    below + (blank if is_last else look.below),
                    child,
                )
            )


def label(span: Span, look: Glyphs) -> str:
    """A span's description, on one line."""
    name = look.own(safe(" ".join(span.name.split())))
    flags = [flag for flag in _flags(span) if flag]
    return " ".join([look.icons[span.kind], name, *(f"({flag})" for flag in flags)])


def _flags(span: Span) -> Iterator[str]:
    details = span.details
    if span.kind == "handoff":
        status = str(details.get("status") or "")
        yield "" if status == "completed" else status.replace("_", " ")
        policy = details.get("policy")
        yield "" if policy == "graceful" else str(policy or "")
    elif span.is_undone:
        yield "undone"
    if span.status == "waiting":
        yield "waiting"
    if details.get("not_run"):
        yield "not run"
    if "resumes" in details:
        yield "resumed"
    attempt = details.get("attempt")
    if span.kind in ("task", "llm_call") and attempt:
        yield f"attempt {attempt}"
    outcome = details.get("outcome")
    if span.kind in ("run", "agent", "message", "inbox") and outcome not in (None, "done"):
        yield str(outcome).replace("_", " ")


def gist(span: Span, look: Glyphs) -> str:
    """The message or the error, cut."""
    if span.status == "error":
        text = f"{look.error} {_one_line(span.error or _fault(span), look)}"
    else:
        text = _one_line(_words(span, look), look)
    return safe(text)


def _words(span: Span, look: Glyphs) -> str:
    content, details = span.content, span.details
    match span.kind:
        case "tool_call":
            parts = (_text(content.get("arguments")), _text(content.get("result")))
            return f" {look.arrow} ".join(part for part in parts if part)
        case "llm_call":
            return _said(content.get("output"))
        case "message":
            said = _said(content.get("output") or content.get("input"))
            about = content.get("asks") or content.get("tells")
            return said or _text(about.get("subject") if isinstance(about, Mapping) else None)
        case "route":
            sure = details.get("confidence")
            method = f"{details.get('method')} {sure} %" if sure is not None else ""
            return f"{method} {_text(content.get('reason'))}".strip()
        case "tool_confirmation":
            text = UNANSWERED.get(str(details.get("status")))
            if text is not None:
                return text
            answer = "yes" if details.get("approved") else "no"
            return f"{answer}, by {details.get('by')}"
        case "inbox":
            return _inbox(content, details, look)
        case _:
            return _text(content.get("reason"))


def _inbox(content: Mapping[str, Any], details: Mapping[str, Any], look: Glyphs) -> str:
    answer = content.get("answer")
    by = details.get("answer")
    words = _text(content.get("subject"))
    if isinstance(answer, Mapping):
        chosen = _text(answer.get("choice") or answer.get("text"))
        who = by.get("by") if isinstance(by, Mapping) else None
        words = f"{words} {look.arrow} {chosen}"
        return f"{words} ({who})" if who else words
    return words


def _said(items: Any) -> str:
    """Messages as text, calls as their names."""
    if not isinstance(items, list):
        return ""
    parts = []
    for item in items:
        if item.get("type") == "function_call":
            parts.append(f"{item.get('name')}{_text(item.get('arguments'))}")
        elif item.get("type") == "function_call_output":
            parts.append(_text(item.get("output")))
        else:
            parts.append(text_of(item))
    return "; ".join(part for part in parts if part)


def _fault(span: Span) -> str:
    return str(span.details.get("code") or span.details.get("result") or "failed")


def style_of(span: Span) -> str:
    """How a terminal shows the line of a span."""
    if span.status == "error":
        return "red"
    if span.status == "waiting":
        return "yellow"
    return "dim" if span.is_undone else ""


def clock(at_us: int) -> str:
    """The time of day, with milliseconds."""
    moment = datetime.fromtimestamp(at_us / 1e6)
    return f"{moment:%H:%M:%S}.{moment.microsecond // 1000:03}"


def duration_text(microseconds: int) -> str:
    """How long something took."""
    seconds = microseconds / 1e6
    if microseconds < 1_000:
        return f"{microseconds} us"
    if seconds < 1:
        return f"{microseconds / 1e3:.{1 if microseconds < 10_000 else 0}f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    if seconds < 3600:
        return f"{seconds / 60:.1f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 86_400 else f"{seconds / 86_400:.1f} d"


def tokens_text(tokens: Tokens) -> str:
    """The tokens used."""
    return f"{tokens.total:,} tokens" if tokens.requests and tokens.total else ""


def money_text(cost: float | None, unpriced: int) -> str:
    """The cost; ``?`` stands for calls with an unknown price."""
    if cost is None:
        return "cost ?" if unpriced else ""
    amount = f"{cost:.6f}" if cost < 1 else f"{cost:,.2f}"
    return f"cost {amount}{' + ?' if unpriced else ''}"


def _took(span: Span, look: Glyphs) -> str:
    took = span.duration_us
    if took is None:
        return "waiting" if span.status == "waiting" else f"running{look.running}"
    return duration_text(took) if took else ""


def _used(node: Node) -> str:
    used = tokens_text(node.tokens)
    price = "" if node.cost is None else money_text(node.cost, node.unpriced).removeprefix("cost ")
    return "  ".join(part for part in (used.replace(" tokens", " tok"), price) if part)


def _text(value: Any) -> str:
    if value is None or value == "{}":
        return ""
    return value if isinstance(value, str) else dumps(value)


def _one_line(text: str, look: Glyphs) -> str:
    line = " ".join(text[: 8 * _LONGEST_GIST].split())
    return line if len(line) <= _LONGEST_GIST else f"{line[:_LONGEST_GIST]}{look.cut}"


def print_line(line: TraceLine) -> None:
    """One line, at once."""
    _write([line])


def _write(lines: Iterable[TraceLine] | Sequence[TraceLine]) -> None:
    if is_terminal():
        from rich.console import Console
        from rich.text import Text

        console = Console(highlight=False)
        for line in lines:
            console.print(Text(safe(line.text), style=line.style), soft_wrap=True)
    else:
        sys.stdout.write("".join(f"{safe(line.text)}\n" for line in lines))
        sys.stdout.flush()


def trace_of(found: SessionTrace) -> Trace:
    """A trace as a tree."""
    from ekiden.tracing import Trace

    spans = [_span_of(each) for each in found.spans]
    return Trace(trace_id=found.trace_id, session_id=found.session_id, spans=spans)


def _span_of(found: TraceSpan) -> Span:
    from ekiden.tracing import Span, Tokens

    tokens = found.tokens or {}
    return Span(
        trace_id=found.trace_id,
        span_id=found.span_id,
        parent_id=found.parent_id,
        kind=found.kind,
        name=found.name,
        session_id=found.session_id,
        agent_name=found.agent_name,
        correlation_id=found.correlation_id,
        started_at_us=round(found.started_at * 1e6),
        ended_at_us=None if found.ended_at is None else round(found.ended_at * 1e6),
        status=found.status,
        error=found.error,
        details=found.details or {},
        content=found.content or {},
        tokens=Tokens(
            tokens.get("requests", 0), *(tokens.get(f"{name}_tokens", 0) for name in _TOKENS)
        ),
        cost=found.cost,
        links=tuple(found.links or ()),
    )
