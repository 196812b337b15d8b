"""`ekiden route "text"` for a large team that did not change since the last call.

The team comes from `ekiden.routing.stored_team`, and neither the parser of commands nor an event
loop is loaded. The result is that of the command in `ekiden.cli.commands.run`.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from ekiden.cli.errors import Exit
from ekiden.core.text.wording import is_unicode

T = TypeVar("T")

_LONGEST: Final = 2_000
"""Longer texts are rare, and the router may check them in a thread."""
_THREADS: Final = "OPENBLAS_NUM_THREADS"
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
    with _short_process() as has_one_thread:
        return _routed(text, begin=_all_threads if has_one_thread else None, as_json=as_json)


def _routed(text: str, *, begin: Callable[[], None] | None, as_json: bool) -> int | None:
    from ekiden.routing.stored_team import read_team

    team = read_team(os.getcwd())
    if team is None:
        return None
    from ekiden.cli.output import show
    from ekiden.cli.projects import show_learning, tell_problem
    from ekiden.cli.views.transcript import print_route
    from ekiden.routing.analysis import analysis

    for data, line in team.problems:
        tell_problem(data, line, as_json=as_json)
    show_learning(as_json=as_json, begin=begin)
    limit = max(len(team.agents), 1)
    decision = _result(team.router.route(text, limit=limit))
    show(analysis(team.agents, team.settings, decision), print_route, as_json=as_json)
    return Exit.OK


@contextmanager
def _short_process() -> Iterator[bool]:
    """Do without what pays only in a process that lives longer: the garbage collector, and numpy's
    threads, which wait for work in a busy loop. Yields whether numpy will have one thread."""
    is_collecting = gc.isenabled()
    gc.disable()
    is_ours = "numpy" not in sys.modules and _THREADS not in os.environ
    if is_ours:
        os.environ[_THREADS] = "1"
    try:
        yield is_ours
    finally:
        if is_ours:
            del os.environ[_THREADS]
        if is_collecting:
            gc.enable()


def _all_threads() -> None:
    """Let numpy use every core after all: a large team is to be learned."""
    from ekiden.embeddings.local import use_threads

    use_threads(os.cpu_count() or 1)


def _result(work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that never waits: without a model, routing has nothing to wait
    for."""
    try:
        work.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    raise AssertionError("routing without a model waits for nothing")
