"""How a store stands among those that a worker serves: what it has, and when to look again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from itertools import count
from typing import Any

from ekiden.engine.station import Station

_WIDEST = 8
"""So many claims at a time while each finds something."""
_SHORTEST_S = 0.005
_LONGEST_S = 0.04
"""Between looks that find nothing, while hints keep coming."""

_turns = count(1)


class Line:
    """The sessions of one store that stand in line for the worker's places."""

    def __init__(
        self, station: Station, beside: Sequence[Callable[[], Coroutine[Any, Any, None]]]
    ) -> None:
        self.station = station
        self.beside = beside
        self.may_have = True
        """Whether there may be work that nobody has."""
        self.hints = 0
        self.rest_until = 0.0
        """In the time of the loop."""
        self.is_troubled = False
        """Whether the last claim failed, so that the store needs a rest."""
        self.is_gone = False
        self._taken = 0
        self._claims = 0
        self._width = 1
        self._pause_s = _SHORTEST_S
        self._last_turn = 0
        self._tasks: list[asyncio.Task[None]] = []

    def wants_more(self, now: float) -> bool:
        """Whether another claim may find something."""
        return self.may_have and self._claims < self._width and self.rest_until <= now

    def turn(self) -> tuple[int, int]:
        """The lowest has the next turn: who has the fewest places, and among these who had none for
        longest."""
        return self._taken, self._last_turn

    def begin(self) -> None:
        """A place is taken, for a claim to begin with."""
        self._taken += 1
        self._claims += 1
        self._last_turn = next(_turns)

    def claimed(self) -> None:
        """A claim is over, whether or not it found something."""
        self._claims -= 1

    def end(self) -> None:
        """A place is free again."""
        self._taken -= 1

    def found(self) -> None:
        """A claim found something: there may be much more."""
        self.is_troubled = False
        self._width = min(self._width * 2, _WIDEST)
        self._pause_s = _SHORTEST_S
        self.may_have = True

    def missed(self, hints: int) -> float:
        """A claim that began when there were so many `hints` found nothing; gives the seconds after
        which to look again, should there be another hint."""
        self._width = 1
        self.is_troubled = False
        self.may_have = self.hints != hints
        pause_s, self._pause_s = self._pause_s, min(self._pause_s * 2, _LONGEST_S)
        return pause_s

    def failed(self) -> None:
        """A claim could not be made."""
        self._width = 1
        self.is_troubled = True

    def may_have_more(self) -> None:
        """Something was done here that may have left work behind: look at once."""
        if not self.is_troubled:
            self._pause_s, self.rest_until = _SHORTEST_S, 0.0
        self.hinted()

    def hinted(self) -> None:
        """Somebody changed something, or it is time to look."""
        self.hints += 1
        self.may_have = True

    def start(self, *work: Coroutine[Any, Any, None]) -> None:
        """Let this go on until `end_beside`."""
        self._tasks += [asyncio.create_task(each) for each in work]

    async def end_beside(self) -> None:
        """Stop what goes on beside the sessions."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
