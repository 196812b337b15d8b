"""How PostgreSQL's own programs get the address of a database."""

from __future__ import annotations

import pytest

from ekiden.storage.postgres.address import login_of


@pytest.mark.parametrize(
    ("url", "shown", "password"),
    [
        ("postgresql://host/desk", "postgresql://host/desk", None),
        ("postgresql:///desk?host=/run/pg", "postgresql:///desk?host=/run/pg", None),
        ("postgresql://me:a%2Fb@host:1,other:2/desk", "postgresql://me@host:1,other:2/desk", "a/b"),
        ("postgresql://a%40b@host/desk?password=hush", "postgresql://a%40b@host/desk", "hush"),
        (
            "postgresql://host/?database=d&sslmode=require&sslpassword=hush&work_mem=64MB",
            "postgresql://host/?dbname=d&sslmode=require",
            None,
        ),
    ],
)
def test_the_password_is_separated_from_the_address(
    url: str, shown: str, password: str | None
) -> None:
    login = login_of(url)
    assert (login.url, login.environment.get("PGPASSWORD")) == (shown, password)
    assert password is None or password not in repr(login)
