"""Which formats work with which."""

from __future__ import annotations

import pytest

from ekiden.core.errors import StoreTooNew
from ekiden.storage.copying import Migration, check_newer
from ekiden.storage.postgres import store as postgres
from ekiden.storage.sqlite import open_store as sqlite
from tests.support.cases import each_case


@each_case(
    ("sql", "oldest"),
    [
        ("-- works with: 4\ncreate table a ()", 4),
        ("-- works with: 12", 12),
        ("-- works with: 4 \r\n\n", 4),
        ("", None),
        ("create table a ();\n-- works with: 4\n", None),
        ("-- works with: 0\n", None),
        ("-- works with: 4 or 5\n", None),
        ("-- works with: ４\n", None),
    ],
)
def test_the_first_line_of_a_migration_names_the_oldest_compatible_format(
    sql: str, oldest: int | None
) -> None:
    assert Migration(number=5, name="0005_more", sql=sql).works_with == oldest


def test_sqlite_and_postgres_have_the_same_formats_and_compatibility() -> None:
    ours = [(each.number, each.works_with) for each in postgres.shipped()]
    assert ours == [(each.number, each.works_with) for each in sqlite.shipped()]
    assert [number for number, _ in ours] == list(range(8, 8 + len(ours)))
    # Older processes would keep old conclusions, and could not read approvals with versions.
    assert [number for number, oldest in ours[1:] if oldest is None] == [9]


@pytest.mark.parametrize(
    "ran",
    [{6: 5}, {6: 5, 7: 4}, {5: None, 6: 1}, {}],
)
def test_a_newer_compatible_format_is_accepted(ran: dict[int, int | None]) -> None:
    check_newer("here", known=5, ran=ran, found=max(ran, default=5))


@pytest.mark.parametrize("ran", [{6: None}, {6: 6}, {6: 5, 7: 6}, {7: 5}])
def test_a_newer_incompatible_format_is_refused(ran: dict[int, int | None]) -> None:
    with pytest.raises(StoreTooNew, match="in every process that uses the store"):
        check_newer("here", known=5, ran=ran, found=max(ran))
