"""Runs: say something to the team, and watch."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Literal, TypeAlias, TypedDict, Unpack

from ekiden.client.following import begin, follow
from ekiden.client.modes import M, Resource, answers, given, streams
from ekiden.client.paths import part
from ekiden.client.values import Run, Shown
from ekiden.client.wire import Wire

Input: TypeAlias = str | Sequence[Mapping[str, Any]]
"""A text, or items as the OpenAI Responses API has them."""
Strategy: TypeAlias = Literal["rule", "semantic", "llm", "hybrid"]


class RunOptions(TypedDict, total=False):
    """How something is said; what is not given, or `None`, is as the server has it."""

    session_id: str | None
    """Go on in this session, or begin it; without it, a new one."""
    agent: str | None
    """Who gets it: a name, or ``auto`` for the router; else who has the session."""
    strategy: Strategy | None
    """How the router chooses."""
    user_id: str | None
    """Whose a new session is."""
    title: str | None
    correlation_id: str | None
    priority: Literal["low", "normal", "high", "urgent"] | None
    """Of a new session: the more important ones are run first."""
    max_turns: int | None
    on_busy: Literal["refuse", "wait"] | None
    """If somebody else runs the session."""


class Runs(Resource[M]):
    """What is said to the team, and what comes of it."""

    @answers
    async def start(self, input: Input, **options: Unpack[RunOptions]) -> Run:
        """Say something, and do not wait: the run goes on at the server.

        Raises `SessionBusy` and `UnknownAgent`.
        """
        body = given(input=input, **options)
        return Run.of(await self._wire.ask("POST", "/runs", body={**body, "background": True}))

    @answers
    async def run(self, input: Input, **options: Unpack[RunOptions]) -> Run:
        """Say something and wait until nobody works on it any more: it is over, or it waits for
        people. Raises what `start` does."""
        body = given(input=input, **options)
        run = Run.of(await self._wire.ask("POST", "/runs", body=body))
        return await ended(self._wire, run) if run.is_active else run

    @streams
    async def stream(
        self, input: Input, **options: Unpack[RunOptions]
    ) -> AsyncGenerator[Shown, None]:
        """Say something and watch: `Begun`, events, pieces of answers, and at the end the `Run`.

        The run begins when the first is asked for, goes on when you stop to watch, and is watched
        on after a cut connection. Raises what `start` does.
        """
        body = given(input=input, **options)
        async with aclosing(begin(self._wire, {**body, "stream": True})) as shown:
            async for each in shown:
                yield each

    @streams
    async def follow(
        self, run_id: str, *, after: int | None = None, until: Literal["pause", "outcome"] = "pause"
    ) -> AsyncGenerator[Shown, None]:
        """Watch a run, from its beginning or from after the event of this number, to its end.

        `until`: a run that waits for people is at its end (``pause``), or it is watched until it
        has an outcome.
        """
        path = f"/runs/{part(run_id)}/events"
        followed = follow(self._wire, path, after=after, params={"until": until})
        async with aclosing(followed) as shown:
            async for each in shown:
                yield each

    @answers
    async def get(self, run_id: str) -> Run:
        """The run as it stands; `RunNotFound`."""
        return Run.of(await self._wire.ask("GET", f"/runs/{part(run_id)}"))

    @answers
    async def wait(self, run_id: str) -> Run:
        """The run, once nobody works on it any more."""
        run = Run.of(await self._wire.ask("GET", f"/runs/{part(run_id)}"))
        return await ended(self._wire, run) if run.is_active else run

    @answers
    async def cancel(self, run_id: str) -> Run:
        """Stop the run; its work is kept, and its session can be resumed. One that is over stays
        as it is."""
        return Run.of(await self._wire.ask("POST", f"/runs/{part(run_id)}/cancel"))


async def ended(wire: Wire, run: Run) -> Run:
    """The run, once nobody works on it any more."""
    async with aclosing(follow(wire, f"/runs/{part(run.run_id)}/events")) as shown:
        async for each in shown:
            if isinstance(each, Run):
                return each
    return run
