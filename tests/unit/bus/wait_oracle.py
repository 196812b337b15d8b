"""Who is stuck, by trying every set of nodes; slow, and has nothing in common with the graph.

A set of nodes is held if each of its nodes is held by the set: by a wait for one of them that must
be answered, or by an "any" group of waits that are all for them. Whoever is in a held set is stuck.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations, permutations

from ekiden.bus.wait_graph import Wait


def nodes_of(waits: Iterable[Wait]) -> list[str]:
    """Everybody who waits or is waited for."""
    return sorted({name for wait in waits for name in (wait.waiter, wait.awaits) if name})


def needs_of(node: str, waits: Iterable[Wait]) -> list[list[Wait]]:
    """What a node needs, written down by hand: one list for each single wait and each group."""
    mine = [wait for wait in waits if wait.waiter == node]
    groups = {wait.any_of for wait in mine if wait.any_of is not None}
    return [
        *([wait] for wait in mine if wait.any_of is None),
        *([wait for wait in mine if wait.any_of == group] for group in sorted(groups)),
    ]


def holds(need: Sequence[Wait], held: Iterable[str]) -> bool:
    """Whether no agent outside `held` can give what is needed."""
    within = set(held)
    return all(wait.awaits in within for wait in need)


def stuck_nodes(waits: Sequence[Wait]) -> set[str]:
    """Those that can never go on."""
    nodes = nodes_of(waits)
    return {
        node
        for size in range(1, len(nodes) + 1)
        for held in combinations(nodes, size)
        if all(any(holds(need, held) for need in needs_of(each, waits)) for each in held)
        for node in held
    }


def reachable(node: str, waits: Sequence[Wait]) -> set[str]:
    """The node and everybody whom it waits for, by whatever way."""
    found, before = {node}, set[str]()
    while found != before:
        before = set(found)
        found |= {wait.awaits for wait in waits if wait.waiter in before and wait.awaits}
    return found


def holding_cycles(waits: Sequence[Wait]) -> set[tuple[str, ...]]:
    """All cycles of stuck nodes, from each of their nodes, in which each is held by the next."""
    stuck = stuck_nodes(waits)
    holders = {
        node: {wait.awaits for need in needs_of(node, waits) if holds(need, stuck) for wait in need}
        for node in stuck
    }
    return {
        (*way, way[0])
        for size in range(1, len(stuck) + 1)
        for way in permutations(sorted(stuck), size)
        if all(b in holders[a] for a, b in zip(way, [*way[1:], way[0]], strict=True))
    }
