"""The API as a whole: whatever is called in whatever order, some things always hold.

Two tenants say things, answer, cancel, fork, hand over and delete, on a few sessions. Ids are never
given twice. Events of a session are numbered without gaps, and what was told once is told the same
way again. A question is answered once, also by two people at the same time, and what it allowed is
done once. A run that is over stays as it ended. What is deleted is gone. Nothing of one tenant is
there for the other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import count
from typing import Any

import httpx2
import pytest
from hypothesis import HealthCheck, settings, strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

from tests.support.fuzzing import Rig, check_problem, no_complaints
from tests.support.gates import TokenGate, caller
from tests.support.relay_team import REFUNDS, relay_team

API = "/api/v1"
TENANTS = ("red", "blue")
OVER = frozenset({"done", "refused", "out_of_budget"})
"""How a run can end for good; one that failed or was stopped can be resumed."""
SCOPES = ("read", "run", "answer", "admin")
GATE = TokenGate(
    red=caller("red", *SCOPES, tenant="red"), blue=caller("blue", *SCOPES, tenant="blue")
)
_numbers = count(1)


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    made = Rig(tmp_path_factory.mktemp("machine"), relay_team(), gate=GATE)
    yield made
    made.close()


class ApiMachine(RuleBasedStateMachine):
    """Calls, and what is known of what they did."""

    rig: Rig
    sessions = Bundle("sessions")
    items = Bundle("items")

    def __init__(self) -> None:
        super().__init__()
        self.told: dict[tuple[str, str], list[Any]] = {}
        """The events of each session, as far as they were read."""
        self.deleted: set[tuple[str, str]] = set()
        self.runs: dict[tuple[str, str], str] = {}
        """Each run's last known status."""
        self.open: set[str] = set()
        self.answered: set[str] = set()
        self.handoffs: dict[str, str] = {}
        self.owner: dict[str, str] = {}
        """Whose each id is."""
        self.allowed = 0
        """How many payments were allowed."""
        REFUNDS.clear()

    def call(self, tenant: str, method: str, path: str, body: Any = None) -> httpx2.Response:
        headers = {"Authorization": f"Bearer {tenant}"}
        with no_complaints():
            response = self.rig.call(method, f"{API}{path}", json=body, headers=headers)
        check_problem(response)
        return response

    def new(self, tenant: str, name: str) -> None:
        assert name not in self.owner, f"{name} was given twice"
        self.owner[name] = tenant

    @rule(target=sessions, tenant=st.sampled_from(TENANTS))
    def begin(self, tenant: str) -> tuple[str, str]:
        session = f"s{next(_numbers)}"
        self.new(tenant, session)
        self.told[tenant, session] = []
        assert self._said(tenant, session, "hello").status_code == 200
        return tenant, session

    @rule(
        target=items,
        where=sessions,
        text=st.sampled_from(["hello", "please refund it"]),
        agent=st.sampled_from([None, None, "desk", "triage", "nobody"]),
    )
    def say(self, where: tuple[str, str], text: str, agent: str | None) -> Any:
        tenant, session = where
        if where in self.deleted:
            return multiple()
        response = self._said(tenant, session, text, agent=agent)
        if agent == "nobody":
            assert response.status_code in (404, 409), response.text
        if response.status_code != 200:
            return multiple()
        self._forget_questions(where)
        questions = response.json()["questions"]
        fresh = [each for each in questions if each not in self.owner]
        for each in fresh:
            self.new(tenant, each)
        self.open.update(fresh)
        return multiple(*((tenant, session, each) for each in fresh))

    def _said(self, tenant: str, session: str, text: str, **more: Any) -> httpx2.Response:
        body = {"input": text, "session_id": session, **more}
        response = self.call(tenant, "POST", "/runs", body)
        if response.status_code == 200:
            record = response.json()
            self.new(tenant, record["run_id"])
            assert record["run_id"].startswith(f"{session}:")
            self.runs[tenant, record["run_id"]] = record["status"]
        return response

    @rule(item=items, choice=st.sampled_from(["approve", "reject", "perhaps"]))
    def answer(self, item: tuple[str, str, str], choice: str) -> None:
        tenant, session, name = item
        response = self.call(tenant, "POST", f"/inbox/{name}/answer", {"choice": choice})
        if response.status_code == 200:
            self._taken(name, choice)
            self._settle(tenant, session)
        elif name in self.open and (tenant, session) not in self.deleted:
            assert choice == "perhaps", response.text

    @rule(item=items, others=st.booleans())
    def answer_twice_at_once(self, item: tuple[str, str, str], others: bool) -> None:
        tenant, session, name = item
        headers = {"Authorization": f"Bearer {tenant}"}
        choices = ["approve", "reject" if others else "approve"]

        async def both() -> list[httpx2.Response]:
            path = f"{API}/inbox/{name}/answer"
            return await asyncio.gather(
                *(
                    self.rig.client.post(path, json={"choice": each}, headers=headers)
                    for each in choices
                )
            )

        with no_complaints():
            found = self.rig.run(both)
        for response in found:
            check_problem(response)
        taken = [
            choice
            for choice, response in zip(choices, found, strict=True)
            if response.status_code == 200
        ]
        assert len(taken) <= 1, [response.text for response in found]
        if taken:
            self._taken(name, taken[0])
            self._settle(tenant, session)
        else:
            assert name not in self.open or (tenant, session) in self.deleted

    def _taken(self, name: str, choice: str) -> None:
        assert name in self.open, f"{name} was answered again"
        self.open.remove(name)
        self.answered.add(name)
        self.allowed += choice == "approve"

    def _settle(self, tenant: str, session: str) -> None:
        """Let the session come to rest."""
        for owner, run in list(self.runs):
            if owner == tenant and run.startswith(f"{session}:"):
                self._look(tenant, run, wait_s=10)

    @rule(where=sessions)
    def cancel(self, where: tuple[str, str]) -> None:
        tenant, session = where
        for owner, run in list(self.runs):
            if owner == tenant and run.startswith(f"{session}:"):
                response = self.call(tenant, "POST", f"/runs/{run}/cancel")
                if response.status_code == 200:
                    self._moved(tenant, run, response.json()["status"])
        self._forget_questions(where)

    def _forget_questions(self, where: tuple[str, str]) -> None:
        """Questions of a run that does not go on are withdrawn: another message was said, or it was
        stopped."""
        tenant, _ = where
        for name in [each for each in self.open if self.owner[each] == tenant]:
            response = self.call(tenant, "GET", f"/inbox/{name}")
            if response.status_code == 404 or response.json()["status"] != "open":
                self.open.remove(name)

    @rule(target=sessions, where=sessions)
    def fork(self, where: tuple[str, str]) -> Any:
        tenant, session = where
        response = self.call(tenant, "POST", f"/sessions/{session}/fork", {})
        if response.status_code != 201:
            assert where in self.deleted or response.status_code == 409, response.text
            return multiple()
        branch = response.json()["session_id"]
        self.new(tenant, branch)
        self.told[tenant, branch] = []
        return tenant, branch

    @rule(where=sessions, to=st.sampled_from(["desk", "triage", "nobody"]))
    def hand_over(self, where: tuple[str, str], to: str) -> None:
        tenant, session = where
        body = {"to": to, "reason": "because"}
        response = self.call(tenant, "POST", f"/sessions/{session}/handoff", body)
        if response.status_code == 200:
            made = response.json()["id"]
            if made not in self.owner:
                self.new(tenant, made)
            self.handoffs[made] = tenant
        self._forget_questions(where)

    @rule(where=consumes(sessions))
    def delete(self, where: tuple[str, str]) -> None:
        tenant, session = where
        response = self.call(tenant, "DELETE", f"/sessions/{session}")
        if response.status_code in (200, 204):
            self.deleted.add(where)
            self.told.pop(where, None)
            for key in [each for each in self.runs if each[1].startswith(f"{session}:")]:
                del self.runs[key]
            assert self.call(tenant, "GET", f"/sessions/{session}").status_code == 404
            self._forget_questions(where)
        else:
            assert where in self.deleted or response.status_code == 409, response.text

    @rule(data=st.data())
    def look_at_what_is_anothers(self, data: st.DataObject) -> None:
        if not self.owner:
            return
        name = data.draw(st.sampled_from(sorted(self.owner)))
        other = next(each for each in TENANTS if each != self.owner[name])
        for path in (
            f"/sessions/{name}",
            f"/sessions/{name}/events",
            f"/runs/{name}",
            f"/inbox/{name}",
            f"/handoff/{name}",
            f"/traces/{name}",
            f"/sessions/{name}/export",
        ):
            response = self.call(other, "GET", path)
            assert response.status_code in (404, 422), (path, response.text)
        listed = self.call(other, "GET", "/sessions?limit=1000").text
        assert f'"{name}"' not in listed

    @invariant()
    def events_have_no_gaps_and_stay(self) -> None:
        for (tenant, session), before in list(self.told.items()):
            response = self.call(tenant, "GET", f"/sessions/{session}/events?limit=1000")
            assert response.status_code == 200, response.text
            events = response.json()["items"]
            assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
            assert events[: len(before)] == before, "what was told has changed"
            self.told[tenant, session] = events

    @invariant()
    def runs_that_are_over_stay_so(self) -> None:
        for tenant, run in list(self.runs):
            self._look(tenant, run)

    def _look(self, tenant: str, run: str, *, wait_s: float = 0) -> None:
        response = self.call(tenant, "GET", f"/runs/{run}?wait_s={wait_s}")
        assert response.status_code == 200, response.text
        self._moved(tenant, run, response.json()["status"])

    def _moved(self, tenant: str, run: str, status: str) -> None:
        before = self.runs[tenant, run]
        assert before not in OVER or status == before, f"{run} was {before} and is {status}"
        self.runs[tenant, run] = status

    @invariant()
    def what_was_allowed_was_done_once(self) -> None:
        assert len(REFUNDS) <= self.allowed

    def teardown(self) -> None:
        for tenant, session in list(self.told):
            self._settle(tenant, session)
        assert len(REFUNDS) <= self.allowed


@pytest.mark.parametrize(
    ("examples", "steps"),
    [(6, 15), pytest.param(100, 40, marks=pytest.mark.slow)],
    ids=["some", "many"],
)
def test_the_api_keeps_its_invariants_under_random_requests(
    rig: Rig, examples: int, steps: int
) -> None:
    class Machine(ApiMachine):
        pass

    Machine.rig = rig
    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            derandomize=examples < 100,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
