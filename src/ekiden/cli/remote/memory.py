"""`ekiden memory … --server`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ekiden.cli.commands import memory as local
from ekiden.cli.errors import UsageError
from ekiden.cli.exits import Exit
from ekiden.cli.output import emit, note, say
from ekiden.cli.remote.likeness import like
from ekiden.cli.remote.options import no_other_app, user_here
from ekiden.cli.tables import print_pairs, print_table
from ekiden.core.jsonio import dumps

if TYPE_CHECKING:
    from ekiden.client import AsyncClient


def _whose(user: str | None, app: str | None, shared: bool) -> str | None:
    """The user; `None` for what the whole app remembers."""
    no_other_app(app)
    if shared and user is not None:
        raise UsageError("--user and --shared exclude each other: give one")
    if shared:
        return None
    name = user_here(user)
    if not name:
        raise UsageError(
            "whose memory? Name a user with --user, EKIDEN_USER or the setting `user`, or take "
            "that of the whole app with --shared"
        )
    return name


@like(local.memory_list)
async def memory_list(
    client: AsyncClient,
    *,
    user: str | None,
    app: str | None,
    shared: bool,
    after: str,
    limit: int | None,
    json_lines: bool,
    as_json: bool,
) -> None:
    """List what is remembered, by key."""
    from ekiden.cli.memory_view import HEADERS, memory_rows
    from ekiden.cli.remote.reading import recollection_of

    found = client.memory.list(user=_whose(user, app, shared), shared=shared)
    if json_lines and limit is None and not after:
        async for each in found:
            emit(each.raw)
        return
    page = await found.page(limit=limit or 50, cursor=after or None)
    if json_lines:
        for each in page.items:
            emit(each.raw)
    elif as_json:
        emit([each.raw for each in page.items])
    elif page.items:
        print_table(HEADERS, memory_rows(map(recollection_of, page.items), scored=False))
    else:
        say("nothing is remembered")
    if page.next_cursor is not None:
        last = page.next_cursor
        note(dumps({"after": last}) if as_json or json_lines else f"more: --after {last}")


@like(local.memory_show)
async def memory_show(
    client: AsyncClient,
    *,
    key: str,
    user: str | None,
    app: str | None,
    shared: bool,
    as_json: bool,
) -> None:
    """Show one memory."""
    from ekiden.cli.memory_view import memory_pairs
    from ekiden.cli.remote.reading import recollection_of

    found = await client.memory.get(key, user=_whose(user, app, shared), shared=shared)
    if as_json:
        emit(found.raw)
    else:
        print_pairs(memory_pairs(recollection_of(found)))


@like(local.memory_search)
async def memory_search(
    client: AsyncClient,
    *,
    query: str,
    user: str | None,
    app: str | None,
    shared: bool,
    meaning: bool,
    limit: int | None,
    threshold: float | None,
    json_lines: bool,
    as_json: bool,
) -> None:
    """Find memories, the best first."""
    from ekiden.cli.memory_view import FOUND_HEADERS, memory_rows
    from ekiden.cli.remote.reading import recollection_of

    answer = await client.memory.search(
        query,
        user=_whose(user, app, shared),
        shared=shared,
        meaning=meaning,
        limit=limit,
        threshold=threshold,
    )
    for text in answer.notes:
        note(dumps({"note": text}) if as_json or json_lines else text)
    if json_lines:
        for each in answer.items:
            emit(each.raw)
    elif as_json:
        emit([each.raw for each in answer.items])
    elif answer.items:
        print_table(FOUND_HEADERS, memory_rows(map(recollection_of, answer.items), scored=True))
    else:
        say("nothing like that is remembered")


@like(local.memory_store)
async def memory_store(
    client: AsyncClient,
    *,
    content: str,
    key: str | None,
    metadata: str | None,
    user: str | None,
    app: str | None,
    shared: bool,
    as_json: bool,
) -> None:
    """Remember something."""
    facts = local.json_object(metadata)
    stored = await client.memory.store(
        content, key=key, metadata=facts, user=_whose(user, app, shared), shared=shared
    )
    if as_json:
        emit({"key": stored, "stored": True})
    else:
        say(f"remembered under {stored}")


@like(local.memory_forget)
async def memory_forget(
    client: AsyncClient,
    *,
    key: str,
    user: str | None,
    app: str | None,
    shared: bool,
    as_json: bool,
) -> None:
    """Forget one memory."""
    await client.memory.forget(key, user=_whose(user, app, shared), shared=shared)
    if as_json:
        emit({"key": key, "forgotten": True})
    else:
        say(f"{key} is forgotten")


@like(local.memory_export)
async def memory_export(
    client: AsyncClient,
    *,
    output: Path | None,
    user: str | None,
    app: str | None,
    shared: bool,
    as_json: bool,
) -> None:
    """Write all memories as JSON lines."""
    count = 0
    async with client.memory.export(user=_whose(user, app, shared), shared=shared) as memories:
        if output is None:
            async for each in memories:
                emit(each.raw)
            return
        try:
            with output.open("x", encoding="utf-8") as file:
                async for each in memories:
                    file.write(dumps(each.raw) + "\n")
                    count += 1
        except OSError as exc:
            raise UsageError(f"cannot write {output}: {exc.strerror}; name another file") from exc
    note(f"{count} memories are in {output}")


@like(local.memory_clear)
async def memory_clear(
    client: AsyncClient,
    *,
    user: str | None,
    app: str | None,
    shared: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Forget everything."""
    name = _whose(user, app, shared)
    if not yes:
        count = 0
        async for _ in client.memory.list(user=name, shared=shared):
            count += 1
        raise UsageError(f"this would forget {count} memories for good; say --yes to do it")
    forgotten = await client.memory.clear(user=name, shared=shared)
    if as_json:
        emit({"forgotten": forgotten})
    else:
        say(f"{forgotten} memories are forgotten")


@like(local.memory_sync)
async def memory_sync(client: AsyncClient, *, as_json: bool) -> int:
    """Tell back ends what waits to be sent to them."""
    done = [dict(each.raw) for each in await client.memory.sync()]
    local.print_deliveries(done, as_json=as_json)
    return Exit.FAILED if any(each["waiting"] for each in done) else Exit.OK
