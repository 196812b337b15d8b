"""`ekiden doctor`, `bench`, `simulate` and `config …`: an installation and its settings."""

from __future__ import annotations

from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from ekiden.cli.errors import Exit, UsageError
from ekiden.cli.options import WHOLE, JsonOption, StoreOption, WholeListing, about
from ekiden.cli.output import StatusLine, as_text, emit, note, print_table, say
from ekiden.cli.place import THIS_MACHINE, Machine

if TYPE_CHECKING:
    from ekiden.project.settings import SettingChange, SettingOrigin, Where


async def bench(
    *scenarios: Annotated[
        Literal["s1", "s2", "s3", "s4", "s5", "load"],
        about("Scenarios to run. Default: `s1` to `s5`."),
    ],
    quick: Annotated[bool, about("Do less work, only to check that the benchmark runs.")] = False,
    folder: Annotated[
        Path, about("Folder on the disk to measure. The command writes its data into this folder.")
    ] = Path(),
    store: Annotated[
        str | None,
        about(
            "For the scenario `load`: database URL, such as postgresql://…. The command "
            "creates a schema in the database and removes the schema at the end. Default: a SQLite "
            "file in --folder."
        ),
    ] = None,
    sessions: Annotated[
        int | None,
        about(
            "For the scenario `load`: number of open sessions. Default: 10,000.",
            gte=1,
            lte=10_000_000,
        ),
    ] = None,
    workers: Annotated[
        int, about("For the scenario `load`: number of worker processes.", gte=1, lte=256)
    ] = 4,
    concurrency: Annotated[
        int,
        about(
            "For the scenario `load`: number of concurrent sessions per worker.", gte=1, lte=100_000
        ),
    ] = 32,
    messages: Annotated[
        int | None,
        about(
            "For the scenario `load`: number of messages to send, one after another. Default: "
            "1,000.",
            gte=1,
        ),
    ] = None,
    seconds: Annotated[
        float | None,
        about(
            "For the scenario `load`: send messages for this many seconds. This option "
            "replaces --messages.",
            gt=0,
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Compare the speed of Ekiden with plain asyncio, and print the results as JSON.

    Scenario `s1` runs a chain of handoffs. Scenario `s2` runs many concurrent sessions in memory;
    `s4` does the same on disk. Scenario `s3` compares handoffs with a long and a short history. In
    `s5`, agents send queries over the bus, in memory and on disk. In the results, `x_floor` is the
    CPU time of an operation divided by the CPU time of one round trip through an asyncio queue.

    In the scenario `load`, worker processes share one database with many open sessions. The result
    is compared with the speed of the machine and of the database without Ekiden.
    """
    if "load" in scenarios:
        if len(scenarios) > 1:
            raise UsageError("load is measured alone, because it uses the whole machine")
        from ekiden.project.bench.load import LoadSize, load

        most = sessions or (50 if quick else 10_000)
        size = LoadSize(
            sessions=most,
            workers=workers,
            concurrency=concurrency,
            messages=messages or min(20 if quick else 1000, most),
            seconds=seconds,
        )
        emit(await load(size, store=store, folder=folder, note=note))
        return
    from ekiden.project.bench import SCENARIOS, Sizes, bench as measure

    sizes = Sizes.quick() if quick else Sizes()
    with StatusLine(as_json=as_json) as status:
        found = await measure(scenarios or tuple(SCENARIOS), sizes, folder, progress=status.show)
    emit(found)


async def doctor(*, store: StoreOption = None, as_json: JsonOption = False) -> int:
    """Check this installation and the store.

    The command checks settings, Python, the database engine, the store's format and integrity,
    fsync on the disk, extras and local models. The command prints how to install missing parts. If
    the store has an older format, the command migrates it.
    """
    from ekiden.cli.projects import store_address
    from ekiden.core.errors import UserError
    from ekiden.project.doctor import Check, examine
    from ekiden.project.stores import DEFAULT_STORE

    try:
        address = store_address(store)
        settings = Check(name="settings", status="ok", detail="`ekiden config list` shows them")
    except UserError as exc:
        address = DEFAULT_STORE
        settings = Check(name="settings", status="problem", detail=f"[{exc.code}] {exc}")
    checks = [settings, *await examine(address)]
    healthy = all(check.status != "problem" for check in checks)
    if as_json:
        emit({"ok": healthy, "checks": [asdict(check) for check in checks]})
    else:
        print_table(
            ("check", "status", "detail"),
            [(check.name, check.status, check.detail) for check in checks],
        )
        for check in checks:
            if check.not_checked:
                say(f"not checked ({check.name}): {check.not_checked}")
    return Exit.OK if healthy else Exit.STORE


def simulate(
    scene: Annotated[
        str,
        about(
            "Scene, Agent or Team to simulate, or a function that returns a Scene. Write it "
            "as file.py:name or module:name."
        ),
    ],
    *,
    say: Annotated[
        list[str] | None,
        about(
            "Message to send, if you simulate an Agent or a Team. You can repeat this option."
            " Each message starts its own conversation."
        ),
    ] = None,
    seeds: Annotated[
        str, about("Number of worlds to run, or a range of random seeds such as 1-1000.")
    ] = "100",
    seed: Annotated[
        int | None, about("Run only the world with this random seed, and print every step.")
    ] = None,
    processes: Annotated[
        int, about("Number of processes that run worlds at the same time.", gte=1, lte=256)
    ] = 1,
    as_json: JsonOption = False,
) -> int:
    """Test your team in simulations ("worlds") with injected faults, such as crashes and lost
    messages.

    If Ekiden breaks a guarantee in a world, the exit code is 1. The output then contains the
    command that replays that world.
    """
    first, dash, last = seeds.partition("-")
    if not all(part.isdecimal() for part in (first, last or "1")) or not int(last or first):
        raise UsageError(f"--seeds must be a number or a range such as 1-1000, not {seeds}")
    if last and int(first) > int(last):
        raise UsageError(f"--seeds {seeds} has no seeds: the first is above the last")
    which = ["--seed", str(seed)]
    if seed is None:
        which = ["--seeds", seeds if dash else f"1-{seeds}", "--processes", str(processes)]
    said = [f"--say={text}" for text in say or ()]
    # The test kit is built on the command line, and is found by name like every other plug-in.
    kit = import_module("ekiden.testing.simulate")
    code: int = kit.main([*said, *which, *(["--json"] if as_json else []), "--", scene])
    return code


KeyArgument = Annotated[
    str,
    about(
        "Name of the setting, such as agents.routing.strategy. `ekiden config "
        "list` lists all names."
    ),
]
UserOption = Annotated[
    bool, about("Change ~/.ekiden/settings.json instead of the project's file.", name="--user")
]


async def config_list(*, listing: WholeListing = WHOLE, place: Machine = THIS_MACHINE) -> None:
    """List every setting with its value and source. Secrets are masked."""
    from ekiden.cli.views.administration import setting_table

    async with place.open() as settings:
        await listing.show(settings.list(), setting_table, none="no settings")


async def config_get(
    key: KeyArgument, /, *, place: Machine = THIS_MACHINE, as_json: JsonOption = False
) -> None:
    """Print the value of a setting, or of a group of settings as an object.

    Secrets are printed too, except with --server.
    """
    from ekiden.project.settings import lookup_value

    async with place.open(shows_secrets=True) as settings:
        found = {each.key: each.value async for each in settings.list()}
    value = lookup_value(found, key)
    if as_json:
        emit(value)
    else:
        say(as_text(value))


def config_set(
    key: KeyArgument,
    value: Annotated[
        str,
        about(
            "New value: text, a number, true, false or null. Write a list or an object as JSON.",
            allow_leading_hyphen=True,
        ),
    ],
    /,
    *,
    user: UserOption = False,
    as_json: JsonOption = False,
) -> None:
    """Set the value of a setting. The rest of the settings file stays unchanged."""
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
    say(f"{change.name} is {as_text(covered)} in {change.path}")
    if origin is None:
        note(f"other settings are invalid and stop every run: {fault}")
    elif origin.kind not in (where, "default") and not settings_files().are_one:
        note(f"it has no effect here: {origin} takes precedence")


def config_unset(
    key: KeyArgument, /, *, user: UserOption = False, as_json: JsonOption = False
) -> None:
    """Remove a setting or a group of settings. The rest of the settings file stays
    unchanged."""
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
