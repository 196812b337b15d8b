"""The connection with a Temporal cluster, and worker versioning."""

from __future__ import annotations

import asyncio
import logging
import os
import re
from dataclasses import KW_ONLY, dataclass, field
from datetime import timedelta
from importlib.metadata import version
from pathlib import Path

from temporalio.api.workflowservice.v1 import (
    DescribeNamespaceRequest,
    DescribeWorkerDeploymentRequest,
    SetWorkerDeploymentCurrentVersionRequest,
)
from temporalio.client import Client
from temporalio.common import VersioningBehavior, WorkerDeploymentVersion
from temporalio.service import RPCError, RPCStatusCode, TLSConfig
from temporalio.worker import WorkerDeploymentConfig

from ekiden.core.errors import UserError
from ekiden.core.errors.integrations import TemporalUnavailable

_CONNECT_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TemporalTls:
    """TLS settings of the connection. The defaults use the certificates of the system."""

    ca: Path | None = None
    """The certificate authority that the server's certificate is checked against."""
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
    """`None`: no TLS, unless there is an API key."""
    api_key_env: str | None = None
    """The environment variable with the API key."""


async def connect(where: TemporalAddress) -> Client:
    """A client; `TemporalUnavailable` without an answer, `UserError` for a wrong address, file or
    namespace."""
    if ":" not in where.address or "://" in where.address:
        raise UserError(
            f"{where.address!r} is no address of a Temporal server: write host:port, as in "
            "localhost:7233"
        )
    api_key = _api_key(where.api_key_env)
    tls = None if where.tls is None else _tls(where.tls)
    try:
        client = await Client.connect(
            where.address,
            namespace=where.namespace,
            api_key=api_key,
            tls=tls if tls is not None else api_key is not None,
            connect_timeout=timedelta(seconds=_CONNECT_S),
        )
    except RuntimeError as exc:
        raise TemporalUnavailable(where.address, str(exc)) from exc
    await _check_namespace(client, where)
    return client


async def _check_namespace(client: Client, where: TemporalAddress) -> None:
    try:
        await client.workflow_service.describe_namespace(
            DescribeNamespaceRequest(namespace=where.namespace),
            timeout=timedelta(seconds=_CONNECT_S),
        )
    except RPCError as exc:
        if exc.status == RPCStatusCode.NOT_FOUND:
            raise UserError(
                f"Temporal at {where.address} has no namespace {where.namespace!r}: make it with "
                f"`temporal operator namespace create --namespace {where.namespace}`"
            ) from exc
        # Not everybody who may work in a namespace may look at it.
        if exc.status != RPCStatusCode.PERMISSION_DENIED:
            raise TemporalUnavailable(where.address, exc.message) from exc


def _api_key(name: str | None) -> str | None:
    if name is None:
        return None
    key = os.environ.get(name)
    if not key:
        raise UserError(f"the API key for Temporal must be in ${name}, which is not set")
    return key


def _tls(wanted: TemporalTls) -> TLSConfig:
    if (wanted.cert is None) != (wanted.key is None):
        raise UserError("mutual TLS needs both a certificate and its key")
    return TLSConfig(
        server_root_ca_cert=_read(wanted.ca),
        client_cert=_read(wanted.cert),
        client_private_key=_read(wanted.key),
        domain=wanted.domain,
    )


def _read(file: Path | None) -> bytes | None:
    if file is None:
        return None
    try:
        return file.read_bytes()
    except OSError as exc:
        raise UserError(f"{file} cannot be read: {exc.strerror or exc}") from exc


_log = logging.getLogger("ekiden.temporal")

_MOST = 200
_REFUSED = "[.:]"
_LOOK_EVERY_S = 0.25
_NOT_YET = frozenset({RPCStatusCode.NOT_FOUND, RPCStatusCode.FAILED_PRECONDITION})


def _own_version() -> str:
    return version("ekiden")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerVersion:
    """The version of a worker for Temporal's Worker Versioning."""

    build_id: str = field(default_factory=_own_version)
    """The build id of Ekiden and the team; by default the version of Ekiden."""
    deployment: str | None = None
    """The name of the deployment. `None`: the name of the task queue, with `-` instead of
    characters that Temporal does not allow."""

    def __post_init__(self) -> None:
        for what, text in (("build id", self.build_id), ("deployment", self.deployment)):
            if text is not None and (not 0 < len(text) <= _MOST or text.startswith("__")):
                raise UserError(
                    f"{text[:40]!r} can be no {what} of Temporal: it has 1 to {_MOST} characters "
                    "and does not begin with __"
                )
        if self.deployment is not None and re.search(_REFUSED, self.deployment):
            raise UserError(
                f"{self.deployment!r} is not a valid deployment name: leave out . and :"
            )

    def deployment_of(self, queue: str) -> str:
        """The deployment name of workers on this task queue."""
        return self.deployment or re.sub(_REFUSED, "-", queue)


def deployment(queue: str, wanted: WorkerVersion | None) -> WorkerDeploymentConfig | None:
    """How the SDK's workers are set up; without a version they take all tasks."""
    if wanted is None:
        return None
    return WorkerDeploymentConfig(
        version=WorkerDeploymentVersion(
            deployment_name=wanted.deployment_of(queue), build_id=wanted.build_id
        ),
        use_worker_versioning=True,
        default_versioning_behavior=VersioningBehavior.AUTO_UPGRADE,
    )


async def make_current(client: Client, queue: str, wanted: WorkerVersion) -> None:
    """Make the first version of a deployment the current one, so that a worker gets the tasks.

    If another version is current, it stays: the operator decides, and a message says how.
    `UserError` for a name that Temporal refuses.
    """
    name = wanted.deployment_of(queue)
    while True:
        if await _made_current(client, name, wanted.build_id):
            return
        await asyncio.sleep(_LOOK_EVERY_S)


async def _made_current(client: Client, name: str, build_id: str) -> bool:
    """Whether the deployment has a current version."""
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
            raise UserError(f"Temporal does not take this version: {exc.message}") from exc
        # It is not there before a worker asked for tasks, and others may set it meanwhile.
        if exc.status not in _NOT_YET:
            _log.warning("the version could not be looked at, trying again: %s", exc.message)
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
