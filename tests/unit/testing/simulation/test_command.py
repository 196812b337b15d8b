"""``python -m ekiden.testing.simulate``."""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path

import pytest

from ekiden.cli.main import main
from ekiden.testing import simulate as command
from ekiden.testing.simulation import GuaranteeViolation, SimulationReport
from ekiden.testing.simulation.scene import _module


@pytest.fixture
def worlds(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The seeds that were run; number 4 breaks a promise."""
    run: list[int] = []

    def simulate(*, seed: int) -> SimulationReport:
        run.append(seed)
        broken = (
            (GuaranteeViolation(at_s=1.5, rule="owner", text="two have it"),) if seed == 4 else ()
        )
        return SimulationReport(
            seed=seed, violations=broken, trace=("it began",), seconds=2.0, counts={"commit": 3}
        )

    monkeypatch.setattr(command, "simulate", simulate)
    return run


def test_one_seed_is_printed_as_a_story(
    worlds: list[int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(["--seed", "3"]) == 0
    told = capsys.readouterr().out
    assert told.startswith("it began\n")
    assert "every promise was kept" in told


def test_a_broken_invariant_is_printed_and_sets_the_exit_code(
    worlds: list[int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(["--seed", "4"]) == 1
    assert "1.500 s: [owner] two have it" in capsys.readouterr().out


def test_one_seed_is_printed_as_json(worlds: list[int], capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--seed", "3", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["trace"] == ["it began"]


def test_many_seeds_report_the_failed_ones_as_json(
    worlds: list[int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(["--seeds", "1-5", "--json"]) == 1
    assert worlds == [1, 2, 3, 4, 5]
    out, err = capsys.readouterr()
    assert "python -m ekiden.testing.simulate --seed 4" in err
    summary = json.loads(out)
    assert (summary["run"], summary["failed"], summary["rules"]) == (5, [4], {"owner": 1})
    assert summary["counts"] == {"commit": 15}


def test_seeds_already_done_are_skipped(
    worlds: list[int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    notes = str(tmp_path / "done.jsonl")
    assert command.main(["--seeds", "1-3", "--done", notes]) == 0
    assert command.main(["--seeds", "1-4", "--done", notes]) == 1
    assert command.main(["--seeds", "4", "--done", notes]) == 1
    assert worlds == [1, 2, 3, 4, 4]
    assert "1 failed: [4]" in capsys.readouterr().out


def test_progress_is_printed_to_stderr(
    worlds: list[int], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "_EVERY_S", 0.0)
    command.main(["--seeds", "1-2"])
    assert "2 of 2, 0 failed" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["--seeds", "x"],
        ["--seeds", "5-1"],
        ["--seeds", "1-2", "--processes", "0"],
        ["--seeds", "1-2", "--processes", "two"],
        [],
    ],
)
def test_invalid_arguments_are_refused(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as refused:
        command.main(arguments)
    assert refused.value.code == 2


@pytest.mark.slow
def test_several_processes_share_the_seeds(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--seeds", "1-2", "--processes", "2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["run"] == 2


SHOP = """
from ekiden import Agent, ToolContext, function_tool
from ekiden.testing import ScriptedModel, call, say
from ekiden.testing.simulation import Scene, Talk


@function_tool
async def book(ctx: ToolContext, what: str) -> str:
    await ctx.context.effect(what)
    return "booked"


def script(request):
    done = any(item.get("type") == "function_call_output" for item in request.input)
    return say("Booked.") if done else call("book", what="talk1/room")


desk = Agent("desk", model=ScriptedModel(respond=script, record=False), tools=[book])
scene = Scene(team=desk, talks=[Talk(id="talk1", texts=["a room, please"])])


def scenes(chance):
    return scene


nothing = 1
"""


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A team whose tool ignores its key; the folder is ours for the test."""
    (tmp_path / "a_simulated_shop.py").write_text(SHOP)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [*sys.path])
    monkeypatch.delitem(sys.modules, "a_simulated_shop", raising=False)
    _module.cache_clear()
    return "a_simulated_shop.py"


@pytest.mark.parametrize(
    "arguments",
    [
        (":scene",),
        (":desk", "--say", "go"),
        pytest.param(("",), marks=pytest.mark.slow),
        pytest.param((":scenes",), marks=pytest.mark.slow),
    ],
)
def test_the_scene_of_a_user_team_is_simulated_and_replayed(
    shop: str, arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    name, *options = arguments
    assert main(["simulate", f"{shop}{name}", *options, "--seeds", "15", "--json"]) == 1
    out, err = capsys.readouterr()
    summary = json.loads(out)
    assert (summary["run"], summary["rules"]) == (15, {"effect": len(summary["failed"])})
    told = [line.strip() for line in err.splitlines() if "ekiden simulate" in line]
    replay = shlex.split(told[0])
    assert main(replay[1:]) == 1
    assert re.search(r"\[effect\] talk\d/room was done \d times", capsys.readouterr().out)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["no_such_file.py:scene"], "cannot be imported"),
        (["{shop}:missing"], "has nothing called 'missing'"),
        (["{shop}:nothing"], "must be a Scene"),
        (["{shop}:desk"], "there is no message for"),
        (["{shop}:scene", "--say", "hello"], "--say works only for an agent or a team"),
        (["{shop}:scene", "--seeds", "some"], "--seeds must be a number"),
        (["{shop}:scene", "--seeds", "5-1"], "error[cli.usage]: --seeds 5-1 has no seeds"),
    ],
)
def test_an_invalid_scene_is_a_clear_error(
    shop: str, arguments: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", *(each.format(shop=shop) for each in arguments)]) != 0
    assert problem in capsys.readouterr().err
