"""The first steps of `examples/shop/README.md`, as a person takes them."""

from __future__ import annotations

import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.acceptance.conftest import Ekiden
from tests.support.forked import ForkedPopen

SHOP = Path(__file__).parents[2] / "examples" / "shop"
_RUN = ("run", "--team", "desk.team:team", "--user", "mira", "--approve", "inbox")


@pytest.fixture
def shop(ekiden: Ekiden) -> Iterator[Ekiden]:
    """The command in a copy of the shop, beside which `desk.demo` runs."""
    for name in ("desk", ".ekiden"):
        shutil.copytree(SHOP / name, ekiden.folder / name)
    ekiden.env["EKIDEN_TRUST"] = "1"
    demo = ForkedPopen(
        [sys.executable, "-m", "desk.demo", "--port", "0"],
        cwd=ekiden.folder,
        env=ekiden.env,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert demo.stdout is not None
        address = demo.stdout.readline().split()[-1]
        assert "ready" in demo.stdout.readline()
        ekiden.env["EKIDEN_MODEL"] = f"openai:scripted@{address}"
        yield ekiden
    finally:
        demo.terminate()
        demo.communicate(timeout=60)
    assert demo.returncode == 0


def test_the_shop_answers_in_the_language_of_the_customer(shop: Ekiden) -> None:
    assert "Order 10001 (lamp) is shipped." in shop(*_RUN, "Where is my order 10001?").out
    assert "没有快递可以取订单 10003" in shop(*_RUN, "请上门取件，订单 10003。").out


def test_a_large_refund_is_paid_after_an_approval(shop: Ekiden) -> None:
    asked = shop(*_RUN, "--session", "broken", "I want a refund for order 10003.")
    assert "refunds asks operator: Refund 42000 cents for 10003" in asked.out + asked.err
    shop("inbox", "answer", "inb_", "approve", "--by", "anna")
    paid = shop("session", "resume", "broken", "--team", "desk.team:team")
    assert "42000 cents for order 10003 are paid back." in paid.out


def test_a_new_price_asks_again_and_the_answer_to_the_old_one_is_not_used(shop: Ekiden) -> None:
    parcel = "@returns The parcel of order 10003 is back."
    asked = shop(*_RUN, "--session", "parcel", parcel)
    assert "returns asks operator: Refund 42000 cents for 10003" in asked.out + asked.err
    with closing(sqlite3.connect(shop.folder / ".ekiden" / "books.db")) as books, books:
        books.execute("update orders set cents = 50000 where id = '10003'")
    shop("inbox", "answer", "inb_", "approve", "--by", "anna")
    resume = ("session", "resume", "parcel", "--team", "desk.team:team", "--approve", "inbox")
    again = shop(*resume)
    assert "returns asks operator: Refund 50000 cents for 10003" in again.out + again.err
    [*_, new] = re.findall(r"inb_\w+", again.out + again.err)
    shop("inbox", "answer", new, "approve", "--by", "anna")
    paid = shop(*resume)
    assert "50000 cents for order 10003 are paid back." in paid.out
