"""Whole stores with their tenants: their addresses, their verification, and the reports of copies
and backups."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from ekiden.audit import Verification, verify_audit
from ekiden.core.errors import StoreEmpty, StoreUnavailable, UserError
from ekiden.core.errors.stored_data import NotCopyable, SourceInUse, StoreNotEmpty, StoreUnfinished
from ekiden.core.values import is_tenant, loads
from ekiden.project.stores import (
    DEFAULT_STORE,
    DEFAULT_TENANT,
    JOINT,
    check_tenant,
    sqlite_path,
    tenant_url,
)
from ekiden.storage.copying import (
    JSON_COLUMNS,
    TABLES,
    Row,
    StoreSnapshot,
    TableName,
    TargetState,
    describe_rows,
)

if TYPE_CHECKING:
    from ekiden.storage.sqlite.copying import SqliteSnapshot


Phase: TypeAlias = Literal["copy", "compare", "audit"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyStep:
    """The progress of a copy, a backup or a verification."""

    tenant: str
    phase: Phase
    done: int
    """The number of finished rows, or of finished sessions in the phase `audit`."""
    total: int


Progress: TypeAlias = Callable[[CopyStep], object]
"""A function that is called with the progress."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedTenant:
    """The copied store of one tenant."""

    name: str
    counts: Mapping[str, int]
    """The number of rows by table."""
    digests: Mapping[str, str]
    """The digest of all rows, by table. It is equal in the source and in the target."""
    audit: Verification
    """The verification of the audit in the target. A broken record was already broken in the
    source."""
    leases: int
    """The number of sessions that were running in the source at the start of the copy. Their later
    work is not in the copy."""
    later: Mapping[str, int]
    """How many rows each table of the source has gained or lost since the start of the copy."""

    def to_json(self) -> dict[str, Any]:
        """The report as JSON."""
        return {
            "tenant": self.name,
            "counts": dict(self.counts),
            "digests": dict(self.digests),
            "audit": self.audit.to_json(),
            "leases": self.leases,
            "later": dict(self.later),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyReport:
    """The result of a complete copy."""

    source: str
    target: str
    tenants: Sequence[CopiedTenant]
    seconds: float

    @property
    def rows(self) -> int:
        """The number of copied rows of all tables and tenants."""
        return sum(sum(tenant.counts.values()) for tenant in self.tenants)

    @property
    def audit_ok(self) -> bool:
        """Whether the audit has no broken records. A record that is broken in the source is also
        broken in the copy."""
        return all(tenant.audit.ok for tenant in self.tenants)

    def to_json(self) -> dict[str, Any]:
        """The report as JSON."""
        return {
            "source": self.source,
            "target": self.target,
            "rows": self.rows,
            "seconds": round(self.seconds, 3),
            "audit_ok": self.audit_ok,
            "tenants": [tenant.to_json() for tenant in self.tenants],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreFindings:
    """The result of verifying the store of one tenant."""

    tenant: str
    url: str
    faults: Sequence[str]
    """Descriptions of damage, orphaned rows and unreadable rows."""
    audit: Verification
    """The verification of all sessions: event numbers, hashes, and the head of each chain."""
    checked: Sequence[str] = ()
    """A description of the other checked data, for people."""
    not_checked: Sequence[str] = ()

    @property
    def ok(self) -> bool:
        """Whether the verification found no errors."""
        return self.audit.ok and not self.faults

    def to_json(self) -> dict[str, Any]:
        """The report as JSON."""
        return {
            "tenant": self.tenant,
            "url": self.url,
            "ok": self.ok,
            "faults": list(self.faults),
            "checked": list(self.checked),
            "not_checked": list(self.not_checked),
            "audit": self.audit.to_json(),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupReport:
    """The result of a complete backup or restore."""

    source: str
    target: str
    tenants: Sequence[StoreFindings]
    """The results of verifying the file or the restored store of each tenant. The list is empty for
    a new dump, because a dump is verified when it is restored."""
    seconds: float

    @property
    def ok(self) -> bool:
        """Whether the verification found no errors. Errors in the source are also in the copy."""
        return all(found.ok for found in self.tenants)

    def to_json(self) -> dict[str, Any]:
        """The report as JSON."""
        return {
            "source": self.source,
            "target": self.target,
            "seconds": round(self.seconds, 3),
            "ok": self.ok,
            "tenants": [found.to_json() for found in self.tenants],
        }


_POSTGRES = ("postgresql", "postgres")


def snapshot_at(url: str, tenant: str = DEFAULT_TENANT) -> StoreSnapshot:
    """A snapshot of the tenant's store. Raises `UserError` for an invalid address."""
    if file_at(url) is None:
        from ekiden.storage.postgres.address import parse_address
        from ekiden.storage.postgres.snapshot import PostgresSnapshot

        return PostgresSnapshot(parse_address(tenant_url(url, tenant)))
    return sqlite_snapshot(url, tenant)


def sqlite_snapshot(url: str, tenant: str = DEFAULT_TENANT) -> SqliteSnapshot:
    """A snapshot of the tenant's SQLite store."""
    from ekiden.storage.sqlite.copying import SqliteSnapshot

    return SqliteSnapshot(tenant_file(url, tenant))


def tenant_file(url: str, tenant: str = DEFAULT_TENANT) -> Path:
    """The file of the tenant's SQLite store."""
    path = sqlite_path(tenant_url(url, tenant))
    assert path is not None
    return path.absolute()


async def target_state(url: str, tenant: str = DEFAULT_TENANT) -> TargetState:
    """Check the content at the address where the tenant's store will be written. Nothing is
    changed."""
    if file_at(url) is None:
        from ekiden.storage.postgres.address import parse_address
        from ekiden.storage.postgres.snapshot import PostgresSnapshot

        address = parse_address(tenant_url(url, tenant))
        async with PostgresSnapshot(address, may_be_absent=True) as schema:
            return await schema.state(JOINT)
    file = sqlite_snapshot(url, tenant)
    neighbours = await file.neighbours(JOINT)
    if not tenant_file(url, tenant).exists():
        return TargetState(neighbours=neighbours)
    async with file:
        return TargetState(
            holds=describe_rows(await file.facts(), file.missing), neighbours=neighbours
        )


async def check_source(source: StoreSnapshot, *, final: bool) -> Mapping[str, Any]:
    """The facts of a store that will be copied.

    Raises `NotCopyable` if tables are missing, `StoreUnfinished` for an incomplete copy, and
    `SourceInUse` if other processes would still write to the source of a `final` copy.
    """
    facts, url = await source.facts(), source.url
    if not facts["format"]:
        raise NotCopyable(url, "it has no tables")
    if source.missing:
        raise NotCopyable(url, f"{', '.join(source.missing[:5])} is missing")
    if facts["unfinished"] is not None:
        raise StoreUnfinished(url, source=facts["unfinished"])
    if final and facts["leases"]:
        raise SourceInUse(url, f"processes work on its sessions ({facts['leases']})")
    if final and facts["taken"]:
        raise SourceInUse(url, f"processes have taken messages of it ({facts['taken']})")
    return facts


async def refuse_other_tenants(
    url: str, neighbours: Collection[str], known: Collection[str]
) -> None:
    """Raise `StoreNotEmpty` if the target at `url` has the store of a tenant that the source does
    not have, because the copied API keys would give access to that store."""
    for name in neighbours:
        if is_tenant(name) and name not in known:
            state = await target_state(url, name)
            if state.holds or state.mark is not None:
                found = state.holds or "an unfinished copy"
                raise StoreNotEmpty(
                    shown(tenant_url(url, name)), f"{found}, and the source has no tenant {name}"
                )


async def tenants_at(url: str, wanted: Collection[str] | None) -> Sequence[str]:
    """Return the requested tenants, by default all tenants with a store at `url`. The default
    tenant comes first. Raises `UserError` for a tenant without a store."""
    async with snapshot_at(url) as main:
        neighbours = [name for name in await main.neighbours(JOINT) if is_tenant(name)]
    found = [DEFAULT_TENANT, *sorted({*neighbours} - {DEFAULT_TENANT})]
    if wanted is None:
        return found
    for name in wanted:
        if check_tenant(name) not in found:
            raise UserError(
                f"there is no store of a tenant {name!r} at {main.url}; there are "
                f"{', '.join(found)}"
            )
    if not wanted:
        raise UserError("name at least one tenant, or none for all of them")
    return [name for name in found if name in wanted]


def shown(url: str) -> str:
    """The address for messages, without a password."""
    if file_at(url) is None:
        from ekiden.storage.postgres.address import parse_address

        return parse_address(url).shown
    return str(tenant_file(url))


def file_at(url: str) -> Path | None:
    """The file of the store at `url`; `None` for PostgreSQL. Raises `UserError` for other
    addresses."""
    if url.partition("://")[0] in _POSTGRES:
        if find_spec("asyncpg") is None:
            raise UserError("PostgreSQL needs asyncpg: pip install 'ekiden[postgres]'")
        return None
    path = sqlite_path(url)
    if path is None:
        problem = (
            "a store in memory: ends with its process"
            if url == "memory:"
            else f"there is no store for {url.partition('://')[0]}://"
        )
        raise UserError(f"{problem}; give a path, sqlite:///path or postgresql://…")
    return path


async def store_info(
    url: str, *, tenants: Collection[str] | None = None
) -> Sequence[dict[str, Any]]:
    """Facts about the store of each tenant, such as its format and its counts. The function also
    works for an unfinished copy."""
    found = []
    for name in await tenants_at(url, tenants):
        async with snapshot_at(url, name) as source:
            facts = await source.facts(exact=False)
            _refuse_empty(source.url, facts)
            found.append({"tenant": name, "url": source.url, **facts})
    return found


async def verify_store(
    url: str, *, tenants: Collection[str] | None = None, progress: Progress | None = None
) -> Sequence[StoreFindings]:
    """Read a snapshot of the whole store, and report all errors in it.

    The store is not changed. Raises `UserError` for a store of an older format, because it would
    have to be migrated. Also raises `StoreUnfinished` and `StoreEmpty`.
    """
    return [
        await verified(name, snapshot_at(url, name), progress)
        for name in await tenants_at(url, tenants)
    ]


async def verified(name: str, source: StoreSnapshot, tell: Progress | None) -> StoreFindings:
    """Read a snapshot of one tenant's store, and report all errors in it."""
    async with source:
        facts = await source.facts()
        _refuse_empty(source.url, facts)
        if facts["unfinished"] is not None:
            raise StoreUnfinished(source.url, source=facts["unfinished"])
        view = source.view()
        examined = await source.examine()
        faults = list(examined.faults)
        if source.missing:
            # Without all tables, checks of rows and of the audit would report nothing but errors.
            return StoreFindings(
                tenant=name,
                url=source.url,
                faults=faults,
                audit=Verification(),
                checked=examined.checked,
                not_checked=[*examined.not_checked, "rows and audit, since tables are missing"],
            )
        total, done = sum(facts[table] for table in TABLES), 0
        for table in TABLES:
            unreadable = 0
            try:
                async for rows in source.pages(table):
                    unreadable += _unreadable(table, rows)
                    done += len(rows)
                    if tell is not None:
                        tell(CopyStep(tenant=name, phase="compare", done=done, total=total))
            except NotCopyable as exc:
                faults.append(str(exc))
            if unreadable:
                faults.append(f"{unreadable} of the rows in {table} are not JSON")
        sessions = facts["sessions"]

        def audited(found: Verification) -> None:
            if tell is not None:
                done = found.sessions
                tell(CopyStep(tenant=name, phase="audit", done=done, total=sessions))

        audit = await verify_audit(view, progress=audited)
    return StoreFindings(
        tenant=name,
        url=source.url,
        faults=faults,
        audit=audit,
        checked=[*examined.checked, "that rows can be read, and have JSON"],
        not_checked=examined.not_checked,
    )


def _refuse_empty(url: str, facts: Mapping[str, Any]) -> None:
    """`StoreEmpty` if there are no tables of a store."""
    if not facts["format"]:
        raise StoreEmpty(url, "it has no tables")


def _unreadable(table: TableName, rows: Sequence[Row]) -> int:
    places = [at for at, column in enumerate(TABLES[table]) if column in JSON_COLUMNS]
    return sum(not _is_json(row, places) for row in rows)


def _is_json(row: Row, places: Sequence[int]) -> bool:
    try:
        for at in places:
            if row[at] is not None:
                loads(row[at])
    except (ValueError, TypeError, RecursionError):
        return False
    return True


@contextmanager
def work_folder(target: Path) -> Iterator[Path]:
    """A temporary folder beside `target`. The target is created in this folder. Errors of the file
    system become `StoreUnavailable`. The parent folder is created only for the default store."""
    try:
        if target == Path(DEFAULT_STORE).absolute():
            target.parent.mkdir(exist_ok=True)
        with TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as folder:
            yield Path(folder)
    except OSError as exc:
        why = f"{exc.strerror or exc}: check the folder, its rights and the disk"
        raise StoreUnavailable(f"cannot write {target}: {why}") from exc
