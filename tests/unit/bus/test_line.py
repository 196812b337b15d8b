"""Who is next in line."""

from __future__ import annotations

from hypothesis import given, strategies as st

from ekiden.bus.delivery import Delivery, DeliveryQueue
from ekiden.core.conversation.messages import AgentMessage


def delivery(number: int, priority: int) -> Delivery:
    """A message that came as the n-th."""
    message = AgentMessage(from_agent="pm", to_agent="sales", priority=priority, id=f"m{number}")
    return Delivery(message, number, 1, None)


@given(
    st.lists(st.one_of(st.integers(1, 4), st.just("pop"), st.just("leave")), max_size=400),
    st.integers(1, 10),
)
def test_a_delivery_queue_returns_the_highest_priority_and_sometimes_the_oldest(
    steps: list[int | str], oldest_every: int
) -> None:
    line, model, pops, number = DeliveryQueue(oldest_every), list[Delivery](), 0, 0
    for step in steps:
        if isinstance(step, int):
            number += 1
            model.append(delivery(number, step))
            line.push(model[-1])
        elif step == "leave" and model:
            line.leave(model.pop(len(model) // 2))
        elif step == "pop":
            pops += 1
            if pops % oldest_every == 0:
                expected = min(model, key=lambda each: each.number, default=None)
            else:
                expected = min(
                    model, key=lambda each: (-each.message.priority, each.number), default=None
                )
            assert line.pop() is expected
            if expected is not None:
                model.remove(expected)
        assert len(line) == len(model)
    assert line.drain() == model
    assert (len(line), line.pop()) == (0, None)


def test_a_message_can_be_queued_again() -> None:
    line = DeliveryQueue(8)
    first = delivery(1, 2)
    line.push(first)
    line.leave(first)
    again = delivery(1, 2)
    line.push(again)
    assert line.pop() is again
    assert line.pop() is None


def test_a_delivery_queue_that_is_never_empty_does_not_grow() -> None:
    line = DeliveryQueue(1_000_000)
    line.push(delivery(0, 1))
    for number in range(1, 5000):
        line.push(delivery(number, 4))
        line.pop()
    assert len(line) == 1
    assert sum(map(len, line._lines.values())) < 500
