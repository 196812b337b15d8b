"""Fault points: named, listed, and harmless unless a test arms them."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import get_args

import pytest

from ekiden import UserError
from ekiden.core.faults import FaultPointName
from ekiden.testing.faults import fault_points, main
from tests.support.cases import each_case

VISIT_THRICE = """
from ekiden.core.faults import fault_point
for visit in (1, 2, 3):
    fault_point("run.begin.before_commit")
    print("alive after", visit, flush=True)
"""


def visits(**environment: str) -> tuple[int, int]:
    """The exit code of a process that comes by a point three times, and how far it got."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("EKIDEN_")}
    done = subprocess.run(
        [sys.executable, "-c", VISIT_THRICE],
        env={**clean, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert not done.stderr
    return done.returncode, done.stdout.count("alive")


def test_an_armed_point_kills_the_process() -> None:
    armed = visits(EKIDEN_TESTING="1", EKIDEN_FAULT="run.begin.before_commit")
    assert armed == (-signal.SIGKILL, 0)


@pytest.mark.parametrize("spec", ["run.begn.before_commit", "run.begin.before_commit:often"])
def test_an_unknown_point_is_an_error_listing_the_known_ones(spec: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import ekiden.core.faults"],
        env={**os.environ, "EKIDEN_TESTING": "1", "EKIDEN_FAULT": spec},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "UserError: EKIDEN_FAULT" in done.stderr
    assert "handoff.transferring.before_commit" in done.stderr or "nth" in done.stderr


def test_a_point_can_be_armed_for_a_later_visit() -> None:
    armed = visits(EKIDEN_TESTING="1", EKIDEN_FAULT="run.begin.before_commit:3")
    assert armed == (-signal.SIGKILL, 2)


def test_a_point_can_stop_the_process_once() -> None:
    clean = {k: v for k, v in os.environ.items() if not k.startswith("EKIDEN_")}
    process = subprocess.Popen(
        [sys.executable, "-c", VISIT_THRICE],
        env={
            **clean,
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            "EKIDEN_TESTING": "1",
            "EKIDEN_FAULT": "run.begin.before_commit:2:stop",
        },
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        process.send_signal(signal.SIGCONT)
        output, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    assert (process.returncode, output.count("alive")) == (0, 3)


@each_case(
    "environment",
    [
        {},
        {"EKIDEN_FAULT": "run.begin.before_commit"},
        {"EKIDEN_FAULT": "run.begin.before_commit", "EKIDEN_TESTING": "yes"},
        {"EKIDEN_FAULT": "run.begin.after_commit", "EKIDEN_TESTING": "1"},
        {"EKIDEN_FAULT": "run.begin.before_commit:4", "EKIDEN_TESTING": "1"},
        {"EKIDEN_FAULT": "", "EKIDEN_TESTING": "1"},
    ],
)
def test_without_arming_nothing_happens(environment: dict[str, str]) -> None:
    assert visits(**environment) == (0, 3)


def test_names_are_dotted_lower_case() -> None:
    form = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)+")
    assert [point for point in fault_points() if not form.fullmatch(point.name)] == []


def test_the_list_of_points_equals_the_source() -> None:
    assert list(get_args(FaultPointName)) == [point.name for point in fault_points()]


def test_each_point_name_occurs_once_in_the_source() -> None:
    places = defaultdict(list)
    for point in fault_points():
        places[point.name].append(f"{point.file}:{point.line}")
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


def test_points_are_found_in_the_source(tmp_path: Path) -> None:
    package = tmp_path / "pkg"
    (package / "sub").mkdir(parents=True)
    (package / "a.py").write_text("\nfault_point('z.last')\n", encoding="utf-8")
    (package / "sub" / "b.py").write_text(
        "def f():\n    if x:\n        faults.fault_point('a.first')  # fault_point('no.comment')\n",
        encoding="utf-8",
    )
    (package / "c.py").write_text("def fault_point(name): ...\n", encoding="utf-8")

    assert [(p.name, p.file, p.line) for p in fault_points(package)] == [
        ("a.first", "pkg/sub/b.py", 3),
        ("z.last", "pkg/a.py", 2),
    ]


def test_a_computed_name_is_refused_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("\n\nfault_point(f'x.{y}')\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"a\.py:3: a fault point needs a literal name"):
        fault_points(tmp_path)


def test_the_command_prints_the_points(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert main(["--json"]) == 0
    listed = json.loads(capsys.readouterr().out)

    assert [line.split() for line in lines] == [
        [point["name"], f"{point['file']}:{point['line']}"] for point in listed
    ]
    assert listed


def test_the_module_is_a_command() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "ekiden.testing.faults", "--json"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert len(json.loads(done.stdout)) == len(fault_points())
