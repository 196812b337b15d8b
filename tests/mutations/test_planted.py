"""The defects that are planted on purpose can still be planted; `make mutations` looks what catches
each of them."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path

import pytest

from tests.mutations.mutation import ROOT, Mutation
from tests.mutations.run import ALL, Copy


@pytest.mark.parametrize("mutation", ALL, ids=lambda each: each.name)
def test_a_planted_defect_still_applies(mutation: Mutation, tmp_path: Path) -> None:
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


def test_a_defect_whose_tests_are_gone_is_broken() -> None:
    mutation = replace(ALL[0], tests=("tests/mutations/test_planted.py", "-k", "no_such_test"))
    finding = Copy(ROOT, postgres="").examine(mutation, quick=True)
    assert finding.fate == "broken"
    assert "deselected" in finding.test


@pytest.mark.slow
def test_each_name_in_a_selection_is_a_tests_name() -> None:
    copy, missing = Copy(ROOT, postgres=""), []
    for marks in ((), ("-m", "slow or not slow")):
        chosen = {
            (each.tests[0], term)
            for each in ALL
            if "-k" in each.tests and ("-m" in each.tests) == bool(marks)
            for term in each.tests[2].split(" or ")
        }
        files = sorted({file for file, _ in chosen})
        code, output = copy.pytest(["--collect-only", *marks, *files])
        assert code == 0, output
        for file, term in chosen:
            tests = [line for line in output.splitlines() if line.startswith(f"{file}::")]
            if not any(all(word in test for word in term.split(" and ")) for test in tests):
                missing.append(f"{file} -k {term!r}")
    assert missing == []


def test_each_planted_defect_gets_bytecode_of_its_own(tmp_path: Path) -> None:
    """Python compares the size of the source and the second in which it was written."""
    copy = ALL[0].path(tmp_path)
    copy.parent.mkdir(parents=True)
    copy.write_bytes(ALL[0].path(ROOT).read_bytes())
    seconds = [int(copy.stat().st_mtime)]
    for _ in range(2):
        with ALL[0].planted(tmp_path):
            seconds.append(int(copy.stat().st_mtime))
    assert len(set(seconds)) == 3
    assert int(copy.stat().st_mtime) == seconds[0]


def test_the_planted_defects_cover_every_area() -> None:
    names = [mutation.name for mutation in ALL]
    assert len(names) == len(set(names)) >= 16
    assert {mutation.area for mutation in ALL} == {
        "fencing", "leases", "memo", "idempotency", "handoff", "rollback", "settling", "inbox",
        "wakes", "audit", "outbox", "doubt", "unknown", "conclusion", "versions",
        "approvals", "contract",
    }  # fmt: skip
    for store in ("sqlite", "postgres"):
        assert sum(name.startswith(f"{store}-") for name in names) >= 5
