"""The programs in `examples/`, run as their first lines say."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import pytest

from tests.acceptance.conftest import Ekiden

EXAMPLES = Path(__file__).parents[2] / "examples"


Start: TypeAlias = Callable[[str], subprocess.Popen[str]]


@pytest.fixture
def start(ekiden: Ekiden) -> Iterator[Start]:
    """Starts an example in a folder of its own; none of them outlives the test."""
    processes: list[subprocess.Popen[str]] = []

    def begin(name: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, str(EXAMPLES / name)],
            cwd=ekiden.folder,
            env={**ekiden.env, "PYTHONPATH": os.pathsep.join(sys.path)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )
        processes.append(process)
        return process

    yield begin
    for process in processes:
        process.kill()
        process.communicate()


def asked(process: subprocess.Popen[str]) -> list[str]:
    """What the example says is to be typed in another terminal, without the command itself."""
    assert process.stdout is not None
    for line in process.stdout:
        if line.strip().startswith("ekiden inbox answer"):
            return line.split()[1:]
    raise AssertionError(process.communicate())


@pytest.mark.parametrize(
    ("choice", "offer"),
    [
        ("approve", "Offer for 青木商店: 1020 (15 % off, granted by mira)\n"),
        ("reject", "Offer for 青木商店: 1200 (list price)\n"),
    ],
)
def test_the_operator_answers_from_another_terminal_and_pm_finishes(
    ekiden: Ekiden, start: Start, choice: str, offer: str
) -> None:
    process = start("offer.py")
    command = [choice if word == "approve" else word for word in asked(process)]
    answered = ekiden(*command, "--by", "mira")
    assert answered.code == 0, answered.err
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (0, offer, "")


def test_the_offer_goes_on_after_its_program_was_killed(ekiden: Ekiden, start: Start) -> None:
    process = start("offer.py")
    command = asked(process)
    process.kill()
    process.communicate(timeout=60)
    assert ekiden(*command, "--by", "mira").code == 0
    out, err = start("offer.py").communicate(timeout=60)
    assert out == (
        "going on where it was left\nOffer for 青木商店: 1020 (15 % off, granted by mira)\n"
    )
    assert err == ""
