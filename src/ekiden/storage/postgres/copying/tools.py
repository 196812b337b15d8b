"""PostgreSQL's own programs, `pg_dump` and `pg_restore`."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from ekiden.core.errors import StoreUnavailable
from ekiden.core.errors.stored_data import ToolMissing

ToolName = Literal["pg_dump", "pg_restore"]

_ENDING_S: Final = 10.0
_VERSION: Final = re.compile(r"\(PostgreSQL\) (\d+)")
_OPTIONS: Final = frozenset(
    {
        "host", "port", "user", "dbname", "passfile", "service", "sslmode", "sslcert", "sslkey",
        "sslrootcert", "sslcrl", "krbsrvname", "gssencmode", "channel_binding",
        "target_session_attrs", "connect_timeout",
    }
)  # fmt: skip
"""The options of a URL that these programs accept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """The address of the database for PostgreSQL's programs."""

    url: str
    """The URL for the command line, without a password."""
    environment: Mapping[str, str] = field(repr=False)
    """Environment variables with the password, which no message may repeat."""


def login_of(dsn: str) -> Login:
    """The login of a driver's URL."""
    parts = urlsplit(dsn)
    login, _, hosts = parts.netloc.rpartition("@")
    user, _, password = login.partition(":")
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    secret = options.get("password") or unquote(password)
    # The driver accepts `database` for `dbname`, and any setting of the server as an option.
    renamed = {"dbname" if name == "database" else name: text for name, text in options.items()}
    kept = {name: text for name, text in renamed.items() if name in _OPTIONS}
    query = urlencode(kept, quote_via=quote, safe="/")
    place = f"{user}@{hosts}" if user else hosts
    url = f"postgresql://{place}{parts.path}" + (f"?{query}" if query else "")
    return Login(url=url, environment={"PGPASSWORD": secret} if secret else {})


def dump_arguments(login: Login, schemas: Sequence[str], file: Path) -> list[str]:
    """The arguments of `pg_dump`."""
    return [
        "--format=custom",
        "--no-owner",
        "--no-privileges",
        *(f'--schema="{schema}"' for schema in schemas),
        f"--file={file}",
        f"--dbname={login.url}",
    ]


def restore_arguments(login: Login, file: Path) -> list[str]:
    """The arguments of `pg_restore`."""
    return [
        "--single-transaction",
        "--exit-on-error",
        "--no-owner",
        "--no-privileges",
        f"--dbname={login.url}",
        str(file.absolute()),
    ]


async def find_tool(name: ToolName, *, needed: int, by_hand: Sequence[str]) -> str:
    """The path of a program of version `needed` or newer. Otherwise raises `ToolMissing`, which
    shows the command with the arguments `by_hand`."""
    path = shutil.which(name)
    command = shlex.join([name, *by_hand])
    if path is None:
        raise ToolMissing(name, "it is not in PATH", needed=needed, command=command)
    found = _VERSION.search(await run_tool([path, "--version"]))
    if found is None or int(found[1]) < needed:
        version = "an unknown version" if found is None else f"version {found[1]}"
        problem = f"{path} has {version}, and the server {needed}"
        raise ToolMissing(name, problem, needed=needed, command=command)
    return path


async def run_tool(command: Sequence[str], login: Login | None = None) -> str:
    """The output of a program; `StoreUnavailable` with its first error if it fails. A cancellation
    ends the program."""
    environment = {**os.environ, **(login.environment if login else {}), "LC_ALL": "C"}
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=environment,
        )
    except OSError as exc:
        raise StoreUnavailable(f"cannot run {command[0]}: {exc.strerror or exc}") from exc
    try:
        out, err = await process.communicate()
    except asyncio.CancelledError:
        process.terminate()
        with suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), _ENDING_S)
        if process.returncode is None:
            process.kill()
        raise
    if process.returncode:
        raise StoreUnavailable(_failure(command, process.returncode, err, login))
    return out.decode("utf-8", "replace")


def _failure(command: Sequence[str], code: int, err: bytes, login: Login | None) -> str:
    """The first error; the following lines may repeat contents of rows."""
    name = Path(command[0]).name
    lines = err.decode("utf-8", "replace").splitlines()
    first = next((line for line in lines if "error:" in line), lines[0] if lines else "")
    reason = first.removeprefix(f"{name}: ").removeprefix("error: ") or f"exit code {code}"
    for secret in login.environment.values() if login else ():
        reason = reason.replace(secret, "…")
    return f"{name} failed: {reason}"
