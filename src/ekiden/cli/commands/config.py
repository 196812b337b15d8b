"""`ekiden config …`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from ekiden.cli.options import WHOLE, JsonOption, WholeListing
from ekiden.cli.place import THIS_MACHINE, Machine
from ekiden.cli.terminal.output import emit, note, say

if TYPE_CHECKING:
    from ekiden.project.settings import SettingChange, SettingOrigin, Where

KeyArgument = Annotated[
    str,
    Parameter(
        help="Name of the setting, such as agents.routing.strategy. `ekiden config "
        "list` lists all names."
    ),
]
UserOption = Annotated[
    bool,
    Parameter(name="--user", help="Change ~/.ekiden/settings.json instead of the project's file."),
]


async def config_list(*, listing: WholeListing = WHOLE, place: Machine = THIS_MACHINE) -> None:
    """List every setting with its value and source; secrets are masked."""
    from ekiden.cli.views.administration import setting_table

    async with place.open() as settings:
        await listing.show(settings.list(), setting_table, none="no settings")


async def config_get(
    key: KeyArgument, /, *, place: Machine = THIS_MACHINE, as_json: JsonOption = False
) -> None:
    """Print the value of a setting, or of a group of settings as an object.

    Secrets are printed too, except with --server.
    """
    from ekiden.cli.views.administration import shown
    from ekiden.project.settings import lookup_value

    async with place.open(shows_secrets=True) as settings:
        found = {each.key: each.value async for each in settings.list()}
    value = lookup_value(found, key)
    if as_json:
        emit(value)
    else:
        say(shown(value))


def config_set(
    key: KeyArgument,
    value: Annotated[
        str,
        Parameter(
            allow_leading_hyphen=True,
            help="New value: text, a number, true, false or null. Write a list or an object as "
            "JSON.",
        ),
    ],
    /,
    *,
    user: UserOption = False,
    as_json: JsonOption = False,
) -> None:
    """Set the value of a setting. The rest of the file stays unchanged."""
    from ekiden.cli.views.administration import shown
    from ekiden.project.settings import agent_names_check, redacted, set_setting, settings_files
    from ekiden.project.trust import keeping_trust

    where: Where = "user" if user else "project"
    check = agent_names_check(key, where=where)
    with keeping_trust():
        change = set_setting(key, value, where=where, check=check)
    covered = redacted(change.name, change.value)
    origin, fault = _who_decides(change.name)
    if as_json:
        from ekiden.core.documents import to_json

        record = to_json(origin)
        emit({"key": change.name, "value": covered, **_result(change), "origin": record})
        return
    say(f"{change.name} is {shown(covered)} in {change.path}")
    if origin is None:
        note(f"other settings are invalid and stop every run: {fault}")
    elif origin.kind not in (where, "default") and not settings_files().are_one:
        note(f"it has no effect here: {origin} takes precedence")


def config_unset(
    key: KeyArgument, /, *, user: UserOption = False, as_json: JsonOption = False
) -> None:
    """Remove a setting or a group of settings. The rest of the file stays unchanged."""
    from ekiden.project.settings import unset_setting
    from ekiden.project.trust import keeping_trust

    with keeping_trust():
        change = unset_setting(key, where="user" if user else "project")
    if as_json:
        emit({"key": change.name, **_result(change)})
    elif change.is_changed:
        say(f"removed {change.name} from {change.path}")
    else:
        say(f"{change.name} is not set in {change.path}")


def config_path(*, as_json: JsonOption = False) -> None:
    """Print the paths of the settings files, and whether they exist."""
    from ekiden.cli.terminal.tables import print_table
    from ekiden.project.settings import settings_files

    files = settings_files()
    found = {
        name: path.absolute()
        for name, path in (("project", files.project), ("user", files.user))
        if path is not None
    }
    if as_json:
        emit({name: {"path": str(path), "exists": path.exists()} for name, path in found.items()})
        return
    rows = [
        (name, str(path), "exists" if path.exists() else "does not exist")
        for name, path in found.items()
    ]
    print_table(("file", "path", "state"), rows)


def config_schema(*, as_json: JsonOption = False) -> None:
    """Print the JSON Schema of settings files. The output is the same with and without --json.

    Editors use the schema to complete and check settings files. Save the schema, and refer to it in
    the settings file: {"$schema": "./settings.schema.json", …}.
    """
    from ekiden.project.settings import settings_schema

    emit(settings_schema())


def _who_decides(name: str) -> tuple[SettingOrigin, None] | tuple[None, str]:
    """The source of the effective value, or why it is unknown."""
    from ekiden.core.errors import SettingsInvalid
    from ekiden.project.settings import load_settings

    try:
        return load_settings().origin(name), None
    except SettingsInvalid as exc:
        return None, str(exc)


def _result(change: SettingChange) -> dict[str, Any]:
    return {"path": str(change.path.absolute()), "changed": change.is_changed}
