"""`Runner`: runs an agent, or resumes a session."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ekiden.core.agent import Agent, Team
from ekiden.core.context import TContext, TOutput
from ekiden.core.errors import UserError
from ekiden.core.runs import RunHooks, Waiting
from ekiden.runtime.config import RunConfig, RunOptions
from ekiden.runtime.loop.advance import advance
from ekiden.runtime.loop.claim import begun, resumed, resumed_run
from ekiden.runtime.loop.load import ended_run
from ekiden.runtime.loop.session_waits import caller, waiting_for
from ekiden.runtime.results import RunResult, raise_failure
from ekiden.runtime.state.state import RunState
from ekiden.sessions import Session

if TYPE_CHECKING:
    from ekiden.runtime.stream import RunResultStreaming

_DEFAULT_CONFIG = RunConfig()


class Runner:
    """Runs an agent, or resumes a session.

    For example::

        result = await Runner.run(triage, "Where is my parcel?")
        print(result.final_output, result.chain)
    """

    @classmethod
    async def run(
        cls,
        starting_agent: Agent[TContext, TOutput] | Team,
        input: str | Iterable[Any],
        *,
        context: TContext | None = None,
        session: Session | None = None,
        hooks: RunHooks[TContext] | None = None,
        run_config: RunConfig | None = None,
        max_turns: int | None = None,
        to: str | None = None,
        variables: Mapping[str, Any] | None = None,
    ) -> RunResult[TContext, TOutput]:
        """Send `input` to the session's active agent, and run the session to an outcome. A new
        session starts with `starting_agent`.

        The outcome in the result says how the run ended: for example done, refused or out of
        budget. If a model, tool or callback raises an exception, the exception is stored as the
        failure of the session, and raised. Without `session`, the run is kept only in memory. `to`
        is the name of the agent that gets this message; with ``auto``, the team's router chooses
        the agent. `variables` are set in the session together with the message; ``ctx.get`` returns
        them from the first step on. Raises `SessionBusy` if another run uses the session (see
        `RunConfig.on_busy`).
        """
        options = _options(starting_agent, session, run_config, max_turns, context, hooks)
        options.to, options.is_watched = to, False
        options.variables = variables
        async with begun(options, input, session) as run:
            async for _ in advance(run):
                pass
            return _result(run)

    @classmethod
    def run_sync(
        cls,
        starting_agent: Agent[TContext, TOutput] | Team,
        input: str | Iterable[Any],
        *,
        context: TContext | None = None,
        session: Session | None = None,
        hooks: RunHooks[TContext] | None = None,
        run_config: RunConfig | None = None,
        max_turns: int | None = None,
        to: str | None = None,
        variables: Mapping[str, Any] | None = None,
    ) -> RunResult[TContext, TOutput]:
        """Call `run` from a program without an event loop."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            run = cls.run(
                starting_agent,
                input,
                context=context,
                session=session,
                hooks=hooks,
                run_config=run_config,
                max_turns=max_turns,
                to=to,
                variables=variables,
            )
            return asyncio.run(run)
        raise UserError("run_sync cannot be used inside an event loop: `await Runner.run(…)` there")

    @classmethod
    def run_streamed(
        cls,
        starting_agent: Agent[TContext, TOutput] | Team,
        input: str | Iterable[Any],
        *,
        context: TContext | None = None,
        session: Session | None = None,
        hooks: RunHooks[TContext] | None = None,
        run_config: RunConfig | None = None,
        max_turns: int | None = None,
        to: str | None = None,
        variables: Mapping[str, Any] | None = None,
    ) -> RunResultStreaming[TContext, TOutput]:
        """Start the same run as `run`, and return a stream of its events. The run makes progress
        only while you read the stream."""
        options = _options(starting_agent, session, run_config, max_turns, context, hooks)
        options.to, options.variables = to, variables
        options.live = True
        from ekiden.runtime.stream import RunResultStreaming

        return RunResultStreaming(lambda: begun(options, input, session))

    @classmethod
    async def resume(
        cls,
        team: Agent[TContext, TOutput] | Team,
        session: Session,
        *,
        context: TContext | None = None,
        hooks: RunHooks[TContext] | None = None,
        run_config: RunConfig | None = None,
        max_turns: int | None = None,
    ) -> RunResult[TContext, TOutput]:
        """Resume the unfinished run of the session: a run that was killed or cancelled, failed, or
        ran out of budget.

        Stored steps are not repeated. Raises `UserError` if the session has no unfinished run.
        """
        options = _options(team, session, run_config, max_turns, context, hooks)
        async with resumed(options, session) as run:
            async for _ in advance(run):
                pass
            return _result(run)

    @classmethod
    def resume_streamed(
        cls,
        team: Agent[TContext, TOutput] | Team,
        session: Session,
        *,
        context: TContext | None = None,
        hooks: RunHooks[TContext] | None = None,
        run_config: RunConfig | None = None,
        max_turns: int | None = None,
    ) -> RunResultStreaming[TContext, TOutput]:
        """Resume as `resume` does, and return a stream of events. The run makes progress only while
        you read the stream."""
        options = _options(team, session, run_config, max_turns, context, hooks)
        options.live = True
        from ekiden.runtime.stream import RunResultStreaming

        return RunResultStreaming(lambda: resumed(options, session))

    @classmethod
    async def wait(
        cls,
        team: Agent[TContext, TOutput] | Team,
        session: Session,
        *,
        timeout_s: float | None = None,
        context: TContext | None = None,
        hooks: RunHooks[TContext] | None = None,
        run_config: RunConfig | None = None,
        max_turns: int | None = None,
    ) -> RunResult[TContext, TOutput]:
        """Wait until the questions of the session are answered, then run the session to an outcome.

        The wait may take days. The questions are in the store, so after a restart you can call this
        method again in any process. If another process, such as a worker, continues the session,
        the call waits for that process, and reads the result from the store. If the run fails in
        that process, this call raises no exception, and the result has the failure as its outcome.
        Raises `TimeoutError` if there is no answer within `timeout_s` seconds. A timeout does not
        change the session. Raises `UserError` if the session is not waiting::

            result = await Runner.run(desk, "May I have a discount?", session=session)
            if isinstance(result.outcome, Waiting):
                result = await Runner.wait(desk, session)
        """
        from ekiden.runtime.loop.answer_wait import check_waits, taken_if_free, until_ready

        options = _options(team, session, run_config, max_turns, context, hooks)
        store, session_id = session.store, session.session_id
        await store.open()
        await check_waits(store, session_id)
        while True:
            async with waiting_for(store, session_id):
                ended = await until_ready(store, session_id, timeout_s=timeout_s)
            if ended is not None:
                return RunResult(await ended_run(options, store, ended))
            taken = await taken_if_free(store, session_id, options.config)
            if taken is None:
                continue
            async with resumed_run(options, store, *taken) as run:
                async for _ in advance(run):
                    pass
                result = _result(run)
            if not isinstance(result.outcome, Waiting):
                return result


def _result(run: RunState) -> RunResult:
    raise_failure(run)
    return RunResult(run)


def _options(
    root: Agent[Any] | Team,
    session: Session | None,
    config: RunConfig | None,
    max_turns: int | None,
    context: Any,
    hooks: RunHooks[TContext] | None,
) -> RunOptions:
    if not isinstance(root, (Agent, Team)):
        raise UserError(f"a run must start with an Agent or a Team, not {type(root).__name__}")
    if session is not None and not isinstance(session, Session):
        raise UserError(f"session must be a Session(id, store=…), not {type(session).__name__}")
    keeps_limits = config is None
    if config is None:
        config = _DEFAULT_CONFIG
    if not isinstance(config, RunConfig):
        raise UserError(f"run_config must be a RunConfig, not {type(config).__name__}")
    return RunOptions(
        root=root,
        config=config.with_limits({"turns": max_turns}),
        context=context,
        hooks=hooks,
        keeps_limits=keeps_limits,
        caller=caller(),
    )
