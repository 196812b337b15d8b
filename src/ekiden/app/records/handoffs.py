"""Everything that a store knows of one handoff."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ekiden.audit import find_records
from ekiden.handoff.filter_report import FilterReport, filter_report
from ekiden.handoff.history_query import correlation_of, task_of
from ekiden.handoff.records import HandoffRecord, read_handoff
from ekiden.handoff.views import HandoffViews, read_views, words_of
from ekiden.storage.base import SessionRow, Store


@dataclass(frozen=True, slots=True, kw_only=True)
class HandoffDetails:
    """One handoff with what belongs to it."""

    record: HandoffRecord
    row: SessionRow
    """Its session."""
    words: Mapping[str, Any]
    """What went along; empty if the run is not to be shown."""
    view: FilterReport | None
    """What a filter did with the conversation; `None` if there was none."""
    audit: Sequence[str]
    """The ids of its audit records, in order."""

    @property
    def task_id(self) -> str:
        """The task that its session is about."""
        return task_of(self.row)

    @property
    def correlation_id(self) -> str:
        """What its session belongs to."""
        return correlation_of(self.row)

    def to_json(self) -> dict[str, Any]:
        """As programs read it."""
        return {
            **self.record.to_json(),
            "task_id": self.task_id,
            "correlation_id": self.correlation_id,
            "call_id": self.record.call_id,
            "words": dict(self.words),
            "compensations_failed": self.record.rollback_attempts,
            "agent": self.row.agent,
            "view": None if self.view is None else self.view.to_json(),
            "audit": list(self.audit),
        }


async def read_details(store: Store, handoff_id: str) -> HandoffDetails:
    """The handoff of this id, or the request for one; `HandoffNotFound`.

    Of runs that are not to be shown (`trace_include_sensitive_data=False`) there are no words.
    """
    record = await read_handoff(store, handoff_id)
    events = await store.events(record.session_id)
    views = await read_views(store, record)
    is_on_record = record.moves[0].seq > 0
    records = await find_records(store, handoff_id) if is_on_record else ()
    words = {} if record.is_private else words_of(events, record)
    record = record.shown()
    if record.reason and "reason" not in words:
        words = {"reason": record.reason, **words}
    return HandoffDetails(
        record=record,
        row=await store.get(record.session_id),
        words=words,
        view=None if views is None else _report(views),
        audit=[each.id for each in records],
    )


def _report(views: HandoffViews) -> FilterReport:
    report = filter_report(views.before, views.after)
    return report.without_words(views.hidden, hide_new=views.hide_new)
