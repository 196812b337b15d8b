"""Connects with a Temporal cluster."""

from __future__ import annotations

import os
from dataclasses import KW_ONLY, dataclass
from datetime import timedelta
from pathlib import Path

from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode, TLSConfig

from ekiden.core.errors import UserError
from ekiden.core.errors.integrations import TemporalUnavailable

_CONNECT_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TemporalTls:
    """How the connection is secured; with nothing given, by the system's certificates."""

    ca: Path | None = None
    """The certificate that the server's is checked with."""
    cert: Path | None = None
    """Our own certificate, for mutual TLS; with `key`."""
    key: Path | None = None
    domain: str | None = None
    """The name in the server's certificate, if it is another than that of the address."""


@dataclass(frozen=True, slots=True)
class TemporalAddress:
    """Where a cluster is and how it is spoken with."""

    address: str = "localhost:7233"
    _: KW_ONLY
    namespace: str = "default"
    tls: TemporalTls | None = None
    """`None`: not secured, unless there is an API key."""
    api_key_env: str | None = None
    """The environment variable with the API key."""


async def connect(where: TemporalAddress) -> Client:
    """A client; `TemporalUnavailable` if nobody answers, `UserError` for what is wrong with the
    address, the files or the namespace."""
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
        raise UserError(f"the API key for Temporal is to be in ${name}, which is not set")
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
