"""How a run at a server is told to end."""

from __future__ import annotations

from typing import Any

from ekiden.cli.onlooker import problem_of
from ekiden.cli.remote.watching import RemoteResult
from ekiden.client.values import Run
from tests.support.cases import each_case


def run(status: str, **more: Any) -> Run:
    return Run.of({"run_id": "s:1", "session_id": "s", "status": status, **more})


FAILURE = {"code": "model.failed", "message": "no answer"}


@each_case(
    ("found", "told"),
    [
        (run("done", output="42"), None),
        (run("waiting", questions=["i"]), ("run.waiting", "the session waits: for people")),
        (run("waiting"), ("run.waiting", "the session waits: for others")),
        (run("refused", error=FAILURE), ("model.refused", "the model refused: no answer")),
        (run("failed", error=FAILURE), ("model.failed", "no answer")),
        (run("out_of_budget"), ("run.out_of_budget", "the run is out_of_budget")),
        (run("stopped"), ("run.stopped", "the run is stopped")),
    ],
)
def test_an_outcome_is_told_with_the_words_of_the_server(
    found: Run, told: tuple[str, str] | None
) -> None:
    assert problem_of(RemoteResult(found).outcome) == told
