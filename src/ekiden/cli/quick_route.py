"""`ekiden route "text"` for a large team that did not change since the last call.

The team comes from `ekiden.routing.stored_team`, and neither the parser of commands nor an event
loop is loaded. The result is that of the command in `ekiden.cli.commands.run`.
"""

from __future__ import annotations

import os
from collections.abc import Coroutine, Sequence
from typing import Any, Final, TypeVar

from ekiden.cli.exits import Exit
from ekiden.core.text.wording import is_unicode

T = TypeVar("T")

_LONGEST: Final = 2_000
"""Longer texts are rare, and the router may check them in a thread."""
_MENTIONS: Final = ("@", "＠", "\\")


def quick_route(arguments: Sequence[str]) -> int | None:
    """Run the command; `None` if it must be run as any other, because it has other options than
    ``--json``, or because there is no stored team."""
    words = [word for word in arguments[1:] if word != "--json"]
    as_json = len(arguments) == 3
    if len(words) != 1 or len(arguments) > 3 or os.environ.get("EKIDEN_SERVER"):
        return None
    text = words[0]
    start = text.strip()[:1]
    if not start or start in _MENTIONS or text[0] == "-" or len(text) > _LONGEST:
        return None
    if not is_unicode(text):
        return None
    from ekiden.routing.stored_team import read_team

    team = read_team(os.getcwd())
    if team is None:
        return None
    from ekiden.cli.output import show
    from ekiden.cli.projects import show_learning, tell_problem
    from ekiden.cli.views.plans import print_route
    from ekiden.routing.analysis import analysis

    for data, line in team.problems:
        tell_problem(data, line, as_json=as_json)
    show_learning(as_json=as_json)
    limit = max(len(team.agents), 1)
    decision = _result(team.router.route(text, limit=limit))
    show(analysis(team.agents, team.settings, decision), print_route, as_json=as_json)
    return Exit.OK


def _result(work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that never waits: without a model, routing has nothing to wait
    for."""
    try:
        work.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    raise AssertionError("routing without a model waits for nothing")
