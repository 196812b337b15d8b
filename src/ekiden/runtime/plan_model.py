"""The model of a supervisor: each of its calls is a remembered step, and counted."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from ekiden.core.model import ModelRequest, ModelResponse
from ekiden.core.plan import AskModel
from ekiden.runtime.ask import call_model, resolve
from ekiden.runtime.limits import over_limit
from ekiden.runtime.plan_steps import lives
from ekiden.runtime.prompt import system_prompt
from ekiden.runtime.purse import Spent
from ekiden.runtime.state import RunState
from ekiden.runtime.turn import call_details


def plan_model(run: RunState) -> AskModel | None:
    """What asks the supervisor's model; `None` if it has none."""
    if not (run.config.model or run.agent.model or os.environ.get("EKIDEN_MODEL")):
        return None
    return _asking(run)


def _asking(run: RunState) -> Callable[[ModelRequest], Awaitable[ModelResponse]]:
    made = 0
    settings = run.agent.model_settings
    if run.config.model_settings is not None:
        settings = settings.resolve(run.config.model_settings)

    async def ask(request: ModelRequest) -> ModelResponse:
        nonlocal made
        made += 1
        # Splitting and putting together are never in one step: a call is known by what it is asked.
        purpose = "plan" if run.memo.get(run.step_key("s.plan")) is None else "answer"
        key = run.step_key(f"s.{purpose}{lives(run) or ''}.m{made}")
        stored: Any = run.memo.get(key)
        if stored is not None:
            return ModelResponse(output=stored)
        over = over_limit(run)
        if over is not None:
            raise Spent(over)
        own = await system_prompt(run)
        began = run.config.clock.monotonic()
        response = await call_model(
            run,
            resolve(run),
            replace(
                request,
                instructions="\n\n".join(filter(None, (request.instructions, own))) or None,
                settings=settings.resolve(request.settings),
                agent=run.agent.name,
                session_id=run.session_id,
                step=key,
            ),
        )
        duration_us = int((run.config.clock.monotonic() - began) * 1e6)
        details = {**(call_details(response) or {}), "for": purpose}
        run.record("llm_call", step=key, duration_us=duration_us, details=details)
        run.remember(key, response.output)
        await run.commit()
        run.memo = {**run.memo, key: response.output}
        return response

    return ask
