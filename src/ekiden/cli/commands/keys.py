"""`ekiden keys …`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from ekiden.cli.errors import UsageError
from ekiden.cli.options import STORE, JsonOption, StoreOption
from ekiden.cli.output import emit, note, say
from ekiden.cli.tables import clock_time, print_table

if TYPE_CHECKING:
    from ekiden.app.keys import Keys


async def keys_create(
    name: Annotated[str, Parameter(help="Who has it, or what for.")],
    /,
    *,
    scope: Annotated[
        tuple[Literal["read", "run", "answer", "admin"], ...],
        Parameter(
            name="--scope",
            negative="",
            show_default=False,
            help="What it may do; may be given more than once.",
        ),
    ] = (),
    tenant: Annotated[
        str, Parameter(name="--tenant", help="Whose sessions it sees; each tenant has a store.")
    ] = "default",
    expires: Annotated[
        str | None,
        Parameter(name="--expires", help="How long it is good: 12h, 30d; else until revoked."),
    ] = None,
    store: StoreOption = STORE,
    as_json: JsonOption = False,
) -> None:
    """Make a key for callers of the server; it is shown once, and stored nowhere.

    `read` looks at everything, `run` starts runs and changes sessions, `answer`
    decides what people are asked, `admin` may do everything. With the first
    key every caller needs one.
    """
    from ekiden.cli.moments import ahead

    if not scope:
        raise UsageError("say what the key may do: --scope read, run, answer or admin")
    expires_s = None if expires is None else ahead(expires, what="--expires")
    async with _opened(store, create=True) as keys:
        made = await keys.create(name, scopes=scope, tenant=tenant, expires_s=expires_s)
        record = await keys.record(made.key)
    if as_json:
        emit({**record, "key": made.text})
        return
    say(made.text)
    note("keep it: it is not shown again, and `ekiden keys revoke` makes it useless")


async def keys_list(
    *,
    tenant: Annotated[
        str | None, Parameter(name="--tenant", help="Only those of this tenant.")
    ] = None,
    store: StoreOption = STORE,
    as_json: JsonOption = False,
) -> None:
    """List the keys, the oldest first, without their secrets."""
    async with _opened(store) as keys:
        records = [await keys.record(key) for key in await keys.list(tenant=tenant)]
    print_keys(records, as_json=as_json)


def print_keys(records: Sequence[Mapping[str, Any]], *, as_json: bool) -> None:
    """The keys, without their secrets."""
    if as_json:
        emit(records)
    elif not records:
        say("there are no keys")
    else:
        print_table(
            ("id", "name", "tenant", "scopes", "status", "expires", "last used"),
            [
                (
                    each["id"],
                    each["name"],
                    each["tenant"],
                    " ".join(each["scopes"]),
                    each["status"],
                    _time(each["expires_at"]),
                    _time(each["last_used_at"]),
                )
                for each in records
            ],
        )


async def keys_revoke(
    key: Annotated[str, Parameter(help="The key's id, as `ekiden keys list` shows it.")],
    /,
    *,
    store: StoreOption = STORE,
    as_json: JsonOption = False,
) -> None:
    """Make a key useless, for ever; servers know within about a second."""
    async with _opened(store) as keys:
        revoked = await keys.revoke(key)
        record = await keys.record(revoked)
    if as_json:
        emit(record)
    else:
        say(f"{revoked.id} ({revoked.name}) is revoked")


@asynccontextmanager
async def _opened(option: str | None, *, create: bool = False) -> AsyncIterator[Keys]:
    from ekiden.app import open_store
    from ekiden.app.keys import Keys
    from ekiden.cli.projects import store_address

    address = store_address(option)
    if address == "memory:":
        raise UsageError("a server cannot see keys in memory:; name a store that is kept")
    async with open_store(address, create=create) as store:
        yield Keys(store)


def _time(seconds: float | None) -> str:
    return "" if seconds is None else clock_time(seconds)
