"""Costs of a store's model calls, with the prices of the settings."""

from __future__ import annotations

from collections.abc import Sequence

from ekiden.api import traces as api
from ekiden.api.local.place import Here, moment_of
from ekiden.api.values import Moment
from ekiden.core.errors.server import RequestInvalid
from ekiden.project.run_options import costs
from ekiden.sessions.costs import CostKey, CostLine, CostReport

_USUAL: tuple[CostKey, ...] = ("agent", "model")


class LocalCosts(api.Costs):
    """See `Costs`."""

    def __init__(self, here: Here) -> None:
        self._here = here

    async def get(
        self,
        *,
        session: str | None = None,
        since: Moment | None = None,
        by: Sequence[CostKey] = (),
    ) -> api.CostSummary:
        if len(set(by)) < len(by):
            raise RequestInvalid("by: a group is listed twice")
        report = await costs(
            self._here.store,
            self._here.settings,
            session_id=session,
            since=moment_of(since, what="since"),
            by=tuple(by) or _USUAL,
        )
        return summary_of(report)


def summary_of(report: CostReport) -> api.CostSummary:
    """A report, for callers."""
    return api.CostSummary(
        by=report.by,
        lines=[_entry(line) for line in report.lines],
        total=_entry(report.total),
        unpriced_models=report.unpriced_models,
    )


def _entry(line: CostLine) -> api.CostEntry:
    usage, cost = line.usage, line.cost
    return api.CostEntry(
        **line.key,
        requests=usage.requests,
        input_tokens=usage.input_tokens,
        cached_tokens=usage.cached_tokens,
        output_tokens=usage.output_tokens,
        reasoning_tokens=usage.reasoning_tokens,
        tokens=usage.tokens,
        cost=None if cost is None else round(cost, 9),
        unpriced_requests=line.unpriced,
    )
