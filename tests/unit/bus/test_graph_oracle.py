"""The graph against the oracle that tries everything, on random waits."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings, strategies as st

from ekiden.bus.wait_graph import Need, Wait, WaitGraph, victim_of
from ekiden.core.conversation.messages import VictimPolicy
from tests.unit.bus.wait_oracle import (
    holding_cycles,
    holds,
    needs_of,
    nodes_of,
    reachable,
    stuck_nodes,
)

NODES = "abcde"

policies = st.sampled_from(["longest", "youngest", "lowest_priority"])


@st.composite
def needs(draw: st.DrawFn) -> list[Need]:
    """What nodes need, in the order in which they begin to wait."""
    shapes = draw(
        st.lists(
            st.tuples(
                st.sampled_from(NODES),
                st.lists(st.sampled_from([*NODES, None]), min_size=1, max_size=3),
                st.booleans(),
                st.integers(1, 4),
            ),
            max_size=8,
        )
    )
    made: list[Need] = []
    for number, (waiter, targets, is_any, priority) in enumerate(shapes):
        made.append(
            tuple(
                Wait(
                    id=f"m{number}.{place}",
                    waiter=waiter,
                    awaits=target,
                    any_of=f"g{number}" if is_any else None,
                    since_us=number // 2,
                    number=10 * number + place,
                    priority=priority,
                )
                for place, target in enumerate(targets)
            )
        )
    return made


waits = needs().map(lambda made: [wait for need in made for wait in need])


def graph_is_right(graph: WaitGraph, present: list[Wait]) -> None:
    """What the graph says of every node is what the oracle says."""
    stuck = stuck_nodes(present)
    assert graph.stuck() == stuck
    cycles = holding_cycles(present)
    for node in NODES:
        found = graph.find_cycle(node)
        near = reachable(node, present)
        assert (found is None) == (not stuck & near), (node, found)
        if found is None:
            continue
        assert tuple(found) in cycles
        assert set(found) <= near
        through = {len(cycle) for cycle in cycles if cycle[0] == node}
        if through:
            assert (found[0], len(found)) == (node, min(through))


@settings(deadline=None)
@given(waits)
def test_the_graph_finds_a_cycle_exactly_where_one_exists(present: list[Wait]) -> None:
    graph_is_right(WaitGraph(present), present)


@settings(deadline=None)
@given(st.lists(st.tuples(waits, st.integers(0, 30)), max_size=4))
def test_the_graph_stays_correct_while_waits_are_added_and_removed(
    turns: list[tuple[list[Wait], int]],
) -> None:
    graph, present = WaitGraph(), dict[str, Wait]()
    for coming, going in turns:
        for wait in coming:
            graph.add(wait)
            present.setdefault(wait.id, wait)
        for wait_id in list(present)[going % 7 :: 3]:
            graph.remove(wait_id)
            del present[wait_id]
        assert len(graph) == len(present)
        assert sorted(graph.waiters) == sorted({wait.waiter for wait in present.values()})
        graph_is_right(graph, list(present.values()))


def check_victim(victim: Need, present: list[Wait]) -> None:
    """It is the whole of something that a stuck node needs from stuck ones."""
    waiter, stuck = victim[0].waiter, stuck_nodes(present)
    assert waiter in stuck
    assert holds(victim, stuck)
    assert sorted(victim, key=_id) in [sorted(need, key=_id) for need in needs_of(waiter, present)]


def _id(wait: Wait) -> str:
    return wait.id


@settings(deadline=None)
@given(waits, policies)
def test_removing_the_victims_leaves_no_deadlock(present: list[Wait], policy: VictimPolicy) -> None:
    graph = WaitGraph(present)
    told = [victim_of(cycle, policy) for cycle in WaitGraph(present).deadlocks(policy)]
    for victim in told:
        check_victim(victim, present)
        for wait in victim:
            graph.remove(wait.id)
            present.remove(wait)
    assert stuck_nodes(present) == graph.stuck() == set()


@settings(deadline=None)
@given(needs(), policies)
def test_a_search_at_each_new_wait_leaves_no_deadlock(
    coming: list[Need], policy: VictimPolicy
) -> None:
    graph, present = WaitGraph(), list[Wait]()
    for need in coming:
        for wait in need:
            graph.add(wait)
            present.append(wait)
        while (cycle := graph.find_deadlock(need[0].waiter)) is not None:
            victim = victim_of(cycle, policy)
            check_victim(victim, present)
            for wait in victim:
                graph.remove(wait.id)
                present.remove(wait)
        assert stuck_nodes(present) == set()


@settings(deadline=None)
@given(waits, policies)
def test_the_victim_does_not_depend_on_the_starting_node(
    present: list[Wait], policy: VictimPolicy
) -> None:
    graph = WaitGraph(present)
    victims: dict[frozenset[tuple[str, str]], Need] = {}
    for node in nodes_of(present):
        cycle = graph.find_deadlock(node)
        if cycle is not None:
            victim = victim_of(cycle, policy)
            assert victims.setdefault(frozenset(pairwise(cycle.nodes)), victim) == victim
