"""Times on the command line."""

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
def test_how_long_ago(text: str, ago: timedelta) -> None:
    assert moment(text, option="--since", now=NOW) == NOW - ago


def test_a_date_and_a_time_are_those_of_the_machine_unless_they_name_a_zone() -> None:
    assert moment("2025-03-01", option="--since") == datetime(2025, 3, 1).astimezone()
    assert moment("2025-03-01T14:30", option="--since") == datetime(2025, 3, 1, 14, 30).astimezone()
    assert moment("2025-03-01T12:00:00Z", option="--since") == NOW
    assert moment("2025-03-01 20:00+08:00", option="--since") == NOW


def test_no_text_is_no_time() -> None:
    assert moment(None, option="--since") is None


@each_case(
    "text",
    ["", "now", "2h ago", "-2h", "2 h", "2y", "999999w", "2025-13-01", "٢h", "1h\n", "0001-01-01"],
)
def test_anything_else_is_the_callers_error(text: str) -> None:
    with pytest.raises(UsageError, match="--until"):
        moment(text, option="--until", now=NOW)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("2h", 7200), ("1w", 604_800), ("2025-03-01T12:00:30Z", 30)],
)
def test_how_long_until_a_time_to_come(text: str, seconds: float) -> None:
    assert ahead(text, what="the time", now=NOW) == seconds


@each_case("text", ["", "soon", "-2h", "0s", "2025-03-01T12:00:00Z", "2y", "٢h"])
def test_what_is_no_time_to_come_is_the_callers_error(text: str) -> None:
    with pytest.raises(UsageError, match="the time"):
        ahead(text, what="the time", now=NOW)
