"""The shop's own database: customers, orders, payments and courier pick-ups, in a SQLite file.

The payment ledger takes idempotency keys. A repeated payment with the same key gets the stored
result and pays nothing. The same key with other arguments is refused, and recorded as a violation.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

_SCHEMA = """
pragma journal_mode = wal;
create table if not exists customers (id text primary key, name text, refunds integer);
create table if not exists orders (
  id text primary key, customer text references customers, article text, cents integer,
  state text, city text, is_back integer
);
create table if not exists payments (key text primary key, order_id text, cents integer, at real);
create table if not exists pickups (key text primary key, order_id text, state text, at real);
create table if not exists attempts (
  number integer primary key, kind text, key text, order_id text, cents integer, outcome text,
  at real
);
"""

Row = dict[str, Any]


class KeyReused(Exception):
    """An idempotency key was used again with other arguments."""


class Books:
    """The database in the file `path`, which is created if it is missing."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with closing(self._connect()) as connection:
            connection.executescript(_SCHEMA)

    def fill(self, customers: Iterable[Row], orders: Iterable[Row]) -> None:
        """Add customers and orders; existing ones stay as they are."""
        with self._writing() as connection:
            connection.executemany(
                "insert or ignore into customers values (:id, :name, :refunds)", customers
            )
            connection.executemany(
                "insert or ignore into orders values "
                "(:id, :customer, :article, :cents, :state, :city, :is_back)",
                orders,
            )

    def set_price(self, order_id: str, cents: int) -> None:
        """Change the price of an order."""
        with self._writing() as connection:
            connection.execute("update orders set cents = ? where id = ?", (cents, order_id))

    def order(self, order_id: str) -> Row:
        """An order with its customer's number of earlier refunds. Raises `LookupError`."""
        found = self.rows(
            "select orders.*, refunds from orders join customers on customers.id = customer "
            "where orders.id = ?",
            order_id,
        )
        if not found:
            raise LookupError(f"there is no order {order_id}")
        return found[0]

    def rows(self, query: str, *values: object) -> list[Row]:
        """The rows that a query finds."""
        with closing(self._connect()) as connection:
            connection.row_factory = sqlite3.Row
            return [dict(row) for row in connection.execute(query, values)]

    def pay(self, key: str, order_id: str, cents: int) -> Row:
        """Pay money back, once for each key. Raises `KeyReused`."""
        at = time.time()
        with self._writing() as connection:
            found = connection.execute(
                "select order_id, cents, at from payments where key = ?", (key,)
            ).fetchone()
            if found is None:
                found = (order_id, cents, at)
                connection.execute("insert into payments values (?, ?, ?, ?)", (key, *found))
                outcome = "paid"
            else:
                outcome = "repeated" if found[:2] == (order_id, cents) else "violation"
            _note(connection, "payment", key, order_id, cents, outcome, at)
        if outcome == "violation":
            raise KeyReused(f"the key {key} was used for {found[1]} cents of order {found[0]}")
        return {"order_id": order_id, "paid_cents": found[1], "paid_at": found[2]}

    def set_pickup(self, key: str, order_id: str, state: str) -> None:
        """Set the state of a pick-up: `reserved`, `confirmed` or `released`. A released pick-up
        stays released, so a late request cannot reserve it again."""
        at = time.time()
        with self._writing() as connection:
            connection.execute(
                "insert into pickups values (?, ?, ?, ?) on conflict (key) do update "
                "set state = excluded.state, at = excluded.at where state <> 'released'",
                (key, order_id, state, at),
            )
            _note(connection, "pickup", key, order_id, 0, state, at)

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with closing(self._connect()) as connection:
            connection.execute("begin immediate")
            with connection:
                yield connection

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, timeout=60)
        connection.execute("pragma synchronous = normal")
        return connection


def _note(connection: sqlite3.Connection, kind: str, key: str, *facts: object) -> None:
    connection.execute(
        "insert into attempts (kind, key, order_id, cents, outcome, at) values (?, ?, ?, ?, ?, ?)",
        (kind, key, *facts),
    )


def opened() -> Books:
    """The books in the file that `SHOP_BOOKS` names, by default `.ekiden/books.db`."""
    return Books(Path(os.environ.get("SHOP_BOOKS", ".ekiden/books.db")))
