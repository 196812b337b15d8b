"""How often routing is right in teams whose agents have a description and nothing else.

    python benchmarks/described_teams.py [--library FOLDER] [--json]

The teams and the requests are in ``described_teams.json``, in English and Chinese. With
``--library`` the agents of the files in a project's folder are added to each team: how requests
fare among hundreds of others.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

from ekiden import Agent
from ekiden.agents import load_agent_files
from ekiden.embeddings.local import MISSING, local_embedder
from ekiden.routing.semantic import SemanticStage


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--library", type=Path)
    options.add_argument("--json", action="store_true")
    given = options.parse_args()
    embedder = local_embedder()
    if embedder is None:
        raise SystemExit(MISSING)
    others = [] if given.library is None else load_agent_files(given.library).definitions
    teams = json.loads(Path(__file__).with_suffix(".json").read_text("utf-8"))
    found: dict[str, dict[str, Any]] = {}
    for name, team in teams.items():
        agents: list[Agent[Any]] = [Agent(n, description=d) for n, d in team["agents"].items()]
        own = {agent.name for agent in agents}
        agents += [Agent(e.name, description=e.description) for e in others if e.name not in own]
        began = time.process_time()
        stage = SemanticStage(agents, embedder)
        learn_s = time.process_time() - began
        asked = [(text, who) for who, texts in team["requests"].items() for text in texts]
        said = [(stage.decide(text), who) for text, who in asked]
        found[name] = {
            "agents": len(agents),
            "requests": len(asked),
            "right": sum(each.agent == who for each, who in said),
            "among_three": sum(who in [c.agent for c in e.candidates[:3]] for e, who in said),
            "refused": sum(each.agent is None for each, _ in said),
            "for_nobody": len(team["nobody"]),
            "nobody_refused": sum(stage.decide(text).agent is None for text in team["nobody"]),
            "learn_cpu_s": round(learn_s, 1),
        }
        if not given.json:
            print(name, *(f"{key}={value}" for key, value in found[name].items()), flush=True)
    if given.json:
        print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
