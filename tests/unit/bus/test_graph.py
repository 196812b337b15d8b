"""Who waits for whom, in cases that can be drawn on paper."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterable
from time import process_time
from typing import Any

import pytest

from ekiden.bus.wait_graph import Cycle, Wait, WaitGraph, victim_of
from ekiden.core.errors import UserError
from tests.support.cases import each_case


def graph_of(*edges: str) -> WaitGraph:
    """``a>b`` is a wait of a for b, ``a>b|c`` one for any of b and c."""
    return WaitGraph(waits_of(edges))


def waits_of(edges: Iterable[str]) -> list[Wait]:
    """The waits, with ids and times in their order."""
    waits: list[Wait] = []
    for edge in edges:
        waiter, _, targets = edge.partition(">")
        names = targets.split("|")
        group = f"g{len(waits)}" if len(names) > 1 else None
        for name in names:
            number = len(waits) + 1
            waits.append(
                Wait(
                    id=f"m{number}",
                    waiter=waiter,
                    awaits=name or None,
                    any_of=group,
                    since_us=number,
                    number=number,
                )
            )
    return waits


@each_case(
    ("edges", "node", "cycle"),
    [
        (["a>b"], "a", None),
        (["a>b"], "b", None),
        (["a>b"], "somebody", None),
        (["a>a"], "a", ["a", "a"]),
        (["a>b", "b>a"], "b", ["b", "a", "b"]),
        (["a>b", "b>c", "c>a"], "c", ["c", "a", "b", "c"]),
        (["a>b", "a>c", "c>a"], "a", ["a", "c", "a"]),
        (["a>b", "b>c", "c>b"], "a", ["b", "c", "b"]),
        (["a>b|c", "b>a"], "a", None),
        (["a>b|c", "b>a", "c>a"], "c", ["c", "a", "c"]),
        (["a>b|c", "b>a|d", "c>a"], "c", None),
        (["a>b|c", "b>c", "c>b"], "a", ["b", "c", "b"]),
        (["a>b|", "b>a"], "b", None),
        (["a>", "b>a"], "b", None),
        (["a>", "a>b", "b>a"], "b", ["b", "a", "b"]),
        (["a>b|c", "b>b", "a>d"], "a", ["b", "b"]),
    ],
)
def test_a_cycle_is_found_where_no_node_can_proceed(
    edges: list[str], node: str, cycle: list[str] | None
) -> None:
    assert graph_of(*edges).find_cycle(node) == cycle


def test_a_cycle_through_the_searching_node_is_preferred() -> None:
    graph = graph_of("a>b", "b>b", "b>c", "c>a")
    assert graph.find_cycle("a") == ["a", "b", "c", "a"]
    graph.remove("m4")
    assert graph.find_cycle("a") == ["b", "b"]


def test_the_shortest_cycle_is_returned() -> None:
    graph = graph_of("a>b", "b>c", "c>a", "b>a")
    assert graph.find_cycle("a") == ["a", "b", "a"]


def test_a_removed_wait_blocks_no_node() -> None:
    graph = graph_of("a>b", "b>a")
    graph.remove("m1")
    graph.remove("m1")
    graph.remove("unknown")
    assert graph.find_cycle("b") is None
    assert (len(graph), list(graph.waiters), "m1" in graph, "m2" in graph) == (
        1, ["b"], False, True,
    )  # fmt: skip
    graph.remove("m2")
    assert (len(graph), list(graph.waiters)) == (0, [])


def test_a_wait_added_twice_counts_once() -> None:
    graph = graph_of("a>b")
    graph.add(Wait(id="m1", waiter="x", awaits="y"))
    assert (len(graph), list(graph.waiters)) == (1, ["a"])
    graph.remove("m1")
    assert len(graph) == 0


def test_the_rest_of_a_group_can_close_a_cycle() -> None:
    graph = graph_of("a>b|c", "b>a")
    assert graph.find_cycle("a") is None
    graph.remove("m2")
    assert graph.find_cycle("a") == ["a", "b", "a"]


def test_groups_of_different_waiters_with_one_name_stay_separate() -> None:
    graph = WaitGraph(
        Wait(id=f"{waiter}{awaits}", waiter=waiter, awaits=awaits, any_of="g")
        for waiter, awaits in ("ab", "ac", "ba", "bd")
    )
    assert graph.find_cycle("a") is None
    assert [len(need) for need in graph.needs_of("a")] == [2]


def test_deadlocked_nodes_can_be_queried_for_all_or_some_nodes() -> None:
    graph = graph_of("a>b", "b>a", "c>c", "d>c", "e>f")
    assert graph.stuck() == {"a", "b", "c", "d"}
    assert graph.stuck(["d"]) == {"c", "d"}
    assert graph.stuck(["e"]) == set()


def test_every_deadlock_is_returned_once() -> None:
    graph = graph_of("a>b", "b>a", "c>d", "d>c", "e>d", "x>a|y", "y>a")
    cycles = [cycle.nodes for cycle in graph.deadlocks("longest")]
    assert cycles == [("a", "b", "a"), ("c", "d", "c")]


def test_a_deadlock_resolved_by_breaking_another_one_is_not_returned() -> None:
    graph = graph_of("a>b", "b>a", "c>d|b", "d>c")
    assert [cycle.nodes for cycle in graph.deadlocks("longest")] == [("a", "b", "a")]


def test_a_node_blocked_twice_is_a_victim_twice() -> None:
    graph = graph_of("a>b", "a>b", "b>a")
    deadlocks = list(graph.deadlocks("longest"))
    assert [len(cycle.needs) for cycle in deadlocks] == [3, 2]


def cycle_of(edges: list[str], **priorities: int) -> Cycle:
    """The cycle that the first waiter is in."""
    graph = WaitGraph()
    for wait in waits_of(edges):
        priority = priorities.get(wait.waiter, 2)
        graph.add(
            Wait(
                id=wait.id,
                waiter=wait.waiter,
                awaits=wait.awaits,
                any_of=wait.any_of,
                since_us=wait.since_us,
                number=wait.number,
                priority=priority,
            )
        )
    found = graph.find_deadlock(edges[0][0])
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("policy", "victim"), [("longest", "b"), ("youngest", "a"), ("lowest_priority", "c")]
)
def test_the_policy_chooses_the_victim(policy: Any, victim: str) -> None:
    cycle = cycle_of(["b>c", "c>a", "a>b"], a=4, b=3, c=1)
    (wait,) = victim_of(cycle, policy)
    assert wait.waiter == victim


def test_among_equal_priorities_the_longest_wait_is_the_victim() -> None:
    (wait,) = victim_of(cycle_of(["b>c", "c>a", "a>b"], b=3), "lowest_priority")
    assert wait.waiter == "c"


def test_a_victims_group_is_removed_as_a_whole() -> None:
    need = victim_of(cycle_of(["a>b|c", "b>a", "c>a"]), "longest")
    assert [wait.id for wait in need] == ["m1", "m2"]


def test_a_group_that_can_still_be_answered_is_never_the_victim() -> None:
    cycle = cycle_of(["a>b|z", "a>b", "b>a"])
    assert {wait.id for need in cycle.needs for wait in need} == {"m3", "m4"}


def test_an_unknown_victim_policy_is_refused() -> None:
    with pytest.raises(UserError, match=r"'oldest' is not a victim policy: longest, youngest"):
        victim_of(cycle_of(["a>a"]), "oldest")  # type: ignore[arg-type]


LONG = 100_000


@pytest.mark.slow
def test_a_chain_of_a_hundred_thousand_waits_is_searched_quickly() -> None:
    graph = WaitGraph(
        Wait(id=str(number), waiter=str(number), awaits=str(number + 1)) for number in range(LONG)
    )
    began = process_time()
    assert graph.find_cycle("0") is None
    assert graph.stuck() == set()
    graph.add(Wait(id="last", waiter=str(LONG), awaits="0"))
    cycle = graph.find_cycle(str(LONG // 2))
    assert cycle is not None
    assert (len(cycle), cycle[0], cycle[-1]) == (LONG + 2, str(LONG // 2), str(LONG // 2))
    assert process_time() - began < 10


@pytest.mark.slow
def test_finding_many_deadlocks_takes_linear_time() -> None:
    pairs = ((f"{number}{here}", f"{number}{there}") for number in range(20_000) for here, there in ("ab", "ba"))  # noqa: E501  # fmt: skip
    graph = WaitGraph(Wait(id=waiter, waiter=waiter, awaits=awaits) for waiter, awaits in pairs)
    began = process_time()
    assert sum(1 for _ in graph.deadlocks("longest")) == 20_000
    assert process_time() - began < 10


def test_only_reachable_waits_are_searched() -> None:
    edges = ["a>b", "b>c|d", "c>a"]
    crowd = [f"{number}>{number + 1}" for number in range(10_000)]
    assert _calls(graph_of(*edges), "a") == _calls(graph_of(*edges, *crowd, "0>a"), "a")


def _calls(graph: WaitGraph, node: str) -> int:
    """How many calls it takes to look for a cycle, when all classes have been used before."""
    graph.find_cycle(node)
    calls = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += 1

    before = sys.getprofile()
    gc.disable()  # What other tests left behind may have finalizers.
    sys.setprofile(count)
    try:
        graph.find_cycle(node)
    finally:
        sys.setprofile(before)
        gc.enable()
    return calls
