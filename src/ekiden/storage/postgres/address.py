"""Addresses of PostgreSQL stores, with and without the password."""

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
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlencode, urlsplit

from ekiden.core.errors import StoreUnavailable, UserError
from ekiden.core.errors.stored_data import ToolMissing

DEFAULT_SCHEMA = "ekiden"

_SCHEMES = ("postgresql", "postgres")
_HOST = r"(?:[\w.%-]*|\[[0-9A-Fa-f:.%]+\])(?::\d+)?"
_HOSTS = re.compile(f"{_HOST}(?:,{_HOST})*")
_SCHEMA = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,47}")
_SHOWN = frozenset({"host", "port", "user", "dbname", "database", "sslmode", "schema"})


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresAddress:
    """One schema of one database."""

    dsn: str = field(repr=False)
    """The URL for the driver, which may contain a password."""
    schema: str
    shown: str
    """The URL for messages, without a password."""


def parse_address(url: str, schema: str | None = None) -> PostgresAddress:
    """The address that `url` names, e.g. ``postgresql://me@host:5432/db?schema=ekiden``.

    The argument `schema` overrides that of the URL; the default is ``ekiden``. Raises `UserError`
    for other text; the message never repeats the part that may be a password.
    """
    parts = _split(url)
    login, _, hosts = parts.netloc.rpartition("@")
    # A password with an unescaped / ? # ends the host part too early.
    is_cut = "@" in parts.path + parts.query or bool(parts.fragment)
    if is_cut or not _HOSTS.fullmatch(hosts):
        raise _unreadable()
    options = parse_qsl(parts.query, keep_blank_values=True)
    chosen = schema or dict(options).get("schema") or DEFAULT_SCHEMA
    if not _SCHEMA.fullmatch(chosen):
        raise UserError(
            f"{chosen[:80]!r} cannot name a schema: use up to 48 letters, digits and _, "
            "not a digit first"
        )
    kept = [(name, value) for name, value in options if name != "schema"]
    shown = [(name, value) for name, value in kept if name in _SHOWN]
    if chosen != DEFAULT_SCHEMA:
        shown.append(("schema", chosen))
    user = login.partition(":")[0]
    place = f"{user}@{hosts}" if user else hosts
    return PostgresAddress(
        dsn=_join(parts.netloc, parts.path, kept),
        schema=chosen,
        shown=_join(place, parts.path, shown),
    )


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
    except ValueError:
        # The text of the ValueError repeats the URL.
        raise _unreadable() from None
    if parts.scheme not in _SCHEMES:
        raise UserError("the URL of a PostgreSQL store begins with postgresql://")
    return parts


def _join(place: str, path: str, options: list[tuple[str, str]]) -> str:
    query = urlencode(options, quote_via=quote, safe="/")
    return f"postgresql://{place}{path}" + (f"?{query}" if query else "")


def _unreadable() -> UserError:
    return UserError(
        "the URL of the PostgreSQL store cannot be read: it is postgresql://user:password@"
        "host:port/database, and / ? # @ % in a name or password are written %2F %3F %23 %40 %25"
    )


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
