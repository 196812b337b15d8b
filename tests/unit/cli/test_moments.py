"""Times on the command line."""

import time
from datetime import UTC, datetime, timedelta

import pytest

from ekiden.cli.errors import UsageError
from ekiden.cli.options import ahead, moment
from tests.support.cases import each_case

NOW = datetime(2025, 3, 1, 12, 0, tzinfo=UTC)


@each_case(
    ("text", "ago"),
    [
        ("90s", timedelta(seconds=90)),
        ("30m", timedelta(minutes=30)),
        ("2h", timedelta(hours=2)),
        ("7d", timedelta(days=7)),
        ("4w", timedelta(weeks=4)),
        ("0s", timedelta()),
    ],
)
def test_a_relative_past_time_is_parsed(text: str, ago: timedelta) -> None:
    assert moment(text, option="--since", now=NOW) == NOW - ago


def test_a_date_without_a_zone_is_local_time() -> None:
    assert moment("2025-03-01", option="--since") == datetime(2025, 3, 1).astimezone()
    assert moment("2025-03-01T14:30", option="--since") == datetime(2025, 3, 1, 14, 30).astimezone()
    assert moment("2025-03-01T12:00:00Z", option="--since") == NOW
    assert moment("2025-03-01 20:00+08:00", option="--since") == NOW


def test_a_missing_time_is_none() -> None:
    assert moment(None, option="--since") is None


@each_case(
    "text",
    ["", "now", "2h ago", "-2h", "2 h", "2y", "999999w", "2025-13-01", "٢h", "1h\n", "0001-01-01"],
)
def test_an_invalid_past_time_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--until"):
        moment(text, option="--until", now=NOW)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("2h", 7200), ("1w", 604_800), ("2025-03-01T12:00:30Z", 30)],
)
def test_a_relative_future_time_is_parsed(text: str, seconds: float) -> None:
    assert ahead(text, what="the time", now=NOW) == seconds


@each_case("text", ["", "soon", "-2h", "0s", "2025-03-01T12:00:00Z", "2y", "٢h", "9999-12-31"])
def test_an_invalid_future_time_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="the time"):
        ahead(text, what="the time", now=NOW)


def test_a_time_that_the_clocks_skip_is_after_the_skip(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "Europe/Berlin")
        time.tzset()
        after = datetime(2027, 3, 28, 1, 30, tzinfo=UTC)
        assert moment("2027-03-28T02:30", option="--since") == after
        seconds = ahead("2027-03-28T02:30", what="the time", now=NOW)
        assert NOW + timedelta(seconds=seconds) == after
    time.tzset()


def test_the_first_day_of_all_is_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        first = datetime(1, 1, 1, tzinfo=UTC)
        assert moment("0001-01-01T00:00:00Z", option="--since") == first
    time.tzset()
