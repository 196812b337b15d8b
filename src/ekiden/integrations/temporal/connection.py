"""The connection with a Temporal cluster, worker versioning, and the lease of its leader."""

from __future__ import annotations

import asyncio
import logging
import os
import re
from dataclasses import KW_ONLY, dataclass, field
from datetime import timedelta
from importlib.metadata import version
from pathlib import Path

from ekiden.core.errors import StaleDocument, StoreError, UserError
from ekiden.core.errors.integrations import TemporalUnavailable
from ekiden.core.values import is_dead, owner_name
from ekiden.integrations.temporal.names import COLLECTION
from ekiden.storage.base import DocumentWrite, Store

try:
    from temporalio.api.workflowservice.v1 import (
        DescribeNamespaceRequest,
        DescribeWorkerDeploymentRequest,
        SetWorkerDeploymentCurrentVersionRequest,
    )
    from temporalio.client import Client
    from temporalio.common import VersioningBehavior, WorkerDeploymentVersion
    from temporalio.service import RPCError, RPCStatusCode, TLSConfig
    from temporalio.worker import WorkerDeploymentConfig
except ModuleNotFoundError as exc:  # The package imports this module first.
    raise UserError(
        "the engine `temporal` needs Temporal's SDK, which is not installed: "
        "pip install 'ekiden[temporal]'"
    ) from exc

_log = logging.getLogger("ekiden.temporal")

_CONNECT_S = 10.0
_MAX_NAME = 200
_NOT_ALLOWED = "[.:]"
_RETRY_S = 0.25
_NOT_YET = frozenset({RPCStatusCode.NOT_FOUND, RPCStatusCode.FAILED_PRECONDITION})
"""Answers for a deployment that no worker has polled for yet, or that changed meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TemporalTls:
    """TLS settings of the connection. The defaults use the certificates of the system."""

    ca: Path | None = None
    """A file with the certificate authority for the server's certificate."""
    cert: Path | None = None
    """The client certificate for mutual TLS, together with `key`."""
    key: Path | None = None
    domain: str | None = None
    """The name in the server's certificate, if it differs from the host of the address."""


@dataclass(frozen=True, slots=True)
class TemporalAddress:
    """The address of a Temporal cluster, with namespace, TLS settings and API key."""

    address: str = "localhost:7233"
    _: KW_ONLY
    namespace: str = "default"
    tls: TemporalTls | None = None
    """The TLS settings. If `None`, TLS is used only if there is an API key."""
    api_key_env: str | None = None
    """The environment variable with the API key."""


async def connect(address: TemporalAddress) -> Client:
    """Connect to a cluster. Raises `TemporalUnavailable` if the cluster does not answer, and
    `UserError` for an invalid address, file or namespace."""
    if ":" not in address.address or "://" in address.address:
        raise UserError(
            f"{address.address!r} is not an address of a Temporal server: write host:port, as in "
            "localhost:7233"
        )
    api_key = _api_key(address.api_key_env)
    tls = None if address.tls is None else _tls(address.tls)
    try:
        client = await Client.connect(
            address.address,
            namespace=address.namespace,
            api_key=api_key,
            tls=tls if tls is not None else api_key is not None,
            connect_timeout=timedelta(seconds=_CONNECT_S),
        )
    except RuntimeError as exc:
        raise TemporalUnavailable(address.address, str(exc)) from exc
    await _check_namespace(client, address)
    return client


async def _check_namespace(client: Client, address: TemporalAddress) -> None:
    namespace = address.namespace
    try:
        await client.workflow_service.describe_namespace(
            DescribeNamespaceRequest(namespace=namespace), timeout=timedelta(seconds=_CONNECT_S)
        )
    except RPCError as exc:
        if exc.status == RPCStatusCode.NOT_FOUND:
            raise UserError(
                f"Temporal at {address.address} has no namespace {namespace!r}: make it with "
                f"`temporal operator namespace create --namespace {namespace}`"
            ) from exc
        # An identity may be allowed to use a namespace, but not to describe it.
        if exc.status != RPCStatusCode.PERMISSION_DENIED:
            raise TemporalUnavailable(address.address, exc.message) from exc


def _api_key(name: str | None) -> str | None:
    if name is None:
        return None
    key = os.environ.get(name)
    if not key:
        raise UserError(f"the API key for Temporal must be in ${name}, which is not set")
    return key


def _tls(tls: TemporalTls) -> TLSConfig:
    if (tls.cert is None) != (tls.key is None):
        raise UserError("mutual TLS needs both a certificate and its key")
    return TLSConfig(
        server_root_ca_cert=_read(tls.ca),
        client_cert=_read(tls.cert),
        client_private_key=_read(tls.key),
        domain=tls.domain,
    )


def _read(file: Path | None) -> bytes | None:
    if file is None:
        return None
    try:
        return file.read_bytes()
    except OSError as exc:
        raise UserError(f"{file} cannot be read: {exc.strerror or exc}") from exc


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerVersion:
    """The version of a worker for Temporal's Worker Versioning."""

    build_id: str = field(default_factory=lambda: version("ekiden"))
    """The build id of Ekiden and the team. The default is the version of Ekiden."""
    deployment: str | None = None
    """The name of the deployment. `None` means the name of the task queue, in which `-` replaces
    characters that Temporal does not allow."""

    def __post_init__(self) -> None:
        for name, text in (("build id", self.build_id), ("deployment", self.deployment)):
            if text is not None and (not 0 < len(text) <= _MAX_NAME or text.startswith("__")):
                raise UserError(
                    f"{text[:40]!r} cannot be a {name} of Temporal: it has 1 to {_MAX_NAME} "
                    "characters and does not begin with __"
                )
        if self.deployment is not None and re.search(_NOT_ALLOWED, self.deployment):
            raise UserError(
                f"{self.deployment!r} is not a valid deployment name: leave out . and :"
            )

    def deployment_of(self, queue: str) -> str:
        """The deployment name of workers on this task queue."""
        return self.deployment or re.sub(_NOT_ALLOWED, "-", queue)

    def deployment_config(self, queue: str) -> WorkerDeploymentConfig:
        """The settings of the SDK's workers on this task queue."""
        return WorkerDeploymentConfig(
            version=WorkerDeploymentVersion(
                deployment_name=self.deployment_of(queue), build_id=self.build_id
            ),
            use_worker_versioning=True,
            default_versioning_behavior=VersioningBehavior.AUTO_UPGRADE,
        )


async def make_current(client: Client, queue: str, version: WorkerVersion) -> None:
    """Make `version` the current version if its deployment has no current version, because without
    a current version no worker gets a task.

    If another version is current, nothing changes: the operator decides, and a log message explains
    how. Raises `UserError` for a name that Temporal refuses.
    """
    name = version.deployment_of(queue)
    while True:
        if await _has_current(client, name, version.build_id):
            return
        await asyncio.sleep(_RETRY_S)


async def _has_current(client: Client, name: str, build_id: str) -> bool:
    """Set the current version if there is none; returns whether there is one now."""
    service = client.workflow_service
    try:
        found = await service.describe_worker_deployment(
            DescribeWorkerDeploymentRequest(namespace=client.namespace, deployment_name=name)
        )
        routing = found.worker_deployment_info.routing_config
        current = routing.current_deployment_version.build_id
        if not current:
            await service.set_worker_deployment_current_version(
                SetWorkerDeploymentCurrentVersionRequest(
                    namespace=client.namespace,
                    deployment_name=name,
                    build_id=build_id,
                    conflict_token=found.conflict_token,
                    identity=client.identity,
                )
            )
            return True
    except RPCError as exc:
        if exc.status == RPCStatusCode.INVALID_ARGUMENT:
            raise UserError(f"Temporal rejects this version: {exc.message}") from exc
        if exc.status not in _NOT_YET:
            _log.warning("the version could not be checked, trying again: %s", exc.message)
        return False
    if current != build_id:
        _log.warning(
            "new tasks go to version %s; to have them go to %s: temporal worker deployment "
            "set-current-version --namespace %s --deployment-name %s --build-id %s",
            current,
            build_id,
            client.namespace,
            name,
            build_id,
        )
    return True


TERM_S = 3.0
"""The maximum term of a lease."""
_RENEW_EVERY_S = 0.25


class LeaderLease:
    """A lease that only one process at a time holds and renews.

    For a moment two processes may assume that they hold the lease. So only idempotent work may
    depend on the lease.
    """

    def __init__(self, store: Store, name: str, *, term_s: float = TERM_S) -> None:
        """After `term_s` seconds without a renewal, another process takes the lease."""
        self._store = store
        self._term_s = min(term_s, TERM_S)
        self._key = f"office/{name}"
        self._until_us = 0
        """The end of the lease, in the time of the store."""
        self._held_until = 0.0
        """The end of the lease, in the time of the event loop."""
        self._owner = f"{id(self):x}-{owner_name()}"
        self.is_taken_over = False
        """Whether the last holder did not release the lease."""

    @property
    def is_held(self) -> bool:
        """Whether this process holds the lease, according to its last renewal. The store is not
        read."""
        return asyncio.get_running_loop().time() < self._held_until

    async def keep(self) -> None:
        """Take the lease as soon as the lease is free, and renew it until this call is cancelled.

        Run this method in a separate task. If a worker renewed the lease only between two pieces of
        work, it would lose the lease during a long piece. The next holder would then repeat the
        work.
        """
        while True:
            try:
                await self.hold()
            except StoreError as exc:
                _log.warning("%s could not be renewed, trying again: %s", self._key, exc)
            except Exception:
                _log.exception("%s could not be renewed, trying again", self._key)
            await asyncio.sleep(_RENEW_EVERY_S)

    async def hold(self) -> bool:
        """Take or renew the lease, and return whether this process holds it."""
        started_at = asyncio.get_running_loop().time()
        now_us = await self._store.now_us()
        term_us, longest_us = int(self._term_s * 1e6), int(TERM_S * 1e6)
        if now_us < self._until_us - term_us * 2 // 3:
            return True
        found = await self._store.get_document(COLLECTION, self._key)
        if (
            found is not None
            and found.body["who"] != self._owner
            # A lease ends later than its longest term only if the store's clock was set back.
            and now_us < found.body["until_us"] <= now_us + longest_us
            and not is_dead(found.body["who"].partition("-")[2])
        ):
            self._lose()
            return False
        until_us = now_us + term_us
        write = DocumentWrite(
            collection=COLLECTION,
            key=self._key,
            body={"who": self._owner, "until_us": until_us},
            expected_version=0 if found is None else found.version,
        )
        try:
            await self._store.write_documents([write])
        except StaleDocument:
            self._lose()
            return False
        if not self.is_held:
            self.is_taken_over = found is not None
        self._until_us = until_us
        # The time before the write: the lease may end earlier here than in the store, never later.
        self._held_until = started_at + self._term_s
        return True

    async def leave(self) -> None:
        """Release the lease."""
        self._lose()
        found = await self._store.get_document(COLLECTION, self._key)
        if found is None or found.body["who"] != self._owner:
            return
        removal = DocumentWrite(
            collection=COLLECTION, key=self._key, body=None, expected_version=found.version
        )
        try:
            await self._store.write_documents([removal])
        except StaleDocument:
            return

    def _lose(self) -> None:
        self._until_us, self._held_until = 0, 0.0
