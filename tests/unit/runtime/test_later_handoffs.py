"""A task that programs hand on again and again: what each handoff brings, and how far it goes."""

from __future__ import annotations

from typing import Any

import pytest

from ekiden import Agent, HandoffController, MemoryStore, Runner, Session, handoff
from ekiden.core.conversation.model import text_of
from ekiden.core.errors import UserError
from ekiden.core.handoffs import HandoffContext, HandoffRequest, HandoffResult
from ekiden.runtime.history.fork import rewind_session
from ekiden.testing import ScriptedModel, fail, say
from tests.unit.runtime.offices import ended


class Relay:
    """`a` hands to `b`, and `b` to `a` and `c`; what they are asked to accept is kept."""

    def __init__(self, *, back: Any = False, answer: Any = None) -> None:
        self.store = MemoryStore()
        self.offers: list[HandoffRequest] = []
        self.model = ScriptedModel(respond=answer or (lambda request: say(f"{request.agent} here")))
        self.a = Agent("a", model=self.model, accepts=self._accept)
        self.c = Agent("c", model=self.model, accepts=self._accept)
        self.b = Agent(
            "b",
            model=self.model,
            accepts=self._accept,
            handoffs=[handoff(self.a, allow_return=back), self.c],
        )
        self.a.handoffs.append(handoff(self.b, allow_return=back))
        self.controller = HandoffController(self.a, self.store)

    def _accept(self, ctx: Any, request: HandoffRequest) -> bool:
        self.offers.append(request)
        return True

    async def hand(self, source: str, target: str, said: str = "", **fields: Any) -> HandoffResult:
        history = [{"role": "user", "content": said}] if said else []
        context = HandoffContext(task_id="t", conversation_history=history, **fields)
        return await self.controller.initiate(
            HandoffRequest(source=source, target=target, context=context)
        )

    def seen(self) -> list[str]:
        """What the last agent that was asked saw."""
        return [text_of(item) for item in self.model.calls[-1].input]


async def test_a_later_handoff_adds_its_history_and_state_to_the_task() -> None:
    relay = Relay()
    await relay.hand("a", "b", "one", task_state={"n": 1, "x": 1})
    second = await relay.hand(
        "b", "c", "two", task_state={"n": 2}, priority=7, metadata={"ticket": "T-1"}
    )
    assert ended(second) == ("completed", None)
    assert (await relay.store.get("t")).variables == {"n": 2, "x": 1}
    assert relay.seen() == ["one", "b here", "two"]
    offer = relay.offers[-1].context
    assert (offer.task_state, offer.priority, offer.metadata["ticket"]) == (
        {"n": 2, "x": 1},
        7,
        "T-1",
    )
    assert text_of(offer.conversation_history[-1]) == "two"
    told = relay.model.calls[-1].request.instructions or ""
    assert "priority: 7\n" in told
    assert 'metadata: {"ticket":"T-1"}\n' in told
    record = await relay.controller.get(second.request_id)
    assert (record.priority, record.metadata) == (7, {"ticket": "T-1"})


@pytest.mark.parametrize("is_first", [True, False])
async def test_a_rollback_removes_the_history_and_state_of_the_handoff(is_first: bool) -> None:
    relay = Relay(
        answer=lambda request: fail(ValueError("dead")) if request.agent == "c" else say("b here")
    )
    if is_first:
        relay.a.handoffs.append(relay.c)
    else:
        await relay.hand("a", "b", "one", task_state={"n": 1})
    before = await relay.store.get("t") if not is_first else None
    source = "a" if is_first else "b"
    result = await relay.hand(source, "c", "two", task_state={"n": 2}, metadata=CAME_FROM)
    assert ended(result) == ("rolled_back", "TARGET_FAILED")
    row = await relay.store.get("t")
    assert row.variables == ({} if before is None else before.variables)
    assert row.cursor["ch"] == (["user", "a"] if before is None else before.cursor["ch"])
    await Runner.run(relay.a, "three", session=Session("t", store=relay.store))
    *conversation, notice = relay.seen()
    assert conversation == [*([] if is_first else ["one", "b here"]), "three"]
    assert "The handoff to c was made without a call of yours" in notice


async def test_a_session_can_be_rewound_to_before_a_handoff_and_its_history() -> None:
    relay = Relay(back=True)
    for source, target, n in (("a", "b", 1), ("b", "a", 2), ("a", "b", 3)):
        await relay.hand(source, target, f"no {n}", task_state={"n": n}, metadata=CAME_FROM)
    row = await relay.store.get("t")
    assert row.cursor["ch"] == ["user", "x", "a", "b", "a", "b"]
    second = await relay.controller.get("t.h2")
    await rewind_session(relay.store, "t", to_seq=second.moves[-1].seq)
    row = await relay.store.get("t")
    assert (row.variables, row.cursor["ch"]) == ({"n": 2}, ["user", "x", "a", "b", "a"])
    assert ended(await relay.hand("a", "b", "again")) == ("completed", None)
    assert relay.seen() == ["no 1", "b here", "no 2", "a here", "again"]


async def test_depth_and_cycles_are_counted_until_the_next_user_message() -> None:
    relay = Relay()
    await relay.hand("a", "b", "hi")
    assert ended(await relay.hand("b", "a", "back")) == ("failed", "CIRCULAR_HANDOFF")
    relay = Relay(back="always")
    codes = [(await relay.hand(*way)).error for way in (("a", "b"), ("b", "a")) * 3]
    assert [error and error.code for error in codes] == [*[None] * 5, "MAX_DEPTH_EXCEEDED"]
    await Runner.run(relay.a, "go on", session=Session("t", store=relay.store))
    assert ended(await relay.hand("b", "a")) == ("completed", None)


@pytest.mark.parametrize(
    ("chain", "code"),
    [
        (["user", "b", "a"], "CIRCULAR_HANDOFF"),
        (["v", "w", "x", "y", "z"], "MAX_DEPTH_EXCEEDED"),
        (["user", "x", "a"], None),
    ],
)
async def test_the_callers_handoff_chain_counts_towards_depth_and_cycles(
    chain: list[str], code: str | None
) -> None:
    relay = Relay()
    result = await relay.hand("a", "b", metadata={"handoff_chain": chain})
    assert ended(result)[1] == code
    if code is None:
        assert relay.offers[-1].context.metadata["handoff_chain"] == chain


@pytest.mark.parametrize(
    ("field", "told"),
    [
        ({"priority": 1.5}, "`priority` must be a whole number"),
        ({"metadata": {"x": object()}}, "`metadata`"),
        ({"metadata": {"handoff_chain": "a"}}, "has the names of agents"),
    ],
)
async def test_an_invalid_request_field_is_refused_before_anything_happens(
    field: Any, told: str
) -> None:
    relay = Relay()
    with pytest.raises(UserError, match=told):
        await relay.hand("a", "b", **field)
    assert not (await relay.store.list()).sessions


CAME_FROM = {"handoff_chain": ["user", "x"]}
