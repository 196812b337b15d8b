"""What a PostgreSQL URL means, and what of it is shown."""

import pytest

from ekiden.core.errors import UserError
from ekiden.storage.postgres import PostgresStore
from ekiden.storage.postgres.address import parse_address
from tests.support.cases import each_case


@each_case(
    ("url", "shown"),
    [
        ("postgresql://me:s3cret@db:5433/app", "postgresql://me@db:5433/app"),
        ("postgres://me:s3cret@db/app", "postgresql://me@db/app"),
        ("postgresql://db/app", "postgresql://db/app"),
        ("postgresql://me:s3c@ret@db/app", "postgresql://me@db/app"),
        ("postgresql://:s3cret@db/app", "postgresql://db/app"),
        ("postgresql://me:s3cret@[::1]:5433/app", "postgresql://me@[::1]:5433/app"),
        ("postgresql://me:s3cret@a:1,b:2/app", "postgresql://me@a:1,b:2/app"),
        ("postgresql://me@/app?host=/run/pg", "postgresql://me@/app?host=/run/pg"),
        ("postgresql://db/app?user=me&password=s3cret", "postgresql://db/app?user=me"),
        ("postgresql://db/app?sslpassword=s3cret", "postgresql://db/app"),
        ("postgresql://me:s3cret@db/app?schema=blue", "postgresql://me@db/app?schema=blue"),
    ],
)
def test_a_password_is_never_shown(url: str, shown: str) -> None:
    store = PostgresStore(url)
    assert store.url == shown
    assert "s3c" not in repr(store) + repr(parse_address(url))


@each_case(
    "url",
    [
        "postgresql://me:s3/cret@db/app",
        "postgresql://me:s3?cret@db/app",
        "postgresql://me:s3#cret@db/app",
        "postgresql://me:s3cret/app",
        "postgresql://me:s3cret",
        "postgresql://me:s3cret@[::1/app",
        "postgresql://me:s3cret@db:port/app",
    ],
)
def test_a_url_that_cannot_be_read_is_refused_without_repeating_it(url: str) -> None:
    with pytest.raises(UserError, match="%23") as caught:
        PostgresStore(url)
    assert "cret" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_another_scheme_is_refused() -> None:
    with pytest.raises(UserError, match="postgresql://"):
        PostgresStore("mysql://db/app")


def test_the_schema_is_removed_from_the_drivers_address() -> None:
    address = parse_address("postgresql://me:p%23w@db/app?schema=blue&sslmode=disable")
    assert address.dsn == "postgresql://me:p%23w@db/app?sslmode=disable"
    assert address.schema == "blue"


def test_the_schema_has_a_default_and_the_argument_wins() -> None:
    assert parse_address("postgresql://db/app").schema == "ekiden"
    assert parse_address("postgresql://db/app?schema=blue", "red").schema == "red"


@pytest.mark.parametrize("schema", ['a"; drop table sessions; --', "1a", "x" * 49, "ü"])
def test_a_schema_has_a_plain_name(schema: str) -> None:
    with pytest.raises(UserError, match="schema"):
        PostgresStore("postgresql://db/app", schema=schema)


@pytest.mark.parametrize(("min_size", "max_size"), [(-1, 1), (2, 1), (0, 0)])
def test_invalid_pool_sizes_are_refused(min_size: int, max_size: int) -> None:
    with pytest.raises(UserError, match="max_size"):
        PostgresStore("postgresql://db/app", min_size=min_size, max_size=max_size)
