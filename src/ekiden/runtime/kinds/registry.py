"""The kinds of agents, and how each takes its turn.

What another kind of agent needs is an `AgentKind` that is registered; nothing else asks what kind
an agent is. The code of a kind is loaded when the first of its agents has a turn.
"""

from __future__ import annotations

from typing import Any, Protocol

from ekiden.core.agent import Agent
from ekiden.core.errors import UserError
from ekiden.core.profile import (
    CODE,
    MODEL,
    PERSON,
    ROUTER,
    RUNNER,
    SUPERVISOR,
    KindTraits,
    add_traits,
)
from ekiden.runtime.state.state import RunState
from ekiden.runtime.turn.turn import think


class AgentKind(Protocol):
    """How agents of a kind take their turn; register it with `register_agent_kind`.

    For example::

        class GraphKind(AgentKind):
            traits = KindTraits(name="graph")

            async def take_turn(self, run: RunState) -> None:
                await run_code(run, self.answer)

            async def answer(self, ctx: CodeContext) -> str:
                return await ctx.agent.implementation.ainvoke(ctx.text)


        register_agent_kind(GraphKind())
        research = Agent("research", kind="graph", implementation=graph)
    """

    traits: KindTraits

    async def take_turn(self, run: RunState) -> None:
        """Run the next part of the active agent's turn, and store it.

        Input guardrails, limits and triggers were already checked. It ends with an answer, a
        handoff or a wait, or it is called again. After a crash it is also called again: unstored
        work is repeated. `run_code` does all of this for an async function of a `CodeContext`. An
        exception rolls back the handoff that led here, or fails the run.
        """


class _Model(AgentKind):
    traits = MODEL
    take_turn = staticmethod(think)


class _Router(AgentKind):
    traits = ROUTER

    async def take_turn(self, run: RunState) -> None:
        from ekiden.runtime.turn.assign import assign

        await assign(run)


class _Supervisor(AgentKind):
    traits = SUPERVISOR

    async def take_turn(self, run: RunState) -> None:
        from ekiden.runtime.plans.run_plan import supervise

        await supervise(run)


class _Code(AgentKind):
    traits = CODE

    async def take_turn(self, run: RunState) -> None:
        from ekiden.runtime.kinds.code_agent import run_code

        assert run.agent.run is not None
        await run_code(run, run.agent.run)


class _Person(AgentKind):
    traits = PERSON

    async def take_turn(self, run: RunState) -> None:
        from ekiden.runtime.kinds.people import wait_for_person

        await wait_for_person(run)


class _Runner(AgentKind):
    traits = RUNNER

    async def take_turn(self, run: RunState) -> None:
        from ekiden.runtime.kinds.remote_agent import run_remote_agent

        await run_remote_agent(run)


class _Registered(AgentKind):
    """A kind of somebody else: a turn that does nothing would be repeated for ever."""

    def __init__(self, kind: AgentKind) -> None:
        self.traits = kind.traits
        self._kind = kind

    async def take_turn(self, run: RunState) -> None:
        agent, events = run.agent, run.next_seq
        await self._kind.take_turn(run)
        if run.next_seq == events and run.agent is agent and run.outcome is None:
            raise UserError(
                f"an agent of the kind {self.traits.name!r} took its turn and recorded nothing: "
                "let it answer, hand over or wait, for instance with `run_code`"
            )


_kinds: dict[str, AgentKind] = {
    kind.traits.name: kind
    for kind in (_Model(), _Router(), _Supervisor(), _Code(), _Person(), _Runner())
}


def register_agent_kind(kind: AgentKind) -> None:
    """Register a kind of agents::

        register_agent_kind(GraphKind())
        research = Agent("research", kind="graph", implementation=graph)

    Every process that runs such agents registers it before creating them. A second one of the same
    name replaces the first; `UserError` for the name of a built-in kind.
    """
    if not isinstance(getattr(kind, "traits", None), KindTraits):
        raise UserError(f"a kind of agents has `traits`, a KindTraits; {kind!r:.80} has none")
    if getattr(type(kind), "take_turn", None) in (None, AgentKind.take_turn):
        raise UserError(f"the kind {kind.traits.name!r} has no `take_turn` of its own")
    add_traits(kind.traits)
    _kinds[kind.traits.name] = _Registered(kind)


def kind_of(agent: Agent[Any]) -> AgentKind:
    """How the agent takes its turn."""
    return _kinds[agent.traits.name]
