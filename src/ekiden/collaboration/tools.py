"""Tools with which models negotiate. A tool acts in the name of the agent whose model calls it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from ekiden.collaboration.collaborations import Collaborations
from ekiden.collaboration.party import Party
from ekiden.collaboration.record import Collaboration
from ekiden.collaboration.wire import agent_name
from ekiden.core.context import RunContextWrapper, ToolContext
from ekiden.core.conversation.quotes import quote
from ekiden.core.documents import to_json
from ekiden.core.errors import EkidenError, ToolError, UserError
from ekiden.core.tools.tool import FunctionTool
from ekiden.core.values import loads
from ekiden.tools.function import default_tool_error_function, function_tool

_MAX_CHARS = 20_000


def negotiation_tools(
    collaborations: Collaborations, *, with_agents: Sequence[str]
) -> list[FunctionTool]:
    """The tools `propose`, `counter`, `accept`, `reject`, `request_handoff` and `show_negotiation`.

    The model can negotiate only with the agents in `with_agents`. A proposal or request stores the
    id of the session in which the model runs as ``session_id`` in the context of the collaboration.
    `HandoffExecutor` hands over this session. The model sees the other side's messages as quoted
    JSON. For example::

        Agent("sales", tools=negotiation_tools(collaborations, with_agents=["purchasing"]))
    """
    bench = _Bench(collaborations, with_agents)
    makers: tuple[Callable[[_Bench], FunctionTool], ...] = (
        _propose,
        _counter,
        _accept,
        _reject,
        _request_handoff,
        _show,
    )
    return [make(bench) for make in makers]


class _Bench:
    """Shared by the tools: the allowed partners, and access to collaborations."""

    def __init__(self, collaborations: Collaborations, with_agents: Sequence[str]) -> None:
        if isinstance(with_agents, str):
            raise UserError(f"`with_agents` must be a list of names: write [{with_agents!r:.80}]")
        self.partners = tuple(
            agent_name(each, what="each of `with_agents`") for each in with_agents
        )
        if not self.partners:
            raise UserError("`with_agents` must name the agents that it may negotiate with")
        self._collaborations = collaborations

    def party(self, ctx: ToolContext[Any]) -> Party:
        """The handle of the calling agent."""
        name = getattr(ctx.agent, "name", None)
        if not isinstance(name, str):
            raise ToolError("this tool works for agents only: no agent is known to call it")
        return self._collaborations.as_agent(name)

    def check(self, partner: str | None) -> str:
        """`partner`, if it is allowed. Raises `ToolError` otherwise."""
        if partner is None or partner not in self.partners:
            raise ToolError(
                f"you may not negotiate with {partner!r:.80}, only with: {', '.join(self.partners)}"
            )
        return partner

    async def known(self, party: Party, collaboration_id: str) -> Collaboration:
        """The collaboration, if its partner is allowed. Raises `ToolError` otherwise."""
        found = await party.get(collaboration_id)
        self.check(found.other_side(party.name))
        return found


def _words(ctx: RunContextWrapper[Any], error: Exception) -> str:
    if isinstance(error, EkidenError):
        return f"Error ({error.code}): {error}"[:2_000]
    return default_tool_error_function(ctx, error)


def _propose(bench: _Bench) -> FunctionTool:
    @function_tool(failure_error_function=_words)
    async def propose(ctx: ToolContext[Any], agent: str, terms: str) -> str:
        """Propose terms to another agent. Nothing is agreed until both sides have accepted.

        Args:
            agent: The name of the agent.
            terms: What you propose, in words or as a JSON object.
        """
        party = bench.party(ctx)
        made = await party.propose(
            bench.check(agent), _terms(terms), context=_context(ctx), key=_key(ctx)
        )
        return _told(made, party.name)

    return propose


def _request_handoff(bench: _Bench) -> FunctionTool:
    @function_tool(failure_error_function=_words)
    async def request_handoff(
        ctx: ToolContext[Any], agent: str, task: str, requirements: str = ""
    ) -> str:
        """Ask another agent to take work over. It may agree, refuse, or propose other terms.

        Args:
            agent: The name of the agent.
            task: What is to be done.
            requirements: What has to be kept to, in words or as a JSON object.
        """
        party = bench.party(ctx)
        made = await party.request_handoff(
            bench.check(agent),
            task,
            _terms(requirements) if requirements.strip() else None,
            context=_context(ctx),
            key=_key(ctx),
        )
        return _told(made, party.name)

    return request_handoff


def _counter(bench: _Bench) -> FunctionTool:
    @function_tool(failure_error_function=_words)
    async def counter(
        ctx: ToolContext[Any], collaboration: str, terms: str, reason: str = ""
    ) -> str:
        """Answer the other side's terms with other terms.

        Args:
            collaboration: The id of the negotiation.
            terms: What you propose instead, in words or as a JSON object.
            reason: Why, for the other side.
        """
        party = bench.party(ctx)
        await bench.known(party, collaboration)
        made = await party.counter(collaboration, _terms(terms), reason=reason, key=_key(ctx))
        return _told(made, party.name)

    return counter


def _accept(bench: _Bench) -> FunctionTool:
    @function_tool(failure_error_function=_words)
    async def accept(ctx: ToolContext[Any], collaboration: str, version: int) -> str:
        """Accept the terms on the table. It is agreed when both sides have accepted the same.

        Args:
            collaboration: The id of the negotiation.
            version: The version of the terms that you accept.
        """
        party = bench.party(ctx)
        await bench.known(party, collaboration)
        made = await party.accept(collaboration, version, key=_key(ctx))
        return _told(made, party.name)

    return accept


def _reject(bench: _Bench) -> FunctionTool:
    @function_tool(failure_error_function=_words)
    async def reject(ctx: ToolContext[Any], collaboration: str, reason: str) -> str:
        """Reject the other side's terms and end the negotiation; or withdraw your own.

        Args:
            collaboration: The id of the negotiation.
            reason: Why, for the other side.
        """
        party = bench.party(ctx)
        found = await bench.known(party, collaboration)
        is_own = found.terms is not None and found.terms.by == party.name
        end = party.cancel if is_own else party.reject
        made = await end(collaboration, reason=reason, key=_key(ctx))
        return _told(made, party.name)

    return reject


def _show(bench: _Bench) -> FunctionTool:
    @function_tool(failure_error_function=_words)
    async def show_negotiation(ctx: ToolContext[Any], collaboration: str) -> str:
        """Show how a negotiation stands, and what you can do next.

        Args:
            collaboration: The id of the negotiation.
        """
        party = bench.party(ctx)
        return _told(await bench.known(party, collaboration), party.name)

    return show_negotiation


def _terms(text: str) -> Any:
    """The terms: parsed if the text is a JSON object, otherwise the text."""
    if text.lstrip().startswith("{"):
        with suppress(ValueError, RecursionError):
            return loads(text)
    if not text.strip():
        raise ToolError("the terms are empty: say what you propose")
    return text


def _context(ctx: ToolContext[Any]) -> dict[str, Any] | None:
    return {"session_id": ctx.session_id} if ctx.session_id else None


def _key(ctx: ToolContext[Any]) -> str | None:
    """The key that makes a repeated call idempotent after a crash."""
    return ctx.idempotency_key or None


def _told(found: Collaboration, name: str) -> str:
    data: dict[str, Any] = {
        "collaboration": found.id,
        "with": found.other_side(name),
        "phase": found.phase,
        "next": _next(found, name),
    }
    terms = found.terms
    if terms is not None:
        data["terms"] = {"version": terms.version, "by": terms.by, "body": terms.body}
        data["accepted_by"] = list(found.accepted_by)
    if found.phase == "negotiation":
        data["counters_left"] = found.max_rounds - found.rounds
    if found.outcome is not None:
        data["outcome"] = to_json(found.outcome)
    return quote(data, max_chars=_MAX_CHARS)


def _next(found: Collaboration, name: str) -> str:
    if found.is_closed:
        return "nothing: it is over"
    if found.phase != "negotiation" or found.terms is None:
        return "nothing: it is being carried out"
    other, version = found.other_side(name), found.terms.version
    if name in found.accepted_by:
        return f"wait until {other} answers"
    if other in found.accepted_by:
        return f"{other} accepted version {version}: if you accept it too, it is agreed"
    if found.terms.by == name:
        return f"wait until {other} answers; you must also accept your own terms"
    return f"accept version {version}, counter, or reject"
