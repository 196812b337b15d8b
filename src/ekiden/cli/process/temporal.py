"""The options of `ekiden worker --engine temporal`."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from ekiden.core.errors import UserError

if TYPE_CHECKING:
    from ekiden.integrations.temporal import TemporalFleet

API_KEY = "EKIDEN_TEMPORAL_API_KEY"
_ADDRESS = "localhost:7233"
_FROM = {"address": "EKIDEN_TEMPORAL_ADDRESS", "namespace": "EKIDEN_TEMPORAL_NAMESPACE"}
"""Environment variables of the options."""


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class TemporalOptions:
    """The address of Temporal, and the worker's identity there."""

    address: Annotated[
        str | None,
        Parameter(
            name="--address",
            env_var="EKIDEN_TEMPORAL_ADDRESS",
            help="Address of Temporal, written as host:port. Default: localhost:7233.",
        ),
    ] = None
    namespace: Annotated[
        str,
        Parameter(
            name="--namespace",
            env_var="EKIDEN_TEMPORAL_NAMESPACE",
            help="Namespace in Temporal.",
        ),
    ] = "default"
    tls: Annotated[
        bool,
        Parameter(
            name="--tls",
            negative="",
            show_default=False,
            help="Use TLS for Temporal. The other TLS options and an API key in "
            "EKIDEN_TEMPORAL_API_KEY also turn TLS on.",
        ),
    ] = False
    tls_ca: Annotated[
        Path | None,
        Parameter(
            name="--tls-ca",
            help="File with the CA certificate that verifies Temporal's certificate.",
        ),
    ] = None
    tls_cert: Annotated[
        Path | None,
        Parameter(name="--tls-cert", help="File with this worker's certificate, for mutual TLS."),
    ] = None
    tls_key: Annotated[
        Path | None,
        Parameter(
            name="--tls-key", help="File with the private key of the certificate in --tls-cert."
        ),
    ] = None
    tls_domain: Annotated[
        str | None,
        Parameter(
            name="--tls-domain",
            help="Host name in Temporal's certificate, if it is not the host in --address.",
        ),
    ] = None
    task_queue: Annotated[
        str,
        Parameter(
            name="--task-queue",
            help="Prefix of the task queue names in Temporal. Ekiden adds the store's name. "
            "Different teams need different prefixes.",
        ),
    ] = "ekiden"
    build_id: Annotated[
        str | None,
        Parameter(
            name="--build-id",
            help="Version of this worker, for worker versioning in Temporal. Give - to use the "
            "version of Ekiden.",
        ),
    ] = None

    def check_unused(self) -> None:
        """`UserError` for options that other engines do not have; environment variables are
        ignored, since they may be meant for other workers."""
        for each in fields(self):
            told = getattr(self, each.name)
            if told != each.default and str(told) != os.environ.get(_FROM.get(each.name, "")):
                option = each.name.replace("_", "-")
                raise UserError(f"--{option} is for Temporal: give --engine temporal too")

    def fleet(self, concurrency: int) -> TemporalFleet:
        """The fleet that runs the sessions; `UserError` for options that contradict each other."""
        from ekiden.integrations.temporal import (
            TemporalAddress,
            TemporalFleet,
            TemporalSettings,
            TemporalTls,
            WorkerVersion,
        )

        files = (self.tls_ca, self.tls_cert, self.tls_key, self.tls_domain)
        tls = None
        if self.tls or any(each is not None for each in files):
            tls = TemporalTls(
                ca=self.tls_ca, cert=self.tls_cert, key=self.tls_key, domain=self.tls_domain
            )
        version = None
        if self.build_id is not None:
            own = self.build_id == "-"
            version = WorkerVersion() if own else WorkerVersion(build_id=self.build_id)
        return TemporalFleet(
            address=TemporalAddress(
                self.address or _ADDRESS,
                namespace=self.namespace,
                tls=tls,
                api_key_env=API_KEY if os.environ.get(API_KEY) else None,
            ),
            terms=TemporalSettings(queue=self.task_queue, concurrency=concurrency, version=version),
        )
