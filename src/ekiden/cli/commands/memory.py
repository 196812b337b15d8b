"""`ekiden memory …`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from cyclopts import Parameter
from cyclopts.validators import Number

from ekiden.cli.errors import UsageError
from ekiden.cli.options import JsonLinesOption, JsonOption, Listing, WideOption
from ekiden.cli.place import HERE, Place
from ekiden.cli.terminal.output import emit, note, say, show
from ekiden.cli.terminal.prompts import YesOption, confirm
from ekiden.cli.terminal.tables import print_pairs, print_table
from ekiden.core.values import dumps, loads

UserOption: TypeAlias = Annotated[
    str | None,
    Parameter(name="--user", help="User who owns the memories. Default: the setting `user`."),
]
AppOption: TypeAlias = Annotated[
    str | None, Parameter(name="--app", help="Name of the app. Default: the setting `app`.")
]
SharedOption: TypeAlias = Annotated[
    bool,
    Parameter(
        name="--shared",
        negative="",
        show_default=False,
        help="Use the memories that all users of the app share, instead of one user's memories.",
    ),
]


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class KeyListing(Listing):
    """The options of a list whose cursors are keys."""

    cursor: Annotated[
        str | None,
        Parameter(
            name=("--cursor", "--after"),
            help="Continue after this key, the last key of the previous page.",
        ),
    ] = None


BY_KEY = KeyListing()
KeyArgument = Annotated[str, Parameter(help="Key of the memory, or a unique prefix of it.")]


async def memory_list(
    *,
    user: UserOption = None,
    app: AppOption = None,
    shared: SharedOption = False,
    listing: KeyListing = BY_KEY,
    place: Place = HERE,
) -> None:
    """List memories, sorted by key."""
    from ekiden.cli.views.state import memory_table

    name = _whose(user, shared)
    async with place.open(app=app) as ekiden:
        found = ekiden.memory.list(user=name, shared=shared)
        await listing.show(found, memory_table, none="there are no memories")


async def memory_show(
    key: KeyArgument,
    /,
    *,
    user: UserOption = None,
    app: AppOption = None,
    shared: SharedOption = False,
    place: Place = HERE,
    as_json: JsonOption = False,
) -> None:
    """Show one memory."""
    from ekiden.cli.views.state import memory_pairs

    name = _whose(user, shared)
    async with place.open(app=app) as ekiden:
        found = await ekiden.memory.get(key, user=name, shared=shared)
    show(found, lambda each: print_pairs(memory_pairs(each)), as_json=as_json)


async def memory_search(
    query: Annotated[str, Parameter(help="Text to search for.")],
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
            help="Also search by meaning, with the model in the setting `memory.embedding_model`.",
        ),
    ] = False,
    limit: Annotated[
        int | None,
        Parameter(
            validator=Number(gte=1, lte=100),
            help="Maximum number of entries. Default: the setting `memory.top_k`.",
        ),
    ] = None,
    threshold: Annotated[
        float | None,
        Parameter(
            validator=Number(gte=0, lte=1),
            help="Lowest similarity to list, from 0 to 1. Default: the setting "
            "`memory.similarity_threshold`.",
        ),
    ] = None,
    place: Place = HERE,
    wide: WideOption = False,
    json_lines: JsonLinesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Search memories, best match first.

    Agents use the same search in their tool `recall`.
    """
    from ekiden.cli.views.state import found_table
    from ekiden.core.documents import to_json

    name = _whose(user, shared)
    async with place.open(app=app, embeds=meaning) as ekiden:
        answer = await ekiden.memory.search(
            query, user=name, shared=shared, meaning=meaning, limit=limit, threshold=threshold
        )
    for text in answer.notes:
        note(dumps({"note": text}) if as_json or json_lines else text)
    if json_lines:
        for each in answer.items:
            emit(to_json(each))
    elif as_json:
        emit(to_json(answer.items))
    elif answer.items:
        print_table(*found_table(answer.items), wide=wide)
    else:
        say("no memory matches")


async def memory_store(
    content: Annotated[str, Parameter(help="Text to remember.")],
    /,
    *,
    key: Annotated[
        str | None, Parameter(help="Key of the memory. Default: a key made from the content.")
    ] = None,
    metadata: Annotated[
        str | None, Parameter(help="Metadata of the memory, as a JSON object.")
    ] = None,
    user: UserOption = None,
    app: AppOption = None,
    shared: SharedOption = False,
    place: Place = HERE,
    as_json: JsonOption = False,
) -> None:
    """Store a memory. A memory with the same key is replaced."""

    facts, name = _json_object(metadata), _whose(user, shared)
    async with place.open(create=True, app=app) as ekiden:
        stored = await ekiden.memory.store(
            content, key=key, metadata=facts, user=name, shared=shared
        )
    show(stored, f"remembered under {stored.key}", as_json=as_json)


async def memory_forget(
    key: KeyArgument,
    /,
    *,
    user: UserOption = None,
    app: AppOption = None,
    shared: SharedOption = False,
    yes: YesOption = False,
    place: Place = HERE,
    as_json: JsonOption = False,
) -> None:
    """Delete one memory."""
    name = _whose(user, shared)
    async with place.open(app=app) as ekiden:
        await ekiden.memory.get(key, user=name, shared=shared)
        confirm(f"forget {key}", yes=yes)
        await ekiden.memory.forget(key, user=name, shared=shared)
    if as_json:
        emit({"key": key, "forgotten": True})
    else:
        say(f"{key} is forgotten")


async def memory_export(
    *,
    output: Annotated[
        Path | None,
        Parameter(name=["--output", "-o"], help="New file to write to. Default: standard output."),
    ] = None,
    user: UserOption = None,
    app: AppOption = None,
    shared: SharedOption = False,
    place: Place = HERE,
    as_json: JsonOption = False,
) -> None:
    """Write all memories as JSON lines. The output is the same with and without --json."""
    from ekiden.core.documents import to_json

    name, count = _whose(user, shared), 0
    async with (
        place.open(app=app) as ekiden,
        ekiden.memory.export(user=name, shared=shared) as memories,
    ):
        if output is None:
            async for each in memories:
                emit(to_json(each))
            return
        try:
            with output.open("x", encoding="utf-8") as file:
                async for each in memories:
                    file.write(dumps(to_json(each)) + "\n")
                    count += 1
        except OSError as exc:
            raise UsageError(f"cannot write {output}: {exc.strerror}; name another file") from exc
    note(f"wrote {count} memories to {output}")


async def memory_clear(
    *,
    user: UserOption = None,
    app: AppOption = None,
    shared: SharedOption = False,
    yes: YesOption = False,
    place: Place = HERE,
    as_json: JsonOption = False,
) -> None:
    """Delete all memories of a user, or of the whole app."""

    name, count = _whose(user, shared), 0
    async with place.open(app=app) as ekiden:
        if not yes:
            async for _ in ekiden.memory.list(user=name, shared=shared):
                count += 1
            confirm(f"forget {count} memories", yes=False)
        done = await ekiden.memory.clear(user=name, shared=shared)
    show(done, f"deleted {done.forgotten} memories", as_json=as_json)


async def memory_sync(*, place: Place = HERE, as_json: JsonOption = False) -> int:
    """Send pending memory changes to the external memory services."""
    from ekiden.cli.exits import Exit
    from ekiden.cli.views.state import print_deliveries
    from ekiden.memory import close_backends

    async with place.open(embeds=True) as ekiden:
        try:
            done = (await ekiden.memory.sync()).items
        finally:
            await close_backends()
    show(done, print_deliveries, as_json=as_json)
    return Exit.FAILED if any(each.waiting for each in done) else Exit.OK


def _whose(user: str | None, shared: bool) -> str | None:
    """The user; `None` for the memory of the whole app. `UsageError` if no user is named."""
    from ekiden.cli.projects import settings_here

    if shared and user is not None:
        raise UsageError("--user and --shared exclude each other: give one")
    if shared:
        return None
    name = settings_here().user if user is None else user
    if not name:
        raise UsageError(
            "name the user with --user, EKIDEN_USER or the setting `user`, or use the memories "
            "of the whole app with --shared"
        )
    return name


def _json_object(text: str | None) -> dict[str, Any] | None:
    """The metadata in the option; `UsageError` if it is not a JSON object."""
    if text is None:
        return None
    try:
        value = loads(text)
    except (ValueError, RecursionError) as exc:
        raise UsageError(f"--metadata is not JSON: {exc}") from exc
    if not isinstance(value, dict):
        raise UsageError('--metadata must be a JSON object, such as \'{"tags": ["diet"]}\'')
    return value
