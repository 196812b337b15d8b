"""The tools that are offered: names, words, scopes and hints."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ekiden.server.access.access import Scope
from ekiden.server.mcp import arguments, tools
from ekiden.server.mcp.visit import Visit


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A tool."""

    name: str
    title: str
    about: str
    """For models: what it does, and when to use it."""
    scope: Scope
    takes: type[arguments.Arguments]
    call: Callable[[Visit, Any], Awaitable[dict[str, Any]]]
    gives: Mapping[str, Any] = field(default_factory=lambda: {"type": "object"})
    """The JSON Schema of the result."""
    read_only: bool = False
    destructive: bool = False
    idempotent: bool = False


_PAGE: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "items": {"type": "array", "items": {"type": "object"}},
        "next_cursor": {"type": ["string", "null"]},
    },
    "required": ["items"],
}
_RUN: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "run_id": {"type": "string"},
        "session_id": {"type": "string"},
        "status": {
            "enum": [
                *("queued", "running", "waiting", "stopped"),
                *("done", "refused", "failed", "out_of_budget"),
            ]
        },
        "agent": {"type": ["string", "null"]},
        "output": {"description": "The answer, of a run that is done."},
        "chain": {"type": "array", "items": {"type": "string"}},
        "questions": {
            "type": "array",
            "items": {"type": "object"},
            "description": "What people have to decide before it goes on.",
        },
        "error": {"type": ["object", "null"]},
    },
    "required": ["run_id", "session_id", "status", "output", "questions"],
}


def _with_run(name: str) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {name: {"type": "object"}, "run": {"anyOf": [_RUN, {"type": "null"}]}},
        "required": [name, "run"],
    }


OFFERS: Final[tuple[Offer, ...]] = (
    Offer(
        name="ask_team",
        title="Ask the team",
        about="Begin a conversation with the team of agents and wait for the answer. They hand the "
        "work to each other as needed. A status of waiting means that people have to decide "
        "something first: show them `questions`.",
        scope="run",
        takes=arguments.AskTeam,
        call=tools.ask_team,
        gives=_RUN,
    ),
    Offer(
        name="continue_session",
        title="Continue a session",
        about="Say something more in a session, and wait for the answer.",
        scope="run",
        takes=arguments.ContinueSession,
        call=tools.continue_session,
        gives=_RUN,
    ),
    Offer(
        name="get_run",
        title="Look at a run",
        about="A run as it stands; with wait_s, once it is over or waits for people.",
        scope="read",
        takes=arguments.GetRun,
        call=tools.get_run,
        gives=_RUN,
        read_only=True,
    ),
    Offer(
        name="cancel_run",
        title="Stop a run",
        about="Stop a run that is under way. What it did is kept.",
        scope="run",
        takes=arguments.CancelRun,
        call=tools.cancel_run,
        gives=_RUN,
        destructive=True,
        idempotent=True,
    ),
    Offer(
        name="list_sessions",
        title="List sessions",
        about="Conversations with the team, newest first.",
        scope="read",
        takes=arguments.ListSessions,
        call=tools.list_sessions,
        gives=_PAGE,
        read_only=True,
    ),
    Offer(
        name="get_session",
        title="Look at a session",
        about="A conversation with who had it, who handed it to whom, and what was said last.",
        scope="read",
        takes=arguments.GetSession,
        call=tools.get_session,
        read_only=True,
    ),
    Offer(
        name="list_inbox",
        title="List the inbox",
        about="What agents ask people, the most urgent first.",
        scope="read",
        takes=arguments.ListInbox,
        call=tools.list_inbox,
        gives=_PAGE,
        read_only=True,
    ),
    Offer(
        name="answer_inbox",
        title="Answer a question of the inbox",
        about="Give a person's decision to something that an agent asked, once and for good; the "
        "run that waited goes on, and its answer is given. Only ever pass on what a person "
        "decided, never decide yourself.",
        scope="answer",
        takes=arguments.AnswerInbox,
        call=tools.answer_inbox,
        gives=_with_run("item"),
        destructive=True,
    ),
    Offer(
        name="handoff",
        title="Hand a session over",
        about="Hand a session to another agent of the team, by a way that its agent has, and wait "
        "for what that one answers.",
        scope="run",
        takes=arguments.HandOver,
        call=tools.handoff,
        gives=_with_run("handoff"),
    ),
    Offer(
        name="route",
        title="Find the agent for a request",
        about="Which agent would get a request, and why; nothing is run.",
        scope="run",
        takes=arguments.Route,
        call=tools.route,
        read_only=True,
    ),
    Offer(
        name="list_agents",
        title="List the agents",
        about="The agents of the team, with what each is for and to whom it may hand work.",
        scope="read",
        takes=arguments.ListAgents,
        call=tools.list_agents,
        gives=_PAGE,
        read_only=True,
    ),
)
