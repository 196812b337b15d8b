"""What each type of event means, and its details: the reference of events and the OpenAPI document
show it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from ekiden.core.events import EventType


@dataclass(frozen=True, slots=True)
class EventKind:
    """A type of event."""

    about: str
    details: Mapping[str, str] = field(default_factory=dict)
    """By name, or several names with the same meaning."""


EVENT_TYPES: Final[Mapping[EventType, EventKind]] = {
    "message": EventKind(
        "A message of the user that started a run. If the event has a `step`, it is the answer of "
        "a code agent or a remote agent. The details of other messages show their kind.",
        {
            "by": "the person who answered",
            "unfinished": (
                "tool calls that had no result; the event's items begin with their outputs"
            ),
            "message": "the question, in the first event of a session that answers another agent",
            "asks": "the agent asked another agent: `id`, `to`, `subject`, and `session` if a "
            "session of the team answers",
            "answer": "a question was answered, or ended without an answer: `id`, `from`, `state`; "
            "a failure is in `error`",
            "tells": "the agent sent a message: `id`, `to`, `subject`",
            "published, data": "an event was published",
            "trigger, fired, evaluation": "the condition of a trigger was not met",
            "warning": (
                "your code raised an exception, and the run continued; the exception is in `error`"
            ),
            "state, by": "a person or a program changed the state",
            "rewound, undoes": "the session was rewound to event `rewound`; `undoes` is the range "
            "of events that no longer count. `pop_item` also has `undoes`",
            "deadlock": (
                "in an event without a session: a deadlock was resolved; `agent` is the victim"
            ),
            "collaboration": (
                "in an event without a session: a move in a collaboration, with "
                "`move`, `by`, `phase`, `message` and `to`; `outcome` if the "
                "collaboration is closed, and `code` if the move was refused"
            ),
        },
    ),
    "agent_start": EventKind("An agent starts, at the beginning of a run or after a handoff."),
    "llm_call": EventKind(
        "A model answered. `items` contains the answer. A failed model call has no event of its "
        "own; the run's `agent_error` event reports it.",
        {
            "model, response_id, usage": "as the provider reports them",
            "attempt": "2 or more after retries",
            "rejected": (
                "a guardrail blocked the answer; the blocked answer is in the `guardrail` event"
            ),
        },
    ),
    "tool_call": EventKind(
        "A tool call has a result. The last item is the output. `error` is set if the tool failed, "
        "if the tool is unknown, or for a second handoff in one turn. In the last two cases no "
        "tool ran, and there is no `step`.",
        {"tool": "its name", "not_run": "approval was denied"},
    ),
    "route": EventKind(
        "A router, or a person with `@name`, chose the agent for a message. The event is also "
        "recorded if the agent does not change.",
        {
            "agent, method, confidence, reason, cause": "the decision",
            "candidates, stages, matched_keywords, matched_patterns, strategy, elapsed_ms": "how a "
            "router decided",
        },
    ),
    "tool_confirmation": EventKind(
        "The result of a human approval, stored before the tool runs. The duration is the time "
        "until the answer.",
        {
            "tool, call_id": "the call",
            "approved": "whether the tool runs",
            "status": "`answered`, `expired`, `cancelled` (withdrawn) or `unavailable` (no person "
            "could be asked)",
            "by": "who decided or withdrew the question; `nobody` after a deadline or without an "
            "answer",
            "reason": "the person's reason, or why there was no answer",
            "always": "further calls of the tool, or of the same program or host, need no "
            "approval in this session; their events name the approver",
            "edited": "whether the person changed the arguments; `arguments` has the new "
            "arguments, as JSON text",
            "arguments_hash": "BLAKE2b of the approved arguments, 16 bytes in hexadecimal",
        },
    ),
    "handoff": EventKind(
        "A handoff changed its status. One event covers all status changes of its transaction, so "
        "a successful handoff has two events: `transferring` and `completed`.",
        {
            "id": "handoff id: session id, `.h` and a number or name",
            "from, to": "the agents",
            "status": "`transferring`, `completed`, `failed` or `rolled_back`; `initiated` or "
            "`validating` during an approval",
            "moves": "the new statuses in this event, in order",
            "by": "`kind` and `name` of the initiator; left out for the agent's own model or code",
            "policy": "left out if `graceful`",
            "reason, summary, context": (
                "as given in the handoff; `summary` and `context` only if "
                "they are not in a model call"
            ),
            "priority, metadata": "given by a program",
            "chain": "earlier agents, if the caller named them",
            "code": "why it was refused or rolled back; the text is in `error`",
            "evaluation": "the result of the condition that was not met",
            "trigger": "why a trigger fired",
            "requested": "all handoffs that the model requested in one turn, if there are several",
            "filter": "the step with the filtered conversation",
            "request, at": "id and time of a request from outside",
            "begins_run": "whether the session was not running when the request came",
            "undoes, keeps": "after a rollback: the range of events that no longer count, and "
            "the exceptions in this range",
            "compensation, attempt, rollback_failed": "a compensation: its key, the attempt, and "
            "whether it failed; `moves` is empty",
            "not_compensated": "keys of effects that could not be compensated",
            "task, correlation": "the task of the session",
        },
    ),
    "guardrail": EventKind(
        "A guardrail blocked an input, an answer, a handoff or a tool call. `items` contains the "
        "blocked answer and the feedback to the model; they are not part of the conversation. "
        "Passed checks are listed as `guardrails` in the event of the answer, of the handoff or of "
        "the end of the run.",
        {
            "type": "`input`, `output`, `handoff`, `tool_input` or `tool_output`",
            "result": "`failed` or `warned`",
            "behavior": "`reject`, `repair` or `warn`; for tools `reject_content` or "
            "`raise_exception`; `crashed` if the guardrail itself failed",
            "violations": "each with `path` and `message`",
            "tool, call_id, guardrail, message, info": (
                "for tool guardrails; `message` and `info` are omitted without sensitive data"
            ),
            "undoes": "a rejected message, as first and last event number; later runs do not see "
            "it",
        },
    ),
    "inbox": EventKind(
        "An inbox item was created or changed. A session records the items it creates, and their "
        "answers when it continues. All other changes are events without a session.",
        {
            "item, kind": "id and kind: `approval`, `confirmation`, `handoff`, `rollback_failed`, "
            "`escalation` or `routing`",
            "change": "`posted`, `assigned`, `snoozed`, `back` (end of a snooze), `escalated`, "
            "`answered`, `expired` or `cancelled`",
            "from, role, subject, options, priority, tool": "properties of the item",
            "summary, context": "for a conversation that was handed off to a person",
            "handoff, not_compensated, reason": "for a handoff that was rolled back",
            "status": "the result with which the session continues",
            "by, via, at_us": (
                "who made the change (a person, the agent that asked, or `nobody` "
                "for a deadline), the channel, and the time"
            ),
            "answer": "`choice`, `text`, `by`, `at_us`, `via`, `arguments`, `always`; in events "
            "without a session these are separate details, with `edited`",
            "task, assignee, snoozed_until_us, deadline_us": "in events without a session, if "
            "set: the waiting session, the person, and times",
        },
    ),
    "agent_complete": EventKind(
        "A run ended without an error. `details` are empty after an answer.",
        {
            "outcome": "`refused`, `out_of_budget`, `waiting` or `cancelled`",
            "limit, allowed, used": "for `out_of_budget`",
        },
    ),
    "agent_error": EventKind(
        "A run failed. The error text is in `error`. In an event without a session, a handler on "
        "the bus failed.",
        {
            "outcome, code": "outcome and code of the run; on the bus `failed` for a query, "
            "`retried` or `dead` for other messages",
            "message_id, message_type, from_agent, subject, attempt": "on the bus",
        },
    ),
    "task": EventKind(
        "A step of a supervisor's plan, in the supervisor's session. The events of the agents "
        "are in their own sessions. Without sensitive data, descriptions and reasoning are "
        "omitted.",
        {
            "phase": "`decomposed` (the plan is stored), `started`, `finished` (a task has its "
            "result, or will not start), `aggregating` or `completed`; a failed plan ends with "
            "`agent_error`",
            "tasks, reasoning, notes": "for `decomposed`; each task has `task_id`, `agent`, "
            "`description`, `depends_on`",
            "task_id, agent": "for `started` and `finished`",
            "attempt": "for `started`, from the second attempt on",
            "success": "for `finished`; the event also has the duration, and `error` for a "
            "failed task",
        },
    ),
}
