"""The spans of a trace as a tree, with what everything below one used and cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ekiden.tracing.spans import NO_TOKENS, Span, Tokens


@dataclass(slots=True, kw_only=True, eq=False)
class Node:
    """A span with those below it."""

    span: Span
    depth: int = 0
    children: list[Node] = field(default_factory=list)
    """In the order of their beginning."""
    tokens: Tokens = NO_TOKENS
    """Of the span and all below it."""
    cost: float | None = None
    """The same; `None` if of none of them anybody knows."""
    unpriced: int = 0
    """Model calls among them whose price nobody knows."""
    errors: int = 0
    """Spans below it that went wrong."""

    def to_json(self) -> dict[str, Any]:
        """The span, its depth, and the usage of its subtree."""
        data = {**self.span.to_json(), "depth": self.depth}
        if self.tokens.requests:
            data["total_tokens"] = self.tokens.to_json()
            data["total_cost"] = None if self.cost is None else round(self.cost, 9)
            if self.unpriced:
                data["unpriced_requests"] = self.unpriced
        return data


@dataclass(frozen=True, kw_only=True)
class Trace:
    """A session, and those that answered it, as spans.

    For example::

        trace = await read_trace(store, "customer-42")
        for node in trace.nodes():
            print("  " * node.depth, node.span.kind, node.span.name)
    """

    trace_id: str
    session_id: str
    """The session of the trace; those that answered it are below it."""
    spans: Sequence[Span]
    """That of the session first."""

    @cached_property
    def root(self) -> Node:
        """The session's own span, with all others below it."""
        return _tree(self.spans)

    def nodes(self) -> Iterator[Node]:
        """All spans in the order of the tree."""
        waiting = [self.root]
        while waiting:
            node = waiting.pop()
            yield node
            waiting.extend(reversed(node.children))

    def errors(self) -> list[Span]:
        """The root causes of errors, in order: without spans that failed only because of others."""
        found = [each for each in self.nodes() if each.span.status == "error" and not each.errors]
        return sorted((each.span for each in found), key=lambda span: span.started_at_us)

    def waits(self) -> list[Span]:
        """The root causes of current waits: without spans that wait only because of others."""
        waiting = {each.span_id: each for each in self.spans if each.status == "waiting"}
        above = {each.parent_id for each in waiting.values()}
        return [each for each in waiting.values() if each.span_id not in above]

    def to_json(self) -> dict[str, Any]:
        """As JSON: the spans in the order of the tree."""
        root = self.root
        return {
            "trace_id": self.trace_id,
            "session_id": self.session_id,
            "status": root.span.status,
            "tokens": root.tokens.to_json(),
            "cost": None if root.cost is None else round(root.cost, 9),
            "unpriced_requests": root.unpriced,
            "errors": [span.span_id for span in self.errors()],
            "waits": [span.span_id for span in self.waits()],
            "spans": [node.to_json() for node in self.nodes()],
        }


def _tree(spans: Sequence[Span]) -> Node:
    nodes = {span.span_id: Node(span=span) for span in spans}
    first = nodes[spans[0].span_id]
    for node in nodes.values():
        if node is not first:
            above = nodes.get(node.span.parent_id or "", first)
            (first if above is node else above).children.append(node)
    ordered = _ordered(first)
    for node in reversed(ordered):
        _sum_up(node)
    return first


def _ordered(first: Node) -> list[Node]:
    """Each node after the one that it is below, and before those beside it that began later."""
    ordered: list[Node] = []
    seen: set[int] = set()
    waiting = [first]
    while waiting:
        node = waiting.pop()
        seen.add(id(node))
        ordered.append(node)
        node.children = [each for each in node.children if id(each) not in seen]
        node.children.sort(key=lambda each: (each.span.started_at_us, each.span.first_seq))
        for each in node.children:
            each.depth = node.depth + 1
        waiting.extend(reversed(node.children))
    return ordered


def _sum_up(node: Node) -> None:
    span = node.span
    node.tokens, node.cost = span.tokens, span.cost
    if span.tokens.requests and span.cost is None:
        node.unpriced = span.tokens.requests
    for child in node.children:
        if child.tokens is not NO_TOKENS:
            node.tokens = node.tokens + child.tokens
        if child.cost is not None:
            node.cost = (node.cost or 0.0) + child.cost
        node.unpriced += child.unpriced
        node.errors += child.errors + (child.span.status == "error")
