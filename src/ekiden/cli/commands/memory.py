"""`ekiden memory …`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from cyclopts import Parameter
from cyclopts.validators import Number

from ekiden.cli.errors import UsageError
from ekiden.cli.options import STORE, JsonLinesOption, JsonOption, StoreOption
from ekiden.cli.output import emit, note, say
from ekiden.cli.tables import print_pairs, print_table
from ekiden.core.jsonio import dumps, loads
from ekiden.core.profile import MemoryKind

if TYPE_CHECKING:
    from ekiden.memory import Memory

UserOption: TypeAlias = Annotated[
    str | None, Parameter(name="--user", help="Whose memory; else the setting `user`.")
]
AppOption: TypeAlias = Annotated[
    str | None, Parameter(name="--app", help="In which app; else the setting `app`.")
]
SharedOption: TypeAlias = Annotated[
    bool,
    Parameter(
        name="--shared",
        negative="",
        show_default=False,
        help="What the whole app remembers, instead of one user's memory.",
    ),
]
KeyArgument = Annotated[str, Parameter(help="The key it is remembered under.")]


async def memory_list(
    *,
    user: UserOption = None,
    app: AppOption = None,
    shared: SharedOption = False,
    after: Annotated[str, Parameter(help="Only keys above this one.")] = "",
    limit: Annotated[
        int | None,
        Parameter(validator=Number(gte=1, lte=1000), help="How many; 50, or all as JSON lines."),
    ] = None,
    store: StoreOption = STORE,
    json_lines: JsonLinesOption = False,
    as_json: JsonOption = False,
) -> None:
    """List what is remembered, by key."""
    from ekiden.cli.memory_view import HEADERS, everything, memory_record, memory_rows

    async with _memory(store, user=user, app=app, shared=shared) as memory:
        if json_lines and limit is None:
            async for each in everything(memory, after=after):
                emit(memory_record(each))
            return
        wanted = limit or 50
        found = await memory.list(after=after, limit=wanted + 1)
    page = found[:wanted]
    if json_lines:
        for each in page:
            emit(memory_record(each))
    elif as_json:
        emit([memory_record(each) for each in page])
    elif page:
        print_table(HEADERS, memory_rows(page, scored=False))
    else:
        say("nothing is remembered")
    if len(found) > wanted:
        last = page[-1].key
        note(dumps({"after": last}) if as_json or json_lines else f"more: --after {last}")


async def memory_show(
    key: KeyArgument,
    /,
    *,
    user: UserOption = None,
    app: AppOption = None,
    shared: SharedOption = False,
    store: StoreOption = STORE,
    as_json: JsonOption = False,
) -> None:
    """Show one memory."""
    from ekiden.cli.memory_view import memory_pairs, memory_record
    from ekiden.core.memory_errors import MemoryNotFound

    async with _memory(store, user=user, app=app, shared=shared) as memory:
        found = await memory.get(key)
    if found is None:
        raise MemoryNotFound(key)
    if as_json:
        emit(memory_record(found))
    else:
        print_pairs(memory_pairs(found))


async def memory_search(
    query: Annotated[str, Parameter(help="What it is about.")],
    /,
    *,
    user: UserOption = None,
    app: AppOption = None,
    shared: SharedOption = False,
    meaning: Annotated[
        bool,
        Parameter(
            name="--meaning",
            negative="",
            show_default=False,
            help="By meaning, too, with the setting memory.embedding_model.",
        ),
    ] = False,
    limit: Annotated[
        int | None,
        Parameter(validator=Number(gte=1, lte=100), help="How many; else memory.top_k."),
    ] = None,
    threshold: Annotated[
        float | None,
        Parameter(validator=Number(gte=0, lte=1), help="How near; else as the settings say."),
    ] = None,
    store: StoreOption = STORE,
    json_lines: JsonLinesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Find memories, the best first, as agents do with the tool recall."""
    from ekiden.cli.memory_view import FOUND_HEADERS, memory_record, memory_rows

    kind: MemoryKind = "vector" if meaning else "key_value"
    async with _memory(store, user=user, app=app, shared=shared, kind=kind) as memory:
        answer = await memory.recall(query, limit, threshold)
    for text in answer.notes:
        note(dumps({"note": text}) if as_json or json_lines else text)
    if json_lines:
        for each in answer.found:
            emit(memory_record(each))
    elif as_json:
        emit([memory_record(each) for each in answer.found])
    elif answer.found:
        print_table(FOUND_HEADERS, memory_rows(answer.found, scored=True))
    else:
        say("nothing like that is remembered")


async def memory_store(
    content: Annotated[str, Parameter(help="What to remember.")],
    /,
    *,
    key: Annotated[
        str | None, Parameter(help="The key; else one is made from the content.")
    ] = None,
    metadata: Annotated[str | None, Parameter(help="A JSON object that belongs to it.")] = None,
    user: UserOption = None,
    app: AppOption = None,
    shared: SharedOption = False,
    store: StoreOption = STORE,
    as_json: JsonOption = False,
) -> None:
    """Remember something, in the place of what is under the same key."""
    facts = json_object(metadata)
    async with _memory(store, user=user, app=app, shared=shared, create=True) as memory:
        stored = await memory.store(key, content, facts)
    if as_json:
        emit({"key": stored, "stored": True})
    else:
        say(f"remembered under {stored}")


async def memory_forget(
    key: KeyArgument,
    /,
    *,
    user: UserOption = None,
    app: AppOption = None,
    shared: SharedOption = False,
    store: StoreOption = STORE,
    as_json: JsonOption = False,
) -> None:
    """Forget one memory."""
    from ekiden.core.memory_errors import MemoryNotFound

    async with _memory(store, user=user, app=app, shared=shared) as memory:
        if not await memory.forget(key):
            raise MemoryNotFound(key)
    if as_json:
        emit({"key": key, "forgotten": True})
    else:
        say(f"{key} is forgotten")


async def memory_export(
    *,
    output: Annotated[
        Path | None, Parameter(name=["--output", "-o"], help="A new file to write to.")
    ] = None,
    user: UserOption = None,
    app: AppOption = None,
    shared: SharedOption = False,
    store: StoreOption = STORE,
    as_json: JsonOption = False,
) -> None:
    """Write all memories as JSON lines, which they are with or without --json."""
    from ekiden.cli.memory_view import everything, memory_record

    count = 0
    async with _memory(store, user=user, app=app, shared=shared) as memory:
        if output is None:
            async for each in everything(memory):
                emit(memory_record(each))
            return
        try:
            with output.open("x", encoding="utf-8") as file:
                async for each in everything(memory):
                    file.write(dumps(memory_record(each)) + "\n")
                    count += 1
        except OSError as exc:
            raise UsageError(f"cannot write {output}: {exc.strerror}; name another file") from exc
    note(f"{count} memories are in {output}")


async def memory_clear(
    *,
    user: UserOption = None,
    app: AppOption = None,
    shared: SharedOption = False,
    yes: Annotated[
        bool,
        Parameter(
            name="--yes", negative="", show_default=False, help="Do it; without, only count."
        ),
    ] = False,
    store: StoreOption = STORE,
    as_json: JsonOption = False,
) -> None:
    """Forget everything: of one user, or what the whole app remembers."""
    from ekiden.cli.memory_view import everything

    async with _memory(store, user=user, app=app, shared=shared) as memory:
        if not yes:
            count = 0
            async for _ in everything(memory):
                count += 1
            raise UsageError(f"this would forget {count} memories for good; say --yes to do it")
        count = await memory.clear()
    if as_json:
        emit({"forgotten": count})
    else:
        say(f"{count} memories are forgotten")


async def memory_sync(*, store: StoreOption = STORE, as_json: JsonOption = False) -> int:
    """Tell back ends what waits to be sent to them."""
    from ekiden.app import open_store
    from ekiden.cli.exits import Exit
    from ekiden.cli.memory_view import delivered, settings_here
    from ekiden.memory import close_backends

    settings = settings_here()
    address = settings.store if store is None else store
    async with open_store(address, create=False) as opened:
        try:
            done = await delivered(opened, settings)
        finally:
            await close_backends()
    print_deliveries(done, as_json=as_json)
    return Exit.FAILED if any(each["waiting"] for each in done) else Exit.OK


def print_deliveries(done: Sequence[Mapping[str, Any]], *, as_json: bool) -> None:
    """What back ends were told."""
    if as_json:
        emit(done)
    elif not done:
        say("no back end has copies of what is remembered here")
    else:
        print_table(
            ("back end", "delivered", "waiting", "problem"),
            [
                (
                    each["backend"],
                    str(each["delivered"]),
                    str(each["waiting"]),
                    each["problem"] or "",
                )
                for each in done
            ],
        )


@asynccontextmanager
async def _memory(
    store: str | None,
    *,
    user: str | None,
    app: str | None,
    shared: bool,
    kind: MemoryKind = "key_value",
    create: bool = False,
) -> AsyncIterator[Memory]:
    from ekiden.app import open_store
    from ekiden.cli.memory_view import opened_memory, settings_here

    settings = settings_here()
    address = settings.store if store is None else store
    async with open_store(address, create=create) as opened:
        yield opened_memory(opened, settings, user=user, app=app, shared=shared, kind=kind)


def json_object(text: str | None) -> dict[str, Any] | None:
    """The metadata that the option has; `UsageError` for what is no JSON object."""
    if text is None:
        return None
    try:
        value = loads(text)
    except (ValueError, RecursionError) as exc:
        raise UsageError(f"--metadata is not JSON: {exc}") from exc
    if not isinstance(value, dict):
        raise UsageError('--metadata must be a JSON object, such as \'{"tags": ["diet"]}\'')
    return value
