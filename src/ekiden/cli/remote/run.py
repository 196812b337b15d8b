"""`ekiden run --server`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from ekiden.cli.commands import run as local
from ekiden.cli.errors import UsageError
from ekiden.cli.remote.likeness import like

if TYPE_CHECKING:
    from ekiden.client import AsyncClient
    from ekiden.core.messages import Priority
    from ekiden.routing.decision import Strategy


@like(local.run)
async def run(
    client: AsyncClient,
    *,
    text: str,
    more: tuple[str, ...] = (),
    session: str | None,
    user: str | None,
    priority: Priority,
    strategy: Strategy | None,
    approve: Literal["terminal", "inbox"],
    wait: bool,
    wait_timeout: float | None,
    max_turns: int | None,
    no_wait: bool,
    stream: bool,
    as_json: bool,
) -> int:
    """Say something to the server's team; tools that need a yes wait in its inbox."""
    from ekiden.cli.onlooker import Onlooker
    from ekiden.cli.patience import Patience
    from ekiden.cli.remote.connection import server_words
    from ekiden.cli.remote.users import check_owner
    from ekiden.cli.remote.watching import RemoteWatch
    from ekiden.cli.requests import read_request
    from ekiden.cli.titles import title_of

    if session == "":
        raise UsageError("--session is empty; leave it out for a new session, or give an id")
    said = read_request(text, more)
    await check_owner(client, session, user)
    onlooker = Onlooker(
        as_json=as_json, stream=stream, how_to_resume="", store_words=server_words()
    )
    shown = client.runs.stream(
        said.text,
        session_id=session,
        agent=said.to,
        strategy=said.strategy or strategy,
        user_id=user,
        priority=priority,
        title=title_of(said.text),
        max_turns=max_turns,
        on_busy="refuse" if no_wait else "wait",
    )
    patience = Patience(stays=wait or wait_timeout is not None, timeout_s=wait_timeout)
    async with shown:
        return await RemoteWatch(client=client, onlooker=onlooker).watch(shown, patience)
