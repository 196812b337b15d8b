"""`ekiden state …` and `memory …`: variables and memories."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from cyclopts import Parameter

from ekiden.cli.errors import Exit, UsageError
from ekiden.cli.ids import session_id
from ekiden.cli.options import (
    ByOption,
    JsonLinesOption,
    JsonOption,
    Listing,
    NoWaitOption,
    OutputOption,
    WideOption,
    YesOption,
    about,
    json_object,
)
from ekiden.cli.output import emit, new_file, note, print_pairs, print_table, say, show
from ekiden.cli.place import HERE, Place
from ekiden.cli.projects import parse_variables, user_here
from ekiden.cli.prompts import confirm
from ekiden.core.values import dumps

if TYPE_CHECKING:
    from ekiden.api.memory import MemoryApi
    from ekiden.sessions.state import SharedScope

UserOption: TypeAlias = Annotated[
    str | None, about("Use the variables of this user instead of a session's variables.")
]
AppOption: TypeAlias = Annotated[
    str | None, about("Use the variables of this app instead of a session's variables.")
]


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeOptions:
    """The options of commands that change variables."""

    user: UserOption = None
    app: AppOption = None
    expect: Annotated[
        int | None,
        about(
            "Version that the variables had when you read them. If they have changed since "
            "then, nothing is written.",
            gte=0,
        ),
    ] = None
    by: ByOption = None
    no_wait: NoWaitOption = False
    place: Place = HERE
    as_json: JsonOption = False

    def split(self, words: Sequence[str]) -> tuple[str | None, Sequence[str]]:
        """The session, if there is one, and the changes; `UsageError`."""
        session, given = None, words
        if self.user is None and self.app is None:
            session, given = (words[0] if words else None), words[1:]
        if len(set(given)) < len(given):
            raise UsageError("a variable is named twice")
        if not given:
            raise UsageError(
                "name the variables and their owner: a session, --user NAME or --app NAME"
            )
        _owner(session, self.user, self.app)
        return session, given

    async def make(
        self, session: str | None, changes: Mapping[str, Any], delete: Sequence[str] = ()
    ) -> None:
        """Change the variables of the session, the user or the app, and print the versions."""
        from ekiden.cli.views.sessions import versions_text
        from ekiden.core.documents import to_json

        names = [*changes, *delete]
        person = self.place.person(self.by)
        owner = _owner(session, self.user, self.app)
        if owner is not None and self.expect is not None and len(names) != 1:
            raise UsageError("--expect with --user or --app works for one variable: name only one")
        if owner is None:
            assert session is not None
            async with self.place.open() as ekiden:
                session = await session_id(ekiden.sessions, session)
                done = await ekiden.state.update_session(
                    session,
                    changes,
                    delete=delete,
                    by=person,
                    on_busy="refuse" if self.no_wait else "wait",
                    expected_version=self.expect,
                )
            record, text = to_json(done), f"{session} has version {done.version}"
        else:
            scope, name = owner
            expected = {} if self.expect is None else {names[0]: self.expect}
            async with self.place.open(app=_other_app(self.place, self.app)) as ekiden:
                update = ekiden.state.update_user if scope == "user" else ekiden.state.update_app
                changed = await update(name, changes, delete=delete, by=person, expected=expected)
            record, text = to_json(changed), versions_text(changed.versions)
        show(record, text, as_json=self.as_json)


CHANGE = ChangeOptions()


async def state_show(
    session: Annotated[
        str | None, about("Session id. With --user or --app, leave out the id.")
    ] = None,
    /,
    *,
    at: Annotated[
        int | None,
        about(
            "Show the state after the event with this number. Default: the current state.", gte=1
        ),
    ] = None,
    user: UserOption = None,
    app: AppOption = None,
    place: Place = HERE,
    as_json: JsonOption = False,
) -> None:
    """Show the current or an earlier state of a session, or the variables of a user or an app."""
    from ekiden.cli.views.sessions import HEADERS, print_state, shared_rows
    from ekiden.core.documents import to_json

    owner = _owner(session, user, app)
    if owner is None:
        assert session is not None
        async with place.open() as ekiden:
            state = await ekiden.state.session(await session_id(ekiden.sessions, session), at=at)
        show(state, print_state, as_json=as_json)
        return
    if at is not None:
        raise UsageError("--at is for sessions: users and apps have no history")
    scope, name = owner
    async with place.open(app=_other_app(place, app)) as ekiden:
        resource = ekiden.state
        found = await (resource.user(name) if scope == "user" else resource.app(name))
    if as_json:
        emit(to_json(found))
    elif found.variables:
        print_table(HEADERS, shared_rows(found.variables))
    else:
        say(f"the {scope} {name} has no variables")


async def state_set(
    *words: Annotated[
        str,
        about(
            "Session id, then one or more NAME=VALUE. With --user or --app, leave out "
            "the id. A value that is not JSON is stored as text.",
            allow_leading_hyphen=True,
        ),
    ],
    change: ChangeOptions = CHANGE,
) -> None:
    """Set variables of a session, a user or an app."""
    session, given = change.split(words)
    await change.make(session, parse_variables(given))


async def state_delete(
    *words: Annotated[
        str,
        about("Session id, then the names of variables. With --user or --app, leave out the id."),
    ],
    change: ChangeOptions = CHANGE,
    yes: YesOption = False,
) -> None:
    """Delete variables of a session, a user or an app."""
    session, given = change.split(words)
    confirm(f"delete {', '.join(given)} of {session or change.user or change.app}", yes=yes)
    await change.make(session, {}, given)


def _other_app(place: Place, app: str | None) -> str | None:
    """The app to open locally; a server has one app, and itself refuses another."""
    return None if place.is_server else app


def _owner(
    session: str | None, user: str | None, app: str | None
) -> tuple[SharedScope, str] | None:
    """The scope and the name of the variables' owner; `None`: the session. `UsageError`."""
    if sum(each is not None for each in (session, user, app)) != 1:
        raise UsageError("name the owner: a session, --user NAME or --app NAME")
    if user is not None:
        return "user", user
    return None if app is None else ("app", app)


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySpace:
    """The options that choose whose memories a command uses."""

    user: Annotated[
        str | None, about("User who owns the memories. Default: the setting `user`.")
    ] = None
    app: Annotated[str | None, about("Name of the app. Default: the setting `app`.")] = None
    shared: Annotated[
        bool,
        about("Use the memories that all users of the app share, instead of one user's memories."),
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
        about(
            "Continue after the memory with this key. Give the last key of the previous page.",
            name=("--cursor", "--after"),
        ),
    ] = None


BY_KEY = KeyListing()
KeyArgument = Annotated[str, about("Key of the memory, or a unique prefix of it.")]


async def memory_list(*, space: MemorySpace = SPACE, listing: KeyListing = BY_KEY) -> None:
    """List memories, sorted by key."""
    from ekiden.cli.views.sessions import memory_table

    async with space.open() as (memory, owner):
        found = memory.list(**owner)
        await listing.show(found, memory_table, none="there are no memories")


async def memory_show(
    key: KeyArgument, /, *, space: MemorySpace = SPACE, as_json: JsonOption = False
) -> None:
    """Show one memory."""
    from ekiden.cli.views.sessions import memory_pairs

    async with space.open() as (memory, owner):
        found = await memory.get(key, **owner)
    show(found, lambda each: print_pairs(memory_pairs(each)), as_json=as_json)


async def memory_search(
    query: Annotated[str, about("Text to search for.")],
    /,
    *,
    space: MemorySpace = SPACE,
    meaning: Annotated[
        bool,
        about("Also search by meaning, with the model in the setting `memory.embedding_model`."),
    ] = False,
    limit: Annotated[
        int | None,
        about("Maximum number of entries. Default: the setting `memory.top_k`.", gte=1, lte=100),
    ] = None,
    threshold: Annotated[
        float | None,
        about(
            "Only memories with at least this similarity, from 0 to 1. Default: the setting "
            "`memory.similarity_threshold`.",
            gte=0,
            lte=1,
        ),
    ] = None,
    wide: WideOption = False,
    json_lines: JsonLinesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Search memories, best match first.

    Agents use the same search in their tool `recall`.
    """
    from ekiden.cli.views.sessions import found_table
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
    content: Annotated[str, about("Text to remember.")],
    /,
    *,
    key: Annotated[
        str | None, about("Key of the memory. Default: a key made from the content.")
    ] = None,
    metadata: Annotated[str | None, about("Metadata of the memory, as a JSON object.")] = None,
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
    show({"key": key, "forgotten": True}, f"{key} is forgotten", as_json=as_json)


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
    from ekiden.cli.views.sessions import print_deliveries
    from ekiden.memory import close_backends

    async with place.open(embeds=True) as ekiden:
        try:
            done = (await ekiden.memory.sync()).items
        finally:
            await close_backends()
    show(done, print_deliveries, as_json=as_json)
    return Exit.FAILED if any(each.waiting for each in done) else Exit.OK
