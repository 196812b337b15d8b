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


async def test_it_gives_its_replies_in_order_and_keeps_the_tasks() -> None:
    declined = AgentReply(declined="closed")
    with ScriptedRunner(["done", declined]) as runner:
        role: AgentRunner = runner
        assert await role.run_task(task("1")) == AgentReply(text="done")
        assert await role.run_task(task("2", "near")) is declined
    assert [each.agent for each in runner.tasks] == ["far", "near"]
    assert repr(runner) == "<ScriptedRunner asked=2 left=0>"


async def test_a_text_alone_is_one_step() -> None:
    with ScriptedRunner("done") as runner:
        assert await runner.run_task(task("1")) == AgentReply(text="done")


async def test_a_task_that_comes_again_is_not_done_again() -> None:
    with ScriptedRunner(["once", "other"]) as runner:
        first = await runner.run_task(task("1"))
        assert await runner.run_task(task("1")) is first
        assert (await runner.run_task(task("2"))).text == "other"
    assert len(runner.tasks) == 3


async def test_a_task_that_failed_plays_the_next_step_when_it_comes_again() -> None:
    with ScriptedRunner([ConnectionError("down"), "up"]) as runner:
        with pytest.raises(ConnectionError, match="down"):
            await runner.run_task(task("1"))
        assert (await runner.run_task(task("1"))).text == "up"


async def test_a_function_of_the_task_may_give_the_step_sync_or_async() -> None:
    async def later(given: RemoteTask) -> Any:
        return AgentReply(text=given.idempotency_key)

    with ScriptedRunner([lambda given: given.agent, later, lambda _: KeyError("x")]) as runner:
        assert (await runner.run_task(task("1"))).text == "far"
        assert (await runner.run_task(task("2"))).text == "2"
        with pytest.raises(KeyError):
            await runner.run_task(task("3"))


async def test_a_runner_that_hangs_is_cancelled() -> None:
    with ScriptedRunner([hang()]) as runner:
        running = asyncio.create_task(runner.run_task(task("1")))
        await runner.until_called()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running


async def test_a_task_too_many_is_complained_about_even_if_nobody_listens() -> None:
    runner = ScriptedRunner()
    with pytest.raises(UnexpectedTask, match="agent 'far' was handed task '1' .* has 0 steps"):
        await runner.run_task(task("1"))
    with pytest.raises(UnexpectedTask, match="agent 'far'"), runner:
        pass


def test_steps_that_were_not_used_are_complained_about() -> None:
    with pytest.raises(UnusedSteps, match="2 of 2 scripted steps"), ScriptedRunner(["a", "b"]):
        pass


def test_an_exception_in_the_block_is_not_covered_by_a_complaint() -> None:
    with pytest.raises(ValueError, match="mine"), ScriptedRunner(["a"]):
        raise ValueError("mine")


async def test_what_is_no_step_is_refused() -> None:
    step: Any = 7
    with pytest.raises(UserError, match="not int"):
        await ScriptedRunner([step]).run_task(task("1"))
