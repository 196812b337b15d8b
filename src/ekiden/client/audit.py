"""The audit: who handed what to whom, who decided and why."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from datetime import datetime
from typing import Any, Literal, TypeAlias, TypedDict, Unpack

from ekiden.client.modes import M, Resource, answers, given, lists, streams
from ekiden.client.paths import part
from ekiden.client.records import AuditEntry, AuditVerification
from ekiden.client.streams import Listing

Moment: TypeAlias = datetime | str
"""A time with its zone, a date, or how long ago, such as ``7d``."""


class AuditFilter(TypedDict, total=False):
    """Which records; what is not given, or `None`, does not restrict."""

    agent: str | None
    task: str | None
    correlation: str | None
    status: str | None
    session: str | None
    handoff: str | None
    type: Literal["handoff", "route", "tool_confirmation", "inbox", "guardrail"] | None
    since: Moment | None
    until: Moment | None


class Audit(Resource[M]):
    """The records of the audit; they can be read and verified, not changed."""

    @lists
    def list(
        self, *, oldest_first: bool = False, **filters: Unpack[AuditFilter]
    ) -> Listing[AuditEntry]:
        """The records, newest first."""
        params = {**_params(filters), "oldest_first": oldest_first}
        return Listing(path="/audit/records", params=params, parse=AuditEntry.of)

    @answers
    async def get(self, record_id: str) -> tuple[AuditEntry, ...]:
        """The record of this id, or all of the handoff of this id, the oldest first."""
        answer = await self._wire.ask("GET", f"/audit/records/{part(record_id)}")
        return tuple(map(AuditEntry.of, answer["items"]))

    @answers
    async def verify(
        self, *, session_id: str | None = None, against: str | None = None
    ) -> AuditVerification:
        """Whether somebody changed what is stored; `against` is the text of an earlier export."""
        body = given(session_id=session_id, against=against)
        return AuditVerification.of(await self._wire.ask("POST", "/audit/verify", body=body))

    @streams
    async def export(self, **filters: Unpack[AuditFilter]) -> AsyncGenerator[str, None]:
        """Records as lines of JSON, the oldest first; the last line is the manifest, and an export
        without it was cut off."""
        async with self._wire.stream("GET", "/audit/export", params=_params(filters)) as answer:
            async for line in answer.aiter_lines():
                if line:
                    yield line


def _params(filters: AuditFilter) -> Mapping[str, Any]:
    return {name: moment_text(value) for name, value in given(**filters).items()}


def moment_text(value: Any) -> Any:
    """A time as the server reads it; anything else as it is."""
    if not isinstance(value, datetime):
        return value
    return value.astimezone().isoformat()
