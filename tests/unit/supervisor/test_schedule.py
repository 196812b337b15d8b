"""Which task is next: every one ends once, after what it needs, and never too many at a time."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from ekiden.core.agent import Agent
from ekiden.core.documents import to_json
from ekiden.core.errors import UserError
from ekiden.core.plan import AgentResult, AgentTask, PlanSettings, TaskDecomposition
from ekiden.supervisor import Schedule, next_tasks, retry_delay_s, state_of


def task(task_id: str, *needs: str) -> AgentTask:
    return AgentTask(agent=f"agent-{task_id}", description="d", task_id=task_id, depends_on=needs)


def plan_of(*tasks: AgentTask) -> TaskDecomposition:
    return TaskDecomposition(tasks=tasks)


def done(task_id: str, data: object = "ok") -> AgentResult:
    return AgentResult(task_id=task_id, agent=f"agent-{task_id}", success=True, data=data)


def broke(task_id: str, error: str = "it broke") -> AgentResult:
    return AgentResult(task_id=task_id, agent=f"agent-{task_id}", success=False, error=error)


def ids(schedule: Schedule) -> list[str]:
    return [each.task_id for each in schedule.start]


@st.composite
def plans(draw: st.DrawFn) -> TaskDecomposition:
    """Any graph without circles, in any order."""
    count = draw(st.integers(1, 9))
    tasks = [
        task(
            f"t{place}",
            *(f"t{other}" for other in draw(st.sets(st.integers(0, place - 1)))) if place else (),
        )
        for place in range(count)
    ]
    return plan_of(*draw(st.permutations(tasks)))


@given(plan=plans(), concurrency=st.integers(1, 4), data=st.data())
def test_every_task_ends_once_after_its_dependencies_within_the_concurrency(
    plan: TaskDecomposition, concurrency: int, data: st.DataObject
) -> None:
    by_id = {each.task_id: each for each in plan.tasks}
    results: list[AgentResult] = []
    running: list[str] = []
    begun: list[str] = []
    while True:
        schedule = next_tasks(plan, results, running, concurrency)
        assert schedule == next_tasks(plan, results, running, concurrency), "deterministic"
        ended = {each.task_id for each in results}
        for skipped in schedule.skipped:
            needs = by_id[skipped.task_id].depends_on
            failed = {each.task_id for each in (*results, *schedule.skipped) if not each.success}
            assert failed & set(needs)
            assert skipped.task_id not in ended
            assert skipped.task_id not in running
        results += schedule.skipped
        succeeded = {each.task_id for each in results if each.success}
        for each in schedule.start:
            assert set(each.depends_on) <= succeeded
            begun.append(each.task_id)
            running.append(each.task_id)
        assert len(running) <= concurrency
        if schedule.is_over:
            break
        assert running, "a plan that is not over has something to wait for"
        ending = data.draw(st.sampled_from(running))
        running.remove(ending)
        results.append(done(ending) if data.draw(st.booleans()) else broke(ending))
    assert sorted(each.task_id for each in results) == sorted(by_id)
    assert len(set(begun)) == len(begun)
    assert not running


def test_tasks_start_in_plan_order() -> None:
    plan = plan_of(task("c"), task("a"), task("b", "c"))
    assert ids(next_tasks(plan, [], [], 8)) == ["c", "a"]
    assert ids(next_tasks(plan, [], [], 1)) == ["c"]
    assert ids(next_tasks(plan, [done("c")], ["a"], 8)) == ["b"]
    assert ids(next_tasks(plan, [done("c")], ["a"], 1)) == []


def test_a_task_that_depends_on_a_failed_one_is_skipped_with_a_reason() -> None:
    plan = plan_of(task("a"), task("b", "a"), task("c", "b"), task("d"))
    schedule = next_tasks(plan, [broke("a", "no such city")], ["d"], 8)
    first, second = schedule.skipped
    assert (first.task_id, second.task_id) == ("b", "c")
    assert first.error == (
        'not begun: it needs the task "a" of the agent "agent-a", which failed: no such city'
    )
    assert second.error is not None
    assert '"b", which was not started since the task "a"' in second.error
    assert "no such city" in second.error
    assert not schedule.is_over
    assert next_tasks(plan, [broke("a"), *schedule.skipped, done("d")], [], 8).is_over


def test_the_first_result_of_a_task_counts_and_unknown_results_are_ignored() -> None:
    plan = plan_of(task("a"), task("b", "a"))
    twice = [done("a"), broke("a"), broke("z")]
    assert ids(next_tasks(plan, twice, ["z", "y"], 1)) == ["b"]
    assert ids(next_tasks(plan, [done("a")], ["a"], 1)) == ["b"], "it has ended: it does not run"


def test_no_task_starts_at_full_concurrency() -> None:
    with pytest.raises(UserError, match="concurrency"):
        next_tasks(plan_of(task("a")), [], [], 0)
    assert ids(next_tasks(plan_of(task("a"), task("b"), task("c")), [], ["a", "b"], 1)) == []


def test_the_delay_of_each_retry_doubles() -> None:
    settings = PlanSettings(members=(Agent("a"),), backoff_s=0.5, retries=9)
    assert [retry_delay_s(settings, attempt) for attempt in (1, 2, 3)] == [0.5, 1.0, 2.0]
    assert retry_delay_s(settings, 5_000) == 300.0
    slow = PlanSettings(members=(Agent("a"),), backoff_s=900.0)
    assert retry_delay_s(slow, 3) == 900.0
    none = PlanSettings(members=(Agent("a"),), backoff_s=0)
    assert retry_delay_s(none, 4) == 0.0
    with pytest.raises(UserError, match="from 1"):
        retry_delay_s(settings, 0)


def test_the_phase_of_a_plan_is_derived_from_its_stored_parts() -> None:
    plan = plan_of(task("a"), task("b", "a"))
    assert state_of("hi").phase == "init"
    assert state_of("hi", decomposition=plan).phase == "decomposed"
    assert state_of("hi", decomposition=plan, started=["a"]).phase == "executing"
    some = state_of("hi", decomposition=plan.to_json(), results=[to_json(done("a"))])
    assert (some.phase, some.results) == ("executing", (done("a"),))
    assert [each.task_id for each in some.pending_tasks] == ["b"]
    both = [done("a"), broke("b")]
    assert state_of("hi", decomposition=plan, results=both).phase == "aggregating"
    answered = state_of("hi", decomposition=plan, results=both, final_response="so", session_id="s")
    assert (answered.phase, answered.pending_tasks, answered.session_id) == ("completed", (), "s")
    assert state_of("hi", error="all failed").phase == "failed"
    assert state_of("hi", decomposition=plan, phase="aggregating").phase == "aggregating"
