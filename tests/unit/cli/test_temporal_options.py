"""Options that are for Temporal are refused where it has nothing to say."""

from __future__ import annotations

import pytest

from ekiden.cli.commands.worker import TemporalOptions
from ekiden.core.errors import UserError


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (TemporalOptions(address="localhost:7233"), "--address"),
        (TemporalOptions(task_queue="desk"), "--task-queue"),
        (TemporalOptions(build_id="1"), "--build-id"),
        (TemporalOptions(tls=True), "--tls"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_temporal_options_are_refused_by_other_engines(
    options: TemporalOptions, named: str
) -> None:
    with pytest.raises(UserError, match=f"{named} is for Temporal"):
        options.check_unused()


def test_temporal_environment_variables_are_ignored_by_other_engines(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("EKIDEN_TEMPORAL_ADDRESS", "there:7233")
    monkeypatch.setenv("EKIDEN_TEMPORAL_NAMESPACE", "desk")
    TemporalOptions(address="there:7233", namespace="desk").check_unused()
    with pytest.raises(UserError, match="--address"):
        TemporalOptions(address="elsewhere:7233").check_unused()
