"""Looking into a store, and meddling with it, behind its back."""

from __future__ import annotations

import asyncio
from typing import Any

import asyncpg

from ekiden.storage.postgres.address import parse_address


async def connect(url: str) -> Any:
    """A connection to the schema that the store at `url` has."""
    address = parse_address(url)
    return await asyncpg.connect(address.dsn, server_settings={"search_path": address.schema})


async def execute(url: str, sql: str, *args: Any) -> list[Any]:
    """The rows of one statement."""
    connection = await connect(url)
    try:
        rows: list[Any] = await connection.fetch(sql, *args)
        return rows
    finally:
        await connection.close()


async def terminate(url: str) -> int:
    """End all connections of the stores at `url`, and tell how many there were."""
    name = f"ekiden:{parse_address(url).schema}"
    pids = (
        "select pid from pg_stat_activity where application_name = $1 and pid <> pg_backend_pid()"
    )
    ended = await execute(url, f"select pg_terminate_backend(pid, 10000) from ({pids}) as p", name)
    return len(ended)


async def until_blocked(url: str) -> int:
    """Wait until a connection of the stores at `url` waits for a lock; the process that has it."""
    name = f"ekiden:{parse_address(url).schema}"
    connection = await connect(url)
    try:
        async with asyncio.timeout(60):
            while True:
                pid: int | None = await connection.fetchval(
                    "select pid from pg_stat_activity "
                    "where application_name = $1 and wait_event_type = 'Lock'",
                    name,
                )
                if pid is not None:
                    return pid
    finally:
        await connection.close()


async def until_waited_for(pid: int, url: str) -> None:
    """Wait until a process waits for that process of the server at `url`."""
    connection = await connect(url)
    sql = "select count(*) from pg_stat_activity where $1 = any(pg_blocking_pids(pid))"
    try:
        async with asyncio.timeout(60):
            while not await connection.fetchval(sql, pid):
                pass
    finally:
        await connection.close()
