"""The graph of waits, and the nodes that can never continue.

A node is an agent, or one task of an agent that works on several tasks at a time. A node *needs* an
answer to each of its waits, but only to one of the waits of an "any" group. A node without needs
can continue. A node can also continue if all nodes that it needs can continue. All other nodes are
stuck. Stuck nodes always contain a cycle, because each stuck node needs another stuck node. A wait
for a person is not an edge, because people are expected to answer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Literal, TypeAlias

from ekiden.core.conversation.messages import VictimPolicy, check_policy
from ekiden.core.dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """A wait for one answer."""

    id: str
    """The id of the message."""
    waiter: str
    """The node that waits."""
    awaits: str | None
    """The node that should answer; `None` if a person should answer."""
    any_of: str | None = None
    """The group of waits of which one answer is enough; `None` if this answer is needed."""
    since_us: int = 0
    number: int = 0
    """The order of waits with the same `since_us`."""
    priority: int = 2
    agent: str = ""
    """The agent that waits."""
    subject: str = ""
    """The subject of the question."""


Need: TypeAlias = tuple[Wait, ...]
"""A need of a node: one wait, or all waits of an "any" group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cycle:
    """A cycle of stuck nodes, each of which needs the next one."""

    nodes: tuple[str, ...]
    """The nodes in order; the first and the last are the same."""
    needs: tuple[Need, ...]
    """The needs that form the cycle. To break the cycle, cancel one of them."""


class _Need:
    """A need of a node, by the ids of its waits; compared by identity."""

    __slots__ = ("waiter", "waits")

    def __init__(self, waiter: str) -> None:
        self.waiter = waiter
        self.waits: dict[str, Wait] = {}


_Key: TypeAlias = tuple[Literal["one", "any"], str]


class WaitGraph:
    """A graph of waits, which are added and removed one by one.

    For example::

        graph = WaitGraph()
        graph.add(Wait(id="m1", waiter="a", awaits="b"))
        graph.add(Wait(id="m2", waiter="b", awaits="a"))
        assert graph.find_cycle("a") == ["a", "b", "a"]
    """

    __slots__ = ("_needs", "_waits")

    def __init__(self, waits: Iterable[Wait] = ()) -> None:
        self._waits: dict[str, Wait] = {}
        self._needs: dict[str, dict[_Key, _Need]] = {}
        for wait in waits:
            self.add(wait)

    def __len__(self) -> int:
        return len(self._waits)

    def __contains__(self, wait_id: str) -> bool:
        return wait_id in self._waits

    @property
    def waiters(self) -> Iterable[str]:
        """The nodes that wait."""
        return self._needs.keys()

    def add(self, wait: Wait) -> None:
        """Add a wait. Does nothing if the graph already has a wait with this id."""
        if wait.id in self._waits:
            return
        self._waits[wait.id] = wait
        needs = self._needs.setdefault(wait.waiter, {})
        key = _key(wait)
        need = needs.get(key)
        if need is None:
            need = needs[key] = _Need(wait.waiter)
        need.waits[wait.id] = wait

    def remove(self, wait_id: str) -> None:
        """Remove a wait, if it exists.

        Without the removed wait, the other waits of an "any" group still need an answer. So remove
        all waits of the group when one answer comes.
        """
        wait = self._waits.pop(wait_id, None)
        if wait is None:
            return
        needs, key = self._needs[wait.waiter], _key(wait)
        waits = needs[key].waits
        del waits[wait_id]
        if not waits:
            del needs[key]
        if not needs:
            del self._needs[wait.waiter]

    def needs_of(self, node: str) -> list[Need]:
        """The needs of the node."""
        return [tuple(need.waits.values()) for need in self._needs.get(node, {}).values()]

    def find_cycle(self, node: str) -> list[str] | None:
        """A cycle of stuck nodes that `node` waits for, through `node` itself if possible.

        It begins and ends with the same node. The search visits only waits that can be reached from
        `node`. Its time is linear in the number of these waits.
        """
        cycle = self.find_deadlock(node)
        return None if cycle is None else list(cycle.nodes)

    def find_deadlock(self, node: str) -> Cycle | None:
        """Like `find_cycle`, but the result also has the needs that form the cycle."""
        if node not in self._needs:
            return None
        blocked = BlockedNodes(self._needs, [node])
        return blocked.cycle_through(node) or blocked.any_cycle()

    def stuck(self, start: Iterable[str] | None = None) -> set[str]:
        """The stuck nodes among `start` and the nodes that they wait for, or among all nodes."""
        return self._blocked(start).stuck

    def deadlocks(self, policy: VictimPolicy) -> Iterator[Cycle]:
        """All deadlocks, one after the other. Each further deadlock is a cycle that remains after
        the victims of the earlier deadlocks gave up."""
        blocked = self._blocked(None)
        while (cycle := blocked.any_cycle()) is not None:
            yield cycle
            blocked.give_up(victim_of(cycle, policy))

    def _blocked(self, start: Iterable[str] | None) -> BlockedNodes:
        return BlockedNodes(self._needs, list(self._needs if start is None else start))


class BlockedNodes:
    """The stuck nodes among the nodes that can be reached from some start nodes. `give_up` updates
    these nodes.

    Each need is met at most once, so all updates together take linear time.
    """

    __slots__ = ("_met", "_needed_by", "_needs", "_suspects", "_unmet", "stuck")

    def __init__(self, needs: dict[str, dict[_Key, _Need]], start: list[str]) -> None:
        self._needs = needs
        self._met: set[_Need] = set()
        self._needed_by: dict[str | None, list[_Need]] = {}
        self._unmet: dict[str, int] = {}
        reached = self._reach(start)
        self.stuck = {node for node in reached if node in self._unmet}
        self._suspects = deque(node for node in reached if node in self.stuck)
        """The stuck nodes in the order in which they were reached; nodes that were freed since are
        skipped later."""
        self._free([None, *(node for node in reached if node not in self.stuck)])

    def _reach(self, start: list[str]) -> dict[str, None]:
        reached = dict.fromkeys(start)
        line = deque(reached)
        while line:
            node = line.popleft()
            needs = self._needs.get(node)
            if needs is None:
                continue
            self._unmet[node] = len(needs)
            for need in needs.values():
                for wait in need.waits.values():
                    self._needed_by.setdefault(wait.awaits, []).append(need)
                    if wait.awaits is not None and wait.awaits not in reached:
                        reached[wait.awaits] = None
                        line.append(wait.awaits)
        return reached

    def _free(self, continuing: list[str | None]) -> None:
        """Free all nodes that need only these nodes, directly or not; `None` stands for people."""
        while continuing:
            needs = self._needed_by.pop(continuing.pop(), ())
            continuing.extend(need.waiter for need in needs if self._meet(need))

    def _meet(self, need: _Need) -> bool:
        """Mark a need as met; returns whether it was the last one of its node."""
        if need in self._met:
            return False
        self._met.add(need)
        self._unmet[need.waiter] -= 1
        if self._unmet[need.waiter]:
            return False
        self.stuck.remove(need.waiter)
        return True

    def give_up(self, given_up: Need) -> None:
        """Treat this need as met."""
        first = given_up[0]
        if self._meet(self._needs[first.waiter][_key(first)]):
            self._free([first.waiter])

    def cycle_through(self, node: str) -> Cycle | None:
        """The shortest cycle of stuck nodes through this node."""
        if node not in self.stuck:
            return None
        came_from: dict[str, str] = {}
        line = deque([node])
        while line:
            here = line.popleft()
            for there in self._blockers(here):
                if there == node:
                    return self._cycle(_path(came_from, here, node))
                if there not in came_from:
                    came_from[there] = here
                    line.append(there)
        return None

    def any_cycle(self) -> Cycle | None:
        """Any cycle of stuck nodes."""
        while self._suspects and self._suspects[0] not in self.stuck:
            self._suspects.popleft()
        if not self._suspects:
            return None
        node = self._suspects[0]
        places: dict[str, int] = {}
        while node not in places:
            places[node] = len(places)
            node = next(self._blockers(node))
        return self._cycle(list(places)[places[node] :])

    def _blockers(self, node: str) -> Iterator[str]:
        """The stuck nodes that a stuck node needs."""
        # A need is unmet only while all nodes that could meet it are stuck.
        for need in self._unmet_needs(node):
            for wait in need.waits.values():
                assert wait.awaits is not None  # A need of a person's answer is met.
                yield wait.awaits

    def _unmet_needs(self, node: str) -> Iterator[_Need]:
        return (need for need in self._needs[node].values() if need not in self._met)

    def _cycle(self, nodes: list[str]) -> Cycle:
        needs: list[Need] = []
        for here, there in zip(nodes, [*nodes[1:], nodes[0]], strict=True):
            for need in self._unmet_needs(here):
                waits = tuple(need.waits.values())
                if any(wait.awaits == there for wait in waits):
                    needs.append(waits)
        return Cycle(nodes=(*nodes, nodes[0]), needs=tuple(needs))


def victim_of(cycle: Cycle, policy: VictimPolicy) -> Need:
    """Choose the need of the cycle that is given up. The choice does not depend on the node at
    which the search began."""
    check_policy(policy)
    longest = sorted(cycle.needs, key=_since)
    match policy:
        case "longest":
            return longest[0]
        case "youngest":
            return longest[-1]
        case "lowest_priority":
            return min(longest, key=lambda need: min(wait.priority for wait in need))


def _since(need: Need) -> tuple[int, int, str]:
    return min((wait.since_us, wait.number, wait.id) for wait in need)


def _key(wait: Wait) -> _Key:
    return ("one", wait.id) if wait.any_of is None else ("any", wait.any_of)


def _path(came_from: dict[str, str], last: str, first: str) -> list[str]:
    """The nodes from `first` to `last`."""
    path = [last]
    while path[-1] != first:
        path.append(came_from[path[-1]])
    path.reverse()
    return path
