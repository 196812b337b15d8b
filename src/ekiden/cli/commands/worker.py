"""`ekiden worker …`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from ekiden.cli.options import (
    TEAM,
    JsonOption,
    LabelOption,
    LimitOption,
    LogOption,
    StoreOption,
    TeamFlags,
    WideOption,
    about,
)
from ekiden.cli.output import emit, note, show
from ekiden.cli.place import HERE, Place
from ekiden.cli.process import (
    end_for_sure,
    on_fast_loop,
    rest_collector,
    run_until_signal,
    start_logging,
)
from ekiden.core.errors import UserError

if TYPE_CHECKING:
    from ekiden.integrations.temporal import TemporalFleet
    from ekiden.project.worker import Workforce

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
        about(
            "Address of Temporal, written as host:port. Default: localhost:7233.",
            env_var="EKIDEN_TEMPORAL_ADDRESS",
        ),
    ] = None
    namespace: Annotated[
        str, about("Namespace in Temporal.", env_var="EKIDEN_TEMPORAL_NAMESPACE")
    ] = "default"
    tls: Annotated[
        bool,
        about(
            "Connect to Temporal with TLS. The other TLS options, and an API key in "
            "EKIDEN_TEMPORAL_API_KEY, also turn TLS on."
        ),
    ] = False
    tls_ca: Annotated[
        Path | None, about("File with the CA certificate that verifies Temporal's certificate.")
    ] = None
    tls_cert: Annotated[
        Path | None, about("File with this worker's certificate, for mutual TLS.")
    ] = None
    tls_key: Annotated[
        Path | None, about("File with the private key of the certificate in --tls-cert.")
    ] = None
    tls_domain: Annotated[
        str | None,
        about("Host name in Temporal's certificate, if it is not the host in --address."),
    ] = None
    task_queue: Annotated[
        str,
        about(
            "Prefix of the task queue names in Temporal. Ekiden appends the store's name. "
            "Different teams need different prefixes."
        ),
    ] = "ekiden"
    build_id: Annotated[
        str | None,
        about(
            "Version of this worker, for worker versioning in Temporal. Give - to use the "
            "version of Ekiden."
        ),
    ] = None

    def check_unused(self) -> None:
        """`UserError` for options that other engines do not have; environment variables are
        ignored, since they may be meant for other workers."""
        for each in fields(self):
            value = getattr(self, each.name)
            if value != each.default and str(value) != os.environ.get(_FROM.get(each.name, "")):
                option = each.name.replace("_", "-")
                raise UserError(f"--{option} is for Temporal: give --engine temporal too")

    def fleet(self, concurrency: int) -> TemporalFleet:
        """The fleet that runs the sessions. Raises `UserError` for options that contradict each
        other."""
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


TEMPORAL = TemporalOptions()


@on_fast_loop
async def worker_run(
    *,
    store: StoreOption = None,
    concurrency: Annotated[
        int,
        about(
            "Maximum number of sessions to run at the same time, for all tenants together.",
            gte=1,
            lte=100_000,
        ),
    ] = 100,
    agents: Annotated[
        tuple[str, ...],
        about(
            "Run only these agents, separated by commas. Default: all agents that can run on "
            "this worker."
        ),
    ] = (),
    label: LabelOption = (),
    tenant: Annotated[
        tuple[str, ...],
        about(
            "Run only sessions of this tenant. You can repeat this option. Default: all "
            "tenants, including new ones."
        ),
    ] = (),
    lease: Annotated[
        float | None,
        about(
            "If this worker sends no heartbeat for this many seconds, other workers take over "
            "its sessions. Default: 30.",
            gte=0.1,
            lte=86_400,
        ),
    ] = None,
    until_idle: Annotated[bool, about("Exit when no session is ready.")] = False,
    grace: Annotated[
        float,
        about(
            "Seconds that current sessions have to finish when the worker shuts down.",
            gte=0,
            lte=86_400,
        ),
    ] = 10.0,
    engine: Annotated[
        Literal["worker", "temporal"],
        about(
            "How sessions get to a worker: workers share the store (`worker`), or Temporal "
            "assigns the sessions (`temporal`)."
        ),
    ] = "worker",
    temporal: TemporalOptions = TEMPORAL,
    flags: TeamFlags = TEAM,
    log: LogOption = "text",
    as_json: JsonOption = False,
) -> int:
    """Run the sessions of a store, together with other workers.

    The worker runs all tenants' ready sessions (sessions with work to do). It skips sessions of
    agents that it cannot run. After SIGTERM or Ctrl-C, it starts no more sessions. Current sessions
    have --grace seconds to finish; after that, other workers can continue them. After a second
    signal, the worker does not wait. `ekiden worker` is a short form of this command.
    """
    from ekiden.cli.errors import Exit
    from ekiden.cli.projects import open_project, tell_notes
    from ekiden.project.worker import Workforce, WorkOrder

    if engine == "temporal" and agents:
        raise UserError(
            "workers on one task queue of Temporal run the same agents: leave --agents out, and "
            "give agents `runs_on` and workers --label, or use two task queues"
        )
    names = _names(agents)
    if engine != "temporal":
        temporal.check_unused()
    project = open_project(flags, as_json=as_json)
    order = WorkOrder(
        store=project.settings.store if store is None else store,
        concurrency=concurrency,
        agents=names,
        labels=label,
        tenants=tenant or None,
        lease_s=lease,
    )
    start_logging(log)
    async with project:
        tell_notes(project, as_json=as_json)
        fleet = temporal.fleet(concurrency) if engine == "temporal" else None
        workforce = Workforce(project, order, fleet=fleet)

        def ready() -> None:
            rest_collector()
            if as_json:
                emit(_facts(workforce, order))
            else:
                served = ", ".join(sorted(workforce.serves))
                note(f"working on {workforce.store_name} as {served}; Ctrl-C ends it")

        was_signal = await run_until_signal(
            workforce, until_idle=until_idle, grace_s=grace, ready=ready
        )
        if as_json:
            emit({"finished": workforce.finished})
        else:
            note(f"sessions finished: {workforce.finished}")
    if was_signal:
        await end_for_sure()
    return Exit.OK


async def worker_list(
    *,
    limit: LimitOption = None,
    place: Place = HERE,
    wide: WideOption = False,
    as_json: JsonOption = False,
) -> None:
    """List the workers of a store, and the agents that no worker runs.

    Dead workers stay in the list for one hour, with the state `gone`.
    """
    from ekiden.cli.views.administration import print_workers

    async with place.open() as ekiden:
        found = await ekiden.workers.list()
    show(found, partial(print_workers, limit=limit, wide=wide), as_json=as_json)


def _names(given: Sequence[str]) -> list[str] | None:
    """The names in ``--agents a,b --agents c``; `None` if the option is not given, `UserError` if
    it names none."""
    if not given:
        return None
    names = [name for each in given for part in each.split(",") if (name := part.strip())]
    if not names:
        raise UserError("--agents names no agent: name some, as in --agents a,b, or leave it out")
    return names


def _facts(workforce: Workforce, order: Any) -> dict[str, Any]:
    from ekiden.core.values import owner_name

    return {
        "store": workforce.store_name,
        "owner": owner_name(),
        "concurrency": order.concurrency,
        "agents": sorted(workforce.serves),
        "labels": sorted(workforce.labels),
        "tenants": workforce.tenants,
    }
