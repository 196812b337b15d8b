"""What settings decide about runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from ekiden.core.agent import Agent
from ekiden.core.errors import ModelBehaviorError
from ekiden.project import load_settings
from ekiden.project.run_tasks import tenant_config
from ekiden.runtime import CodeContext, Runner
from ekiden.runtime.kinds.code_agent import HandOff


async def billing(ctx: CodeContext) -> str:
    return "paid"


async def triage(ctx: CodeContext) -> str | HandOff:
    return ctx.hand_off("billing")


async def test_settings_limit_handoffs(tmp_path: Path) -> None:
    environ = {"EKIDEN_HANDOFFS_ESCALATE_TO": "leads", "EKIDEN_BUS_VICTIM": "youngest"}
    team = Agent("triage", run=triage, handoffs=[Agent("billing", run=billing)])
    for depth in ("1", "null", "0"):
        settings = load_settings(
            tmp_path, environ={**environ, "EKIDEN_HANDOFFS_DEPTH": depth}, home=tmp_path
        ).settings
        config = tenant_config(settings, "acme")
        assert (config.escalate_to, config.bus.victim) == ("leads", "youngest")
        if depth == "0":
            with pytest.raises(ModelBehaviorError):
                await Runner.run(team, "hello", run_config=config)
        else:
            result = await Runner.run(team, "hello", run_config=config)
            assert result.chain == ["user", "triage", "billing"]
