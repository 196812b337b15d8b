"""The defects that are planted on purpose can still be planted; `make mutations` looks what catches
each of them."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.mutations.mutation import ROOT, Mutation
from tests.mutations.run import ALL


@pytest.mark.parametrize("mutation", ALL, ids=lambda each: each.name)
def test_a_defect_still_applies(mutation: Mutation, tmp_path: Path) -> None:
    assert mutation.problem() is None
    copy = mutation.path(tmp_path)
    copy.parent.mkdir(parents=True)
    sound = mutation.path(ROOT).read_bytes()
    copy.write_bytes(sound)
    with mutation.planted(tmp_path):
        assert copy.read_bytes() != sound
        ast.parse(copy.read_text("utf-8"))
    assert copy.read_bytes() == sound
    for argument in mutation.tests:
        assert not argument.startswith("tests/") or (ROOT / argument).exists()


def test_the_defects_are_many_and_of_every_kind() -> None:
    names = [mutation.name for mutation in ALL]
    assert len(names) == len(set(names)) >= 16
    assert {mutation.area for mutation in ALL} == {
        "fencing", "leases", "memo", "idempotency", "handoff", "rollback", "settling", "inbox",
        "wakes", "audit", "outbox", "doubt",
    }  # fmt: skip
    for store in ("sqlite", "postgres"):
        assert sum(name.startswith(f"{store}-") for name in names) >= 5
