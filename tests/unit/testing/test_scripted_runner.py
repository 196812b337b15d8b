"""The scripted runner: replies in order, the same reply for the same task, complaints."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ekiden.core.errors import UserError
from ekiden.core.roles import AgentReply, AgentRunner, RemoteTask
from ekiden.testing import ScriptedRunner, UnexpectedTask, UnusedSteps, hang


def task(key: str, agent: str = "far") -> RemoteTask:
    return RemoteTask(task_id="t", session_id="s", agent=agent, idempotency_key=key)


async def test_replies_are_given_in_order_and_tasks_are_recorded() -> None:
    declined = AgentReply(declined="closed")
    with ScriptedRunner(["done", declined]) as runner:
        role: AgentRunner = runner
        assert await role.run_task(task("1")) == AgentReply(text="done")
        assert await role.run_task(task("2", "near")) is declined
    assert [each.agent for each in runner.tasks] == ["far", "near"]
    assert repr(runner) == "<ScriptedRunner asked=2 left=0>"


async def test_a_text_is_one_step() -> None:
    with ScriptedRunner("done") as runner:
        assert await runner.run_task(task("1")) == AgentReply(text="done")


async def test_a_repeated_task_returns_the_recorded_reply() -> None:
    with ScriptedRunner(["once", "other"]) as runner:
        first = await runner.run_task(task("1"))
        assert await runner.run_task(task("1")) is first
        assert (await runner.run_task(task("2"))).text == "other"
    assert len(runner.tasks) == 3


async def test_a_failed_task_plays_the_next_step_when_repeated() -> None:
    with ScriptedRunner([ConnectionError("down"), "up"]) as runner:
        with pytest.raises(ConnectionError, match="down"):
            await runner.run_task(task("1"))
        assert (await runner.run_task(task("1"))).text == "up"


async def test_a_sync_or_async_function_of_the_task_may_be_the_step() -> None:
    async def later(given: RemoteTask) -> Any:
        return AgentReply(text=given.idempotency_key)

    with ScriptedRunner([lambda given: given.agent, later, lambda _: KeyError("x")]) as runner:
        assert (await runner.run_task(task("1"))).text == "far"
        assert (await runner.run_task(task("2"))).text == "2"
        with pytest.raises(KeyError):
            await runner.run_task(task("3"))


async def test_a_hanging_runner_is_cancelled() -> None:
    with ScriptedRunner([hang()]) as runner:
        running = asyncio.create_task(runner.run_task(task("1")))
        await runner.until_called()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running


async def test_an_unexpected_task_raises_again_at_the_end() -> None:
    runner = ScriptedRunner()
    with pytest.raises(UnexpectedTask, match="agent 'far' was handed task '1' .* has 0 steps"):
        await runner.run_task(task("1"))
    with pytest.raises(UnexpectedTask, match="agent 'far'"), runner:
        pass


def test_unused_steps_raise_at_the_end() -> None:
    with pytest.raises(UnusedSteps, match="2 of 2 scripted steps"), ScriptedRunner(["a", "b"]):
        pass


def test_an_exception_of_the_block_is_not_hidden() -> None:
    with pytest.raises(ValueError, match="mine"), ScriptedRunner(["a"]):
        raise ValueError("mine")


async def test_an_invalid_step_is_refused() -> None:
    step: Any = 7
    with pytest.raises(UserError, match="not int"):
        await ScriptedRunner([step]).run_task(task("1"))
