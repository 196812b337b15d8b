"""`ekiden config …`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from ekiden.cli.options import JsonOption
from ekiden.cli.output import emit, note, say
from ekiden.core.jsonio import dumps

if TYPE_CHECKING:
    from ekiden.app.settings import Change, Origin, Where

KeyArgument = Annotated[
    str, Parameter(help="The setting, such as agents.routing.strategy; `config list` has all.")
]
UserOption = Annotated[
    bool,
    Parameter(
        name="--user",
        negative="",
        show_default=False,
        help="In ~/.ekiden/settings.json instead of the project's file.",
    ),
]


def config_list(*, as_json: JsonOption = False) -> None:
    """List every setting with its value and where that comes from; secrets are hidden."""
    from ekiden.app.records.settings import setting_record
    from ekiden.app.settings import load_settings, redacted
    from ekiden.cli.tables import print_table

    entries = list(load_settings().entries())
    if as_json:
        emit([setting_record(each) for each in entries])
    else:
        rows = [
            (each.name, shown(redacted(each.name, each.value)), str(each.origin))
            for each in entries
        ]
        print_table(("key", "value", "origin"), rows)


def config_get(key: KeyArgument, /, *, as_json: JsonOption = False) -> None:
    """Print the value of a setting, or of a group of them as an object; nothing is hidden."""
    from ekiden.app.settings import load_settings

    value = load_settings().value(key)
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
            help="Text, a number, true, false or null; JSON for a list or an object.",
        ),
    ],
    /,
    *,
    user: UserOption = False,
    as_json: JsonOption = False,
) -> None:
    """Give a setting a value; the rest of the file stays as it is."""
    from ekiden.app.settings import default_agent_check, redacted, set_setting, settings_files

    where: Where = "user" if user else "project"
    check = default_agent_check(key, where=where)
    change = set_setting(key, value, where=where, check=check)
    covered = redacted(change.name, change.value)
    origin, fault = _who_decides(change.name)
    if as_json:
        from ekiden.app.records.settings import origin_record

        record = None if origin is None else origin_record(origin)
        emit({"key": change.name, "value": covered, **_result(change), "origin": record})
        return
    say(f"{change.name} is {shown(covered)} in {change.path}")
    if origin is None:
        note(f"other settings are wrong, and nothing runs with them: {fault}")
    elif origin.kind not in (where, "default") and not settings_files().are_one:
        note(f"it does not count here: {origin} comes first")


def config_unset(
    key: KeyArgument, /, *, user: UserOption = False, as_json: JsonOption = False
) -> None:
    """Remove a setting, or a group of them, from a file; the rest of the file stays as it is."""
    from ekiden.app.settings import unset_setting

    change = unset_setting(key, where="user" if user else "project")
    if as_json:
        emit({"key": change.name, **_result(change)})
    elif change.is_changed:
        say(f"{change.name} is removed from {change.path}")
    else:
        say(f"{change.name} is not set in {change.path}")


def config_path(*, as_json: JsonOption = False) -> None:
    """Print where the settings files are, and whether they are there."""
    from ekiden.app.settings import settings_files
    from ekiden.cli.tables import print_table

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


def _who_decides(name: str) -> tuple[Origin, None] | tuple[None, str]:
    """Where the value that counts comes from, or why nobody can say."""
    from ekiden.app.settings import load_settings
    from ekiden.core.errors import SettingsInvalid

    try:
        return load_settings().origin(name), None
    except SettingsInvalid as exc:
        return None, str(exc)


def shown(value: Any) -> str:
    """A value as it is printed."""
    return value if isinstance(value, str) else dumps(value)


def _result(change: Change) -> dict[str, Any]:
    return {"path": str(change.path.absolute()), "changed": change.is_changed}
