"""`ekiden worker …`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

from ekiden.cli.options import (
    STORE,
    TEAM,
    JsonOption,
    KeepGoingOption,
    LabelOption,
    LimitOption,
    LogOption,
    ModelOption,
    StoreOption,
    TeamOption,
    TrustOption,
    WideOption,
)
from ekiden.cli.place import HERE, Place
from ekiden.cli.process.server import on_fast_loop
from ekiden.cli.process.temporal import TemporalOptions
from ekiden.cli.terminal.output import show
from ekiden.core.errors import UserError

if TYPE_CHECKING:
    from ekiden.project.worker import Workforce

TEMPORAL = TemporalOptions()


@on_fast_loop
async def worker_run(
    *,
    store: StoreOption = STORE,
    concurrency: Annotated[
        int,
        Parameter(
            name="--concurrency",
            validator=Number(gte=1, lte=100_000),
            help="Maximum number of sessions to run at the same time, for all tenants together.",
        ),
    ] = 100,
    agents: Annotated[
        tuple[str, ...],
        Parameter(
            name="--agents",
            negative="",
            show_default=False,
            help="Run only these agents, separated by commas. Default: all agents that can run on "
            "this worker.",
        ),
    ] = (),
    label: LabelOption = (),
    tenant: Annotated[
        tuple[str, ...],
        Parameter(
            name="--tenant",
            negative="",
            show_default=False,
            help="Run only sessions of this tenant. You can repeat this option. Default: all "
            "tenants, also those created later.",
        ),
    ] = (),
    lease: Annotated[
        float | None,
        Parameter(
            name="--lease",
            validator=Number(gte=0.1, lte=86_400),
            show_default=False,
            help="If this worker sends no heartbeat for this many seconds, other workers take over "
            "its sessions. Default: 30.",
        ),
    ] = None,
    until_idle: Annotated[
        bool,
        Parameter(
            name="--until-idle",
            negative="",
            show_default=False,
            help="Exit when no session is ready.",
        ),
    ] = False,
    grace: Annotated[
        float,
        Parameter(
            name="--grace",
            validator=Number(gte=0, lte=86_400),
            help="Time in seconds for current sessions to finish at shutdown.",
        ),
    ] = 10.0,
    engine: Annotated[
        Literal["worker", "temporal"],
        Parameter(
            name="--engine",
            help=(
                "Scheduler of the sessions: workers that share the store (`worker`), or Temporal "
                "(`temporal`)."
            ),
        ),
    ] = "worker",
    temporal: TemporalOptions = TEMPORAL,
    team: TeamOption = TEAM,
    model: ModelOption = None,
    keep_going: KeepGoingOption = False,
    trust: TrustOption = False,
    log: LogOption = "text",
    as_json: JsonOption = False,
) -> int:
    """Run the sessions of a store, together with other workers.

    The worker runs the ready sessions of all tenants. It skips sessions of agents that it cannot
    run. After SIGTERM or Ctrl-C, it starts no more sessions. If a session is not finished after
    --grace seconds, other workers can run it at once. A second signal skips this wait. `ekiden
    worker` is a short form of this command.
    """
    from ekiden.cli.exits import Exit
    from ekiden.cli.process.server import start_logging
    from ekiden.cli.process.worker import end_for_sure, rest_collector, run_until_signal
    from ekiden.cli.projects import open_project, tell_notes
    from ekiden.cli.terminal.output import emit, note
    from ekiden.project.worker import Workforce, WorkOrder

    if engine == "temporal" and agents:
        raise UserError(
            "workers on one task queue of Temporal run the same agents: leave --agents out, and "
            "give agents `runs_on` and workers --label, or use two task queues"
        )
    names = _names(agents)
    if engine != "temporal":
        temporal.check_unused()
    project = open_project(
        team=team, model=model, keep_going=keep_going, trust=trust, as_json=as_json
    )
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

        was_told = await run_until_signal(
            workforce, until_idle=until_idle, grace_s=grace, ready=ready
        )
        if as_json:
            emit({"finished": workforce.finished})
        else:
            note(f"sessions finished: {workforce.finished}")
    if was_told:
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
