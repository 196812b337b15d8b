"""The tools with which a model asks and tells other agents, and asks people.

An agent has them if it says whom it may ask: nobody else can be named.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from ekiden.core.agent import Agent
from ekiden.core.context import ToolContext
from ekiden.core.errors import ModelBehaviorError
from ekiden.core.tool import FunctionTool
from ekiden.core.values import dumps
from ekiden.runtime.tools.object_tools import object_tool

ASK_AGENT = "ask_agent"
TELL_AGENT = "tell_agent"
ASK_PERSON = "ask_person"


def bus_tools(agent: Agent[Any]) -> tuple[FunctionTool, ...]:
    """The tools that the agent has because of whom it may ask and tell."""
    if not (agent.can_ask or agent.can_tell or agent.can_ask_people):
        return ()
    return _made(tuple(agent.can_ask), tuple(agent.can_tell), tuple(agent.can_ask_people))


@lru_cache(maxsize=1024)
def _made(
    asked: tuple[str, ...], told: tuple[str, ...], people: tuple[str, ...]
) -> tuple[FunctionTool, ...]:
    tools = []
    if asked:
        tools.append(_ask_agent(asked))
    if told:
        tools.append(_tell_agent(told))
    if people:
        tools.append(_ask_person(people))
    return tuple(tools)


def _ask_agent(agents: tuple[str, ...]) -> FunctionTool:
    async def invoke(ctx: ToolContext[Any], given: dict[str, Any]) -> Any:
        to = _one_of(agents, given.get("agent"), "agent")
        answer = await ctx.ask(to, _text(given, "subject"), _text(given, "question"))
        return _from(f"agent {to!r}", answer)

    return object_tool(
        ASK_AGENT,
        "Ask another agent something and get its answer. The conversation stays with you.",
        {
            "agent": {"type": "string", "enum": list(agents), "description": "Whom to ask."},
            "subject": {"type": "string", "description": "What it is about, in a few words."},
            "question": {"type": "string", "description": "The question, with all it takes."},
        },
        invoke,
    )


def _tell_agent(agents: tuple[str, ...]) -> FunctionTool:
    async def invoke(ctx: ToolContext[Any], given: dict[str, Any]) -> Any:
        to = _one_of(agents, given.get("agent"), "agent")
        await ctx.tell(to, _text(given, "subject"), _text(given, "message"))
        return f"{to} is told."

    return object_tool(
        TELL_AGENT,
        "Send another agent a message, without waiting for an answer.",
        {
            "agent": {"type": "string", "enum": list(agents), "description": "Whom to tell."},
            "subject": {"type": "string", "description": "What it is about, in a few words."},
            "message": {"type": "string", "description": "What to tell."},
        },
        invoke,
    )


def _ask_person(roles: tuple[str, ...]) -> FunctionTool:
    async def invoke(ctx: ToolContext[Any], given: dict[str, Any]) -> Any:
        role = _one_of(roles, given.get("role"), "role")
        options = given.get("options") or []
        if not isinstance(options, list) or not all(isinstance(each, str) for each in options):
            raise ModelBehaviorError("`options` is a list of texts; empty for a free answer")
        answer = await ctx.request_approval(
            _text(given, "subject"), options, body=_text(given, "question"), role=role
        )
        said = {"choice": answer.choice, "text": answer.text, "by": answer.by}
        return dumps({name: value for name, value in said.items() if value})

    return object_tool(
        ASK_PERSON,
        "Ask a person to decide or to tell you something. This may take long: ask only what people "
        "have to decide.",
        {
            "role": {"type": "string", "enum": list(roles), "description": "Who is to answer."},
            "subject": {"type": "string", "description": "What it is about, in a few words."},
            "question": {"type": "string", "description": "All that it takes to decide."},
            "options": {
                "type": "array",
                "items": {"type": "string"},
                "description": "What can be chosen; empty for a free answer.",
            },
        },
        invoke,
    )


def _one_of(allowed: tuple[str, ...], given: object, what: str) -> str:
    """White-listed names only, whatever the model says."""
    if isinstance(given, str) and given in allowed:
        return given
    if given is None and len(allowed) == 1:
        return allowed[0]
    raise ModelBehaviorError(f"{given!r:.80} is no {what} that you may name: {', '.join(allowed)}")


def _text(given: dict[str, Any], name: str) -> str:
    value = given.get(name, "")
    if not isinstance(value, str):
        raise ModelBehaviorError(f"`{name}` must be text")
    return value


def _from(whom: str, answer: Any) -> str:
    """An answer as the model reads it: marked with where it comes from."""
    text = answer if isinstance(answer, str) else dumps(answer)
    return f"Answer of {whom}:\n{text}"
