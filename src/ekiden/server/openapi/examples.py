"""Parts of the OpenAPI document in addition to the routes: event types, groups, headers and
examples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ekiden.core.events import EventType


@dataclass(frozen=True, slots=True)
class EventKind:
    """A type of event."""

    about: str
    details: Mapping[str, str] = field(default_factory=dict)
    """Descriptions of details, by name. A key may contain several names with the same meaning."""


EVENT_TYPES: Final[Mapping[EventType, EventKind]] = {
    "message": EventKind(
        "A message of the user that started a run. An event with a `step` is instead the answer "
        "of an agent without a model call of its own, such as a code agent. For other events of "
        "this type, the details show what they record.",
        {
            "by": "the person who gave the answer",
            "unfinished": (
                "tool calls that had no result when the message arrived; the event's items begin "
                "with outputs for these calls"
            ),
            "message": "the question, in the first event of a session that answers another agent",
            "asks": (
                "a question to another agent (`id`, `to`, `subject`, and `session` if a "
                "session of the team answers it)"
            ),
            "answer": (
                "the end of a question (`id`, `from`, `state`); if the question failed, "
                "`error` has the reason"
            ),
            "tells": "a message to another agent (`id`, `to`, `subject`)",
            "published, data": "name and data of an event that a tool or a program published",
            "trigger, fired, evaluation": (
                "a trigger that did not fire; `evaluation` shows which part of its condition was "
                "not met"
            ),
            "warning": (
                "the part of your code that raised an exception, after which the run continued; "
                "the exception is in `error`"
            ),
            "state, by": "a person or a program changed the session's variables",
            "rewound, undoes": (
                "a rewind of the session to the event with the number `rewound`; `undoes` is the "
                "range of events that no longer count. `pop_item` also records `undoes`"
            ),
            "deadlock": (
                "a resolved deadlock, in an event without a session; the event's agent is the "
                "victim"
            ),
            "collaboration": (
                "a move in a collaboration, in an event without a session, with `move`, `by`, "
                "`phase`, `message` and `to`; also `outcome` if the collaboration is closed, and "
                "`code` if the move was refused"
            ),
        },
    ),
    "agent_start": EventKind("An agent started, at the beginning of a run or after a handoff."),
    "llm_call": EventKind(
        "A model answered. `items` contains the answer. A failed model call has no event of its "
        "own; the run's `agent_error` event reports it.",
        {
            "model, response_id, usage": "as the provider reports them",
            "made_by": "see [versions](#versions-and-requests)",
            "sent, view": "where Ekiden finds parts of the request that belong to this session",
            "attempt": "2 or more after retries",
            "rejected": (
                "a guardrail blocked the answer, which is therefore not in `items`; if the model "
                "had to repair the answer, the `guardrail` event has it"
            ),
        },
    ),
    "tool_call": EventKind(
        "A tool call ended. The last item is the output. If the tool failed, `error` is "
        "set. If the model called an unknown tool or made a second handoff in one turn, no tool "
        "ran: the event has an `error` and no `step`.",
        {
            "tool": "the name of the tool",
            "not_run": "the tool did not run, because approval was denied",
        },
    ),
    "route": EventKind(
        "A router, or a person with `@name`, chose the agent for a message, even if this is the "
        "agent that was already active.",
        {
            "agent, method, confidence, reason, cause": "the decision",
            "candidates, stages, matched_keywords, matched_patterns, strategy, elapsed_ms": (
                "how a router made the decision"
            ),
        },
    ),
    "tool_confirmation": EventKind(
        "The result of a human approval, stored before the tool runs. The duration is the time "
        "until the answer.",
        {
            "tool, call_id": "the call",
            "approved": "whether the tool runs",
            "status": (
                "`answered`, `expired`, `cancelled` (withdrawn), `unavailable` (no person could be "
                "asked) or `void` (the tool changed, or the approval expired, before the call "
                "started: the person is asked again)"
            ),
            "by": "who decided or withdrew the question; `nobody` if there was no answer",
            "reason": "the person's reason, or the reason why there was no answer",
            "always": (
                "further calls of the tool in `scope` need no approval in this session; their "
                "events name the approver"
            ),
            "version": "the version of the tool",
            "edited": (
                "whether the person changed the arguments; `arguments` has the new arguments, as "
                "JSON text"
            ),
            "arguments_hash": "BLAKE2b of the approved arguments, 16 bytes in hexadecimal",
        },
    ),
    "handoff": EventKind(
        "A handoff changed its status. One event covers all status changes of its transaction, so "
        "a successful handoff has two events: `transferring` and `completed`.",
        {
            "id": "handoff id: session id, `.h` and a number or name",
            "from, to": "the source and the target",
            "status": (
                "`transferring`, `completed`, `failed` or `rolled_back`; `initiated` or "
                "`validating` while a person is asked for approval"
            ),
            "moves": "the new statuses in this event, in order",
            "by": (
                "`kind` and `name` of the initiator; left out if the source's own model or code "
                "started the handoff"
            ),
            "policy": "the policy; left out if it is `graceful`",
            "reason, summary, context": (
                "as given in the handoff; `summary` and `context` are left out if the model's "
                "tool call has them"
            ),
            "priority, metadata": "as given by the program that started the handoff",
            "chain": "earlier agents, if the caller named any",
            "code": "why the handoff was refused or rolled back; `error` has the text",
            "evaluation": "how the condition was evaluated, if it was not met",
            "trigger": "why a trigger fired",
            "requested": (
                "all handoffs that the model requested in this turn, if there were several"
            ),
            "filter": "the key of the step that has the filtered conversation",
            "request, at": "id and time of a handoff request from outside the run",
            "begins_run": "the session was not running when the request came",
            "undoes, keeps": (
                "the range of events that a rollback undoes, and the events in this range "
                "that still count"
            ),
            "compensation, attempt, rollback_failed": (
                "the key of a compensation, the number of the attempt, and whether "
                "the attempt failed; `moves` is empty"
            ),
            "not_compensated": "keys of effects that could not be compensated",
            "task, correlation": "the ids of the session's task",
        },
    ),
    "guardrail": EventKind(
        "A guardrail blocked an input, an answer, a handoff or a tool call, or warned about it. "
        "If a model had to repair its answer, `items` contains this answer and the feedback to "
        "the model; both are not part of the conversation. The event of the answer, of the "
        "handoff or of the end of the run lists passed checks under `guardrails`.",
        {
            "type": "`input`, `output`, `handoff`, `tool_input` or `tool_output`",
            "result": "`failed` or `warned`",
            "behavior": (
                "`reject`, `repair` or `warn`; for tools `reject_content` or `raise_exception`; "
                "`crashed` if the guardrail itself failed"
            ),
            "violations": "each with `path` and `message`",
            "tool, call_id, guardrail, message, info": (
                "for tool guardrails; with `trace_include_sensitive_data=False`, `message` and "
                "`info` are omitted"
            ),
            "undoes": (
                "the rejected message, as first and last event number; later runs do not see it"
            ),
        },
    ),
    "inbox": EventKind(
        "An inbox item was created or changed. The session that creates an item records the "
        "creation, and the answer when the session continues. All other changes are events "
        "without a session.",
        {
            "item, kind": (
                "id and kind: `approval`, `confirmation`, `handoff`, `rollback_failed`, "
                "`escalation` or `routing`"
            ),
            "change": (
                "`posted`, `assigned`, `snoozed`, `back` (end of a snooze), `escalated`, "
                "`answered`, `expired` or `cancelled`"
            ),
            "from, role, subject, options, priority, tool": "properties of the item",
            "summary, context": "summary and context of a conversation handed off to a person",
            "handoff, not_compensated, reason": (
                "for a rollback: the id of the handoff, the keys of its failed compensations, and "
                "the reason"
            ),
            "status": "the result with which the session continues",
            "by, via, at_us": (
                "who made the change (a person, the agent that asked, or `nobody` for a "
                "deadline), the channel, and the time"
            ),
            "answer": (
                "`choice`, `text`, `by`, `at_us`, `via`, `arguments`, `always`, `scope`, `limits`; "
                "in events without a session, these fields and `edited` are details of the event "
                "itself"
            ),
            "task, assignee, snoozed_until_us, deadline_us": (
                "in events without a session, if set: the waiting session, the assigned person, "
                "and times"
            ),
        },
    ),
    "agent_complete": EventKind(
        "A run ended without an error. If an agent answered, there is no `outcome`.",
        {
            "outcome": "`refused`, `out_of_budget`, `waiting` or `cancelled`",
            "conclusion, reason": (
                "the [conclusion](running.md#conclusions) of an answer that is not plainly "
                "`succeeded`, and the reason that code gave for it"
            ),
            "limit, allowed, used": "for `out_of_budget`",
        },
    ),
    "agent_error": EventKind(
        "A run failed. If the event has no session, a message handler on the bus failed. The error "
        "text is in `error`.",
        {
            "outcome, code": (
                "outcome and error code of the run. On the bus, `outcome` is `failed` for a "
                "query, and `retried` or `dead` for other messages"
            ),
            "message_id, message_type, from_agent, subject, attempt": "on the bus",
        },
    ),
    "task": EventKind(
        "A step of a supervisor's plan, in the supervisor's session. The agents that work on "
        "tasks have events in their own sessions. With `trace_include_sensitive_data=False`, "
        "descriptions and reasoning are omitted.",
        {
            "phase": (
                "`decomposed` (the plan is stored), `started`, `finished` (a task has its result, "
                "or will not start), `aggregating` or `completed`; a failed plan ends with "
                "`agent_error`"
            ),
            "tasks, reasoning, notes": (
                "for `decomposed`; each task has `task_id`, `agent`, `description`, `depends_on`"
            ),
            "task_id, agent": "for `started` and `finished`",
            "attempt": "for `started`, from the second attempt on",
            "success": (
                "for `finished`; the event also has the duration, and `error` for a failed task"
            ),
        },
    ),
}


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
    "conclusion": "succeeded",
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
    "tool_version": "9f86d081884c7d659a2feaa0c55ad015",
    "definition": None,
    "scope": "",
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
        "scope": "call",
        "limits": None,
    },
    "closed_at_us": 1794789440000000,
    "closed_by": "ada",
}
_SESSION: Final = {
    "session_id": "ses_06gy3h8cvm929wgjh9ga",
    "agent": "orders",
    "status": "idle",
    "outcome": "done",
    "conclusion": "succeeded",
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
    "version": "0.2.0",
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
"""The examples and headers of operations, by operation id."""
