"""`ekiden plan --server`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ekiden.cli.commands import plan as local
from ekiden.cli.output import emit, say
from ekiden.cli.remote.likeness import like

if TYPE_CHECKING:
    from ekiden.client import AsyncClient


@like(local.plan)
async def plan(
    client: AsyncClient,
    *,
    text: str,
    more: tuple[str, ...] = (),
    agent: str | None,
    as_json: bool,
) -> None:
    """Show how a request would be split at the server."""
    from ekiden.cli.plan_view import tree_lines
    from ekiden.cli.requests import one_argument, read_text
    from ekiden.core.plan import TaskDecomposition

    one_argument(text, more)
    raw = await client.plans.preview(read_text(text), agent=agent)
    if as_json:
        emit(raw)
        return
    found = TaskDecomposition.from_json(raw)
    count = f"{len(found.tasks)} tasks" if len(found.tasks) > 1 else "1 task"
    say(f"by {raw['method']} → {count}")
    for line in tree_lines(found):
        say(line)
