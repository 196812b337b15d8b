"""The benchmark does the work that it says it measures."""

from __future__ import annotations

from pathlib import Path

import pytest

from ekiden.core.conversation.messages import AgentMessage
from ekiden.core.conversation.model import assistant_message
from ekiden.project.bench import SCENARIOS, Sizes, bench
from ekiden.project.bench.measure import ProcessMemory, WrongAnswer


@pytest.mark.slow
async def test_every_scenario_returns_figures_and_a_floor(tmp_path: Path) -> None:
    figures = await bench(tuple(SCENARIOS), Sizes.quick(), tmp_path)
    assert figures["floor_us"]["before"]["cpu"] > 0
    assert figures["scenarios"]["s1"]["x_floor"] > 0
    assert figures["scenarios"]["s2"]["sessions"] == 20
    assert figures["scenarios"]["s3"]["messages"] == [10, 50]
    assert figures["scenarios"]["s4"]["bytes_per_session"] > 0
    assert len(figures["scenarios"]["s4"]["fsync_us"]) == 2
    in_memory = figures["scenarios"]["s5"]
    assert (in_memory["callers"], in_memory["stored"]["callers"]) == (1, 16)
    assert in_memory["x_floor"] > 0
    assert in_memory["stored"]["x_floor"] > 0
    assert in_memory["at_once"]["callers"] == in_memory["at_once"]["queries"]
    assert in_memory["stored_one_by_one"]["callers"] == 1
    assert not list(tmp_path.iterdir()), "nothing is left behind"


async def test_a_figure_is_compared_with_the_floor(tmp_path: Path) -> None:
    figures = await bench(["s1"], Sizes.quick(), tmp_path)
    assert figures["floor_us"]["before"]["cpu"] > 0
    assert figures["scenarios"]["s1"]["x_floor"] > 0


async def test_a_run_with_a_wrong_answer_is_not_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = assistant_message("something else")
    monkeypatch.setattr("ekiden.project.bench.measure.assistant_message", lambda _: other)
    with pytest.raises(WrongAnswer):
        await bench(["s1"], Sizes.quick(), tmp_path)
    with pytest.raises(WrongAnswer):
        await bench(["s2"], Sizes.quick(), tmp_path)

    async def deaf(message: AgentMessage) -> str:
        return "pardon?"

    monkeypatch.setattr("ekiden.project.bench.measure._echo", deaf)
    with pytest.raises(WrongAnswer):
        await bench(["s5"], Sizes.quick(), tmp_path)


def test_memory_is_unknown_where_the_system_does_not_report_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ProcessMemory, "_STATUS", tmp_path / "status")
    monkeypatch.setattr(ProcessMemory, "_RESET", tmp_path / "missing" / "clear_refs")
    assert ProcessMemory().peak_kb() is None
