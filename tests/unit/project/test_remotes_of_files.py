"""Agent files whose agents work elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from ekiden import Runner
from ekiden.agents import AgentFileProblem
from ekiden.core.errors import AgentFilesInvalid
from ekiden.project import load_project
from tests.support.a2a_server import Partner, partner_served


def written(root: Path, front: str, body: str = "") -> Path:
    folder = root / ".ekiden" / "agents"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "partner.md").write_text(
        f"---\nname: partner\n{front}\n---\n{body}", encoding="utf-8"
    )
    return root


def codes(root: Path) -> list[str]:
    try:
        return [each.code for each in load_project(root, home=root / "home").problems]
    except AgentFilesInvalid as exc:
        return [each.code for each in exc.problems if isinstance(each, AgentFileProblem)]


async def test_a_file_with_a_card_is_a_remote_agent(tmp_path: Path) -> None:
    partner = Partner()
    async with partner_served(partner) as (url, _):
        root = written(tmp_path, f"a2a: {url}\ndescription: Prints.")
        async with load_project(root, home=root / "home") as project:
            agent = project.team["partner"]
            assert agent.description == "Prints."
            assert agent.model is None
            result = await Runner.run(agent, "flyers")
    assert result.final_output == "printed: flyers"


@pytest.mark.parametrize("header", [None, "X-Key"])
async def test_the_token_of_a_remote_agent_is_read_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, header: str | None
) -> None:
    monkeypatch.setenv("PARTNER_TOKEN", "s3cret")
    async with partner_served(Partner()) as (url, cuts):
        more = f"\n  header: {header}" if header else ""
        front = f"a2a:\n  card: {url}\n  token_env: PARTNER_TOKEN\n  timeout: 20{more}"
        root = written(tmp_path, front)
        async with load_project(root, home=root / "home") as project:
            await Runner.run(project.team["partner"], "flyers")
    sent = cuts.headers[0]
    assert (sent.get("x-key"), sent.get("authorization")) == (
        ("s3cret", None) if header else (None, "Bearer s3cret")
    )


@pytest.mark.parametrize(
    ("front", "code"),
    [
        ("a2a: http://agents.example", "agent.bad_address"),
        ("a2a: nonsense", "agent.bad_address"),
        ("a2a: [https://x.example]", "agent.wrong_type"),
        ("a2a:\n  token_env: X", "agent.missing_key"),
        ("a2a:\n  card: https://x.example\n  token_env: sk-123 456", "agent.bad_variable"),
        ("a2a:\n  card: https://x.example\n  header: 'X: y'", "agent.bad_header"),
        ("a2a: https://x.example\nmodel: openai:gpt-5", "agent.not_with_a2a"),
        ("a2a: https://x.example\ntools: [shell]", "agent.not_with_a2a"),
        ("a2a: https://x.example\ncanAsk: [other]", "agent.not_with_a2a"),
        ("a2a: https://x.example\nsupervisor: true", "agent.not_with_a2a"),
    ],
)
def test_an_invalid_remote_entry_is_reported_with_its_place(
    tmp_path: Path, front: str, code: str
) -> None:
    assert code in codes(written(tmp_path, front))


def test_unused_instructions_of_a_remote_agent_are_a_warning(tmp_path: Path) -> None:
    assert codes(written(tmp_path, "a2a: https://x.example", "You are kind.")) == [
        "agent.unused_instructions"
    ]
    assert codes(written(tmp_path, "a2a: https://x.example")) == []
