"""Parts of the OpenAPI document that do not come from the routes: groups, headers and examples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

TITLE: Final = "Ekiden"
ABOUT: Final = """Ekiden runs teams of agents that hand work to each other without losing it.

A request is stored before it is answered, so a run survives a lost connection. Every request needs
an API key, except on a server that listens on the loopback address and has no key yet. A key has
scopes. The scope that an operation needs is in its `x-ekiden-scope`.

Lists come in pages: `limit` is the maximum number of entries, and `next_cursor` is the cursor of
the next page. Errors are `application/problem+json` with a stable `code`; under `/v1` they have the
format of OpenAI's errors. A POST with an `Idempotency-Key` is executed only once, even if you send
it several times. Every response has an `X-Request-ID`. Times are seconds since 1970. Times whose
name ends in `_us` are microseconds since 1970.

The WebSocket `/api/v1/events`, A2A under `/a2a` and MCP under `/mcp` are not part of this document.
They have their own descriptions."""

TAGS: Final[Mapping[str, str]] = {
    "runs": "Send messages to the team, and follow the work.",
    "sessions": "List, read, change and delete sessions.",
    "handoffs": "Hand tasks and sessions from agent to agent, and inspect the result.",
    "inbox": "Questions to people, and their answers.",
    "agents": "The team, its capabilities, its current work, and routing of a request.",
    "plans": "How supervisors split requests, and the results of the tasks.",
    "messages": "Queries and notifications between agents.",
    "collaborations": "Requests, proposals and calls for bids between agents.",
    "state": "Variables of sessions, users and the app.",
    "memory": "Long-term memory of agents, across sessions.",
    "traces": "A session's work, as a tree of spans.",
    "costs": "The tokens and cost of model calls.",
    "audit": (
        "The audit log: handoffs and decisions with actors and reasons. Changes to the log "
        "are detected."
    ),
    "mirror": "The progress of session replicas.",
    "settings": "The configuration of the server.",
    "workers": "The processes that run sessions.",
    "keys": "API keys: the callers of the server.",
    "console": "The console's login: a token that the browser keeps in a cookie.",
    "agui": "The team over AG-UI, for web pages.",
    "openai": "The team over OpenAI's API, for any chat client.",
    "health": "Liveness, readiness and metrics.",
}
"""The groups of operations, in the order in which they are shown."""

_SESSION_HEADERS: Final = ("X-Ekiden-Session", "X-Ekiden-Run")
HEADER_TEXTS: Final[Mapping[str, str]] = {
    "Location": "The address of the new object.",
    "ETag": "The version, for `If-Match`.",
    "X-Ekiden-Session": "The session of the run.",
    "X-Ekiden-Run": "The id of the run, for `/api/v1/runs/{run_id}`.",
    "X-Ekiden-Ignored": "Parameters that were sent but have no effect.",
    "Content-Disposition": "The proposed name of the file.",
    "Set-Cookie": "The cookie to keep or to delete.",
    "Retry-After": "Seconds to wait before a retry.",
    "WWW-Authenticate": "How to authenticate.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationText:
    """Examples and headers of an operation."""

    sent: Any = None
    """An example of the request body."""
    got: Mapping[int, Any] = field(default_factory=dict)
    """Examples of response bodies, by status."""
    headers: tuple[str, ...] = ()
    """Headers of every successful response."""
    sometimes: tuple[str, ...] = ()
    """Headers of some successful responses."""


_RUN: Final[dict[str, Any]] = {
    "run_id": "ses_06gy3h8cvm929wgjh9ga:1",
    "session_id": "ses_06gy3h8cvm929wgjh9ga",
    "status": "done",
    "agent": "orders",
    "output": "Order 1042 is shipped with Yamato, expected 2026-11-18.",
    "outcome": "done",
    "chain": ["user", "triage", "orders"],
    "handoffs": ["ses_06gy3h8cvm929wgjh9ga.h1"],
    "usage": {},
    "error": None,
    "reached": None,
    "questions": [],
    "started_at": 1794789433.449355,
    "updated_at": 1794789433.452352,
}
_ITEM: Final = {
    "id": "inb_06gy3jbfe8yfzj3rs56w",
    "kind": "confirmation",
    "from_agent": "desk",
    "subject": "may desk run refund?",
    "body": 'Run refund with {"order": "1042"}?',
    "options": ["approve", "reject"],
    "context": None,
    "priority": 2,
    "created_at_us": 1794789437298000,
    "deadline_us": None,
    "default": None,
    "role": "operator",
    "assignee": None,
    "chain": [],
    "escalate_at_us": None,
    "snoozed_until_us": None,
    "status": "open",
    "answer": None,
    "closed_at_us": None,
    "closed_by": "",
    "reason": "",
    "session_id": "ses_06gy3jbfd7sxt44ks4y4",
    "task_id": "ses_06gy3jbfd7sxt44ks4y4",
    "correlation_id": "ses_06gy3jbfd7sxt44ks4y4",
    "message_id": None,
    "tool": "refund",
    "arguments": '{"order":"1042"}',
    "notice": False,
    "version": 1,
}
_ANSWERED: Final = {
    **_ITEM,
    "status": "answered",
    "answer": {
        "choice": "approve",
        "by": "ada",
        "at_us": 1794789440000000,
        "via": "http",
        "text": "",
        "arguments": None,
        "always": False,
    },
    "closed_at_us": 1794789440000000,
    "closed_by": "ada",
}
_SESSION: Final = {
    "session_id": "ses_06gy3h8cvm929wgjh9ga",
    "agent": "orders",
    "status": "idle",
    "outcome": "done",
    "user_id": "u-17",
    "priority": 2,
    "meta": {"title": "Order 1042"},
    "events": 9,
    "owner": None,
    "created_at": 1794789433.449355,
    "updated_at": 1794789433.452352,
    "state": "idle",
    "title": "Order 1042",
    "run_id": "ses_06gy3h8cvm929wgjh9ga:1",
    "waiting_for": [],
}
_ME: Final = {
    "name": "ada",
    "tenant": "default",
    "scopes": ["answer", "read"],
    "local": False,
    "csrf_token": "5e2c1f0a9d7b4c63816f2ea75d0b94c3e8a1d6f7205b3c9e4f8a7d1b6c0e2f93",
    "version": "0.1.0",
    "console": True,
}
_QUESTION: Final = "Where is my order 1042?"

OPERATIONS: Final[Mapping[str, OperationText]] = {
    "runs_run": OperationText(
        sent={"input": _QUESTION, "user_id": "u-17"},
        got={200: _RUN, 202: {**_RUN, "status": "running", "output": None, "outcome": None}},
        headers=("Location", *_SESSION_HEADERS),
    ),
    "runs_resume_and_wait": OperationText(
        sent={}, got={200: _RUN}, headers=("Location", *_SESSION_HEADERS)
    ),
    "runs_get": OperationText(got={200: _RUN}),
    "sessions_list": OperationText(got={200: {"items": [_SESSION], "next_cursor": None}}),
    "sessions_fork": OperationText(sent={"at": 4}, headers=("Location",)),
    "sessions_import": OperationText(headers=("Location",)),
    "sessions_export": OperationText(headers=("Content-Disposition",)),
    "state_session": OperationText(sometimes=("ETag",)),
    "state_update_session": OperationText(
        sent={"set": {"tier": "gold"}},
        got={200: {"session_id": "ses_06gy3h8cvm929wgjh9ga", "version": 10}},
        headers=("ETag",),
    ),
    "state_user": OperationText(headers=("ETag",)),
    "state_app": OperationText(headers=("ETag",)),
    "handoffs_initiate": OperationText(
        sent={
            "source_agent_id": "triage",
            "target_agent_id": "orders",
            "task_id": "task-17",
            "task_state": {"order": "1042"},
            "conversation_history": [{"role": "user", "content": _QUESTION}],
            "policy": "graceful",
            "reason": "It is about an order.",
        },
        got={
            200: {
                "handoff_id": "task-17.h1",
                "status": "completed",
                "source_agent_id": "triage",
                "target_agent_id": "orders",
                "error": None,
            }
        },
    ),
    "inbox_get": OperationText(got={200: _ITEM}, headers=("ETag",)),
    "inbox_list": OperationText(got={200: {"items": [_ITEM], "next_cursor": None}}),
    "inbox_answer": OperationText(
        sent={"choice": "approve"}, got={200: _ANSWERED}, sometimes=("ETag",)
    ),
    "inbox_assign": OperationText(sent={"assignee": "ada"}, headers=("ETag",)),
    "inbox_snooze": OperationText(sent={"for_s": 10}, headers=("ETag",)),
    "inbox_cancel": OperationText(sent={"reason": "It is settled."}, headers=("ETag",)),
    "memory_store": OperationText(
        sent={"key": "colour", "content": "Her favourite colour is blue."},
        got={201: {"key": "colour", "stored": True}},
        headers=("Location",),
    ),
    "messages_send": OperationText(
        sent={"to": "orders", "type": "query", "payload": {"text": _QUESTION}},
        headers=("Location",),
    ),
    "collaborations_begin": OperationText(
        sent={"move": "request", "agent": "triage", "target": "orders", "task": "find order 1042"},
        headers=("Location",),
    ),
    "agents_route": OperationText(sent={"text": "I want my money back"}),
    "plans_preview": OperationText(sent={"text": "Check the weather in Kyoto and find a hotel"}),
    "audit_verify": OperationText(
        sent={},
        got={
            200: {
                "ok": True,
                "sessions": 5,
                "chained": 4,
                "not_chained": 0,
                "events": 8,
                "unhashed": 0,
                "covered": 61,
                "uncovered": 0,
                "decisions": 1,
                "compared": 0,
                "broken": 0,
                "checked": ["the hash chain of each session", "the digest of each commit"],
                "not_checked": ["steps, documents, messages and memory, which no hash covers"],
                "first": None,
                "links": [],
            }
        },
    ),
    "log_in": OperationText(sent={"key": "ek_k3v9x2m1_…"}, got={200: _ME}, headers=("Set-Cookie",)),
    "log_out": OperationText(headers=("Set-Cookie",)),
    "get_me": OperationText(got={200: _ME}),
    "keys_create": OperationText(sent={"name": "ci", "scopes": ["read", "run"]}),
    "run_agui": OperationText(
        sent={
            "threadId": "thread-1",
            "runId": "run-1",
            "messages": [{"id": "m1", "role": "user", "content": _QUESTION}],
        },
        headers=_SESSION_HEADERS,
    ),
    "create_chat_completion": OperationText(
        sent={"model": "ekiden", "messages": [{"role": "user", "content": _QUESTION}]},
        sometimes=(*_SESSION_HEADERS, "X-Ekiden-Ignored"),
    ),
    "create_response": OperationText(
        sent={"model": "ekiden", "input": _QUESTION},
        sometimes=(*_SESSION_HEADERS, "X-Ekiden-Ignored"),
    ),
}
"""By operation id."""
