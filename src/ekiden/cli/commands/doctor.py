"""`ekiden doctor`."""

from __future__ import annotations

from dataclasses import asdict

from ekiden.cli.exits import Exit
from ekiden.cli.options import STORE, JsonOption, StoreOption
from ekiden.cli.output import emit, say
from ekiden.cli.tables import print_table


async def doctor(*, store: StoreOption = STORE, as_json: JsonOption = False) -> int:
    """Check this installation and the store; a store of an older format is migrated.

    It checks settings, Python, the database engine, the store's format and integrity, the disk's
    fsync, the extras and local models, and prints how to install what is missing.
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
