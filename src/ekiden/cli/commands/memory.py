"""`ekiden memory …`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter
from cyclopts.validators import Number

from ekiden.cli.errors import UsageError
from ekiden.cli.options import (
    JsonLinesOption,
    JsonOption,
    Listing,
    OutputOption,
    WideOption,
    YesOption,
    json_object,
)
from ekiden.cli.place import HERE, Place
from ekiden.cli.terminal.output import emit, new_file, note, say, show
from ekiden.cli.terminal.prompts import confirm
from ekiden.cli.terminal.tables import print_pairs, print_table
from ekiden.core.values import dumps

if TYPE_CHECKING:
    from ekiden.api.memory import MemoryApi


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySpace:
    """The options that choose whose memories a command uses."""

    user: Annotated[
        str | None, Parameter(help="User who owns the memories. Default: the setting `user`.")
    ] = None
    app: Annotated[str | None, Parameter(help="Name of the app. Default: the setting `app`.")] = (
        None
    )
    shared: Annotated[
        bool,
        Parameter(
            help="Use the memories that all users of the app share, instead of one user's memories."
        ),
    ] = False
    place: Place = HERE

    @asynccontextmanager
    async def open(
        self, *, create: bool = False, embeds: bool = False
    ) -> AsyncIterator[tuple[MemoryApi, dict[str, Any]]]:
        """The interface, and the parameters of its calls that name the owner.

        `UsageError` if no user is named, or a user of shared memories.
        """
        owner = {"user": self._owner(), "shared": self.shared}
        async with self.place.open(create=create, app=self.app, embeds=embeds) as ekiden:
            yield ekiden.memory, owner

    def _owner(self) -> str | None:
        from ekiden.cli.projects import user_here

        if self.shared and self.user is not None:
            raise UsageError("--user and --shared exclude each other: give one")
        if self.shared:
            return None
        name = user_here(self.user)
        if not name:
            raise UsageError(
                "name the user with --user, EKIDEN_USER or the setting `user`, or use the memories "
                "of the whole app with --shared"
            )
        return name


SPACE = MemorySpace()


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class KeyListing(Listing):
    """The options of a list whose cursors are keys."""

    cursor: Annotated[
        str | None,
        Parameter(
            name=("--cursor", "--after"),
            help="Continue after the memory with this key: the last key of the previous page.",
        ),
    ] = None


BY_KEY = KeyListing()
KeyArgument = Annotated[str, Parameter(help="Key of the memory, or a unique prefix of it.")]


async def memory_list(*, space: MemorySpace = SPACE, listing: KeyListing = BY_KEY) -> None:
    """List memories, sorted by key."""
    from ekiden.cli.views.state import memory_table

    async with space.open() as (memory, owner):
        found = memory.list(**owner)
        await listing.show(found, memory_table, none="there are no memories")


async def memory_show(
    key: KeyArgument, /, *, space: MemorySpace = SPACE, as_json: JsonOption = False
) -> None:
    """Show one memory."""
    from ekiden.cli.views.state import memory_pairs

    async with space.open() as (memory, owner):
        found = await memory.get(key, **owner)
    show(found, lambda each: print_pairs(memory_pairs(each)), as_json=as_json)


async def memory_search(
    query: Annotated[str, Parameter(help="Text to search for.")],
    /,
    *,
    space: MemorySpace = SPACE,
    meaning: Annotated[
        bool,
        Parameter(
            help="Also search by meaning, with the model in the setting `memory.embedding_model`."
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
            help="Only memories with at least this similarity, from 0 to 1. Default: the setting "
            "`memory.similarity_threshold`.",
        ),
    ] = None,
    wide: WideOption = False,
    json_lines: JsonLinesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Search memories, best match first.

    Agents use the same search in their tool `recall`.
    """
    from ekiden.cli.views.state import found_table
    from ekiden.core.documents import to_json

    async with space.open(embeds=meaning) as (memory, owner):
        answer = await memory.search(
            query, **owner, meaning=meaning, limit=limit, threshold=threshold
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
    space: MemorySpace = SPACE,
    as_json: JsonOption = False,
) -> None:
    """Store a memory. A memory with the same key is replaced."""
    facts = json_object(metadata, "--metadata", example='{"tags": ["diet"]}')
    async with space.open(create=True) as (memory, owner):
        stored = await memory.store(content, key=key, metadata=facts, **owner)
    show(stored, f"remembered under {stored.key}", as_json=as_json)


async def memory_forget(
    key: KeyArgument,
    /,
    *,
    space: MemorySpace = SPACE,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Delete one memory."""
    async with space.open() as (memory, owner):
        await memory.get(key, **owner)
        confirm(f"forget {key}", yes=yes)
        await memory.forget(key, **owner)
    if as_json:
        emit({"key": key, "forgotten": True})
    else:
        say(f"{key} is forgotten")


async def memory_export(
    *,
    output: OutputOption = None,
    space: MemorySpace = SPACE,
    as_json: JsonOption = False,
) -> None:
    """Write all memories as JSON lines. The output is the same with and without --json."""
    from ekiden.core.documents import to_json

    count = 0
    async with space.open() as (memory, owner), memory.export(**owner) as memories:
        if output is None:
            async for each in memories:
                emit(to_json(each))
            return
        with new_file(output) as file:
            async for each in memories:
                file.write(dumps(to_json(each)) + "\n")
                count += 1
    note(f"wrote {count} memories to {output}")


async def memory_clear(
    *, space: MemorySpace = SPACE, yes: YesOption = False, as_json: JsonOption = False
) -> None:
    """Delete all memories of a user, or of the whole app."""
    async with space.open() as (memory, owner):
        if not yes:
            count = len([each async for each in memory.list(**owner)])
            confirm(f"forget {count} memories", yes=False)
        done = await memory.clear(**owner)
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
