"""A handle to a session: which ids it takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ekiden import MemoryStore, Session, UserError


def test_only_a_session_id_of_none_generates_an_id() -> None:
    store = MemoryStore()
    made = {Session(store=store).session_id, Session(None, store=store).session_id}
    assert len(made) == 2
    assert Session("customer-42", store=store).session_id == "customer-42"


@pytest.mark.parametrize("session_id", ["", " ", "a b", "a\n", "x" * 129])
def test_an_invalid_session_id_is_refused(session_id: str) -> None:
    with pytest.raises(UserError, match="is not a valid session id"):
        Session(session_id, store=MemoryStore())


@pytest.mark.parametrize("session_id", [5, 0, False, b"s", ("s",)])
def test_a_session_id_that_is_not_text_is_refused(session_id: Any) -> None:
    with pytest.raises(UserError, match="a session id must be text, not"):
        Session(session_id, store=MemoryStore())


@pytest.mark.parametrize("store", ["desk.db", Path("desk.db")])
def test_a_path_in_place_of_a_store_is_refused_with_advice(store: Any) -> None:
    with pytest.raises(UserError, match="open_store\\('desk.db'\\) gives one"):
        Session("s", store=store)
