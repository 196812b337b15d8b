"""How often routing is right, on public sets of requests.

    python benchmarks/routing_accuracy.py --data DIR [--rows clinc-5,domains-10] [--json]
    python benchmarks/routing_accuracy.py --data DIR --rows domains-10 --strategy hybrid \\
        --llm local:/models/some.gguf --sample 200

`DIR` holds two folders; the sets are not part of Ekiden:

- `clinc150/`: `data_full.json` and `domains.json` of CLINC150 (Larson et al. 2019, CC BY 3.0,
  `clinc/oos-eval`), and few-shot samples of it, `clinc150_train_5.jsonl` and `_10.jsonl`, with
  `text` and `intent`;
- `xsid/`: `xsid_<language>_<valid|test>.jsonl` with `text` and `intent` of xSID (van der Goot et
  al. 2021, CC BY-SA 4.0, `mainlp/xsid`).

An agent has a name and examples. *right*: the agent that comes first is the one meant, whether it
stands or not. *outside*: requests that are nobody's and are refused while 95 % of the others are
kept; then, at the line that was learnt, how many of the others are kept and of these refused.
*sure*: how many decisions stand without asking further, and how many of those are right. Domains
are drawn with five seeds. A second encoder is used if there is one: ``EKIDEN_ENCODER`` names its
folder, or is ``none``.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import tempfile
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean

import numpy as np
from embedding_cache import KeptEmbeddings
from routing_rows import ROWS, Examples, Task

from ekiden import Agent
from ekiden.core.profile import Triggers
from ekiden.embeddings.base import second_encoder
from ekiden.embeddings.local import MISSING, local_embedder
from ekiden.routing import RouteDecision, Router
from ekiden.routing.decision import Strategy
from ekiden.routing.semantic import SemanticStage

_TIMED = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Of one task, in per cent unless the name tells otherwise."""

    right: float
    chosen: float
    """Given to an agent, rightly."""
    sure: float
    sure_right: float
    outside_at_95: float | None
    kept: float | None
    outside_refused: float | None
    learn_s: float
    p50_ms: float
    p95_ms: float


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--data", type=Path, required=True)
    options.add_argument("--rows", default=",".join(ROWS))
    options.add_argument("--strategy", choices=("semantic", "hybrid"), default="semantic")
    options.add_argument("--llm", help="a model to ask, such as local:/path.gguf")
    options.add_argument("--sample", type=int, help="ask so many random requests of each row only")
    options.add_argument("--json", action="store_true")
    options.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir(), "ekiden-bench"))
    given = options.parse_args()
    embedder = local_embedder()
    if embedder is None:
        raise SystemExit(MISSING)
    kept = KeptEmbeddings(embedder, given.cache)
    found_second = second_encoder()
    second = None if found_second is None else KeptEmbeddings(found_second, given.cache)
    found: dict[str, dict[str, float | None]] = {}
    if not given.json:
        print(_HEAD, flush=True)
    for key in given.rows.split(","):
        if key not in ROWS:
            raise SystemExit(f"no row is called {key!r}; there are {', '.join(ROWS)}")
        each = [
            asyncio.run(
                _measured(_some(task, given.sample), kept, second, given.strategy, given.llm)
            )
            for task in ROWS[key].tasks(given.data)
        ]
        kept.save()
        if second is not None:
            second.save()
        found[key] = _mean(each)
        if not given.json:
            print(_line(key, found[key]), flush=True)
    if given.json:
        print(json.dumps(found, indent=2))


async def _measured(
    task: Task,
    kept: KeptEmbeddings,
    second: KeptEmbeddings | None,
    strategy: Strategy,
    llm: str | None,
) -> Figures:
    agents = _agents(task.examples)
    for each in (kept, second) if second is not None else (kept,):
        each.embed([*(text for text, _ in task.asked), *task.outside])
        each.embed([text for texts in task.examples.values() for text in texts])
    began = time.perf_counter()
    stage = SemanticStage(agents, kept, second=second)
    learn_s = time.perf_counter() - began
    router = Router(agents, model=llm, semantic=stage)
    decisions = [await router.route(text, strategy=strategy) for text, _ in task.asked]
    right = [_first(each) == own for each, (_, own) in zip(decisions, task.asked, strict=True)]
    chosen = [each.agent == own for each, (_, own) in zip(decisions, task.asked, strict=True)]
    sure = [any(said.sure for said in each.stages) for each in decisions]
    leads = np.array([stage.lead(text) for text, _ in task.asked])
    outside = np.array([stage.lead(text) for text in task.outside])
    times = await _times(agents, task, strategy)
    return Figures(
        right=_percent(right),
        chosen=_percent(chosen),
        sure=_percent(sure),
        sure_right=_percent(ok for ok, is_sure in zip(right, sure, strict=True) if is_sure),
        outside_at_95=_percent(outside < np.quantile(leads, 0.05)) if task.outside else None,
        kept=_percent(leads >= 0),
        outside_refused=_percent(outside < 0) if task.outside else None,
        learn_s=learn_s,
        p50_ms=float(np.quantile(times, 0.5)),
        p95_ms=float(np.quantile(times, 0.95)),
    )


async def _times(agents: list[Agent[None]], task: Task, strategy: Strategy) -> list[float]:
    """Milliseconds a request takes, its embedding included, without a model."""
    router = Router(agents)
    await router.prepare()
    return [
        (await router.route(text, strategy=strategy)).elapsed_ms
        for text, _ in random.Random(1).sample(task.asked, min(_TIMED, len(task.asked)))
    ]


def _agents(examples: Examples) -> list[Agent[None]]:
    return [Agent(name, triggers=Triggers(examples=texts)) for name, texts in examples.items()]


def _first(decision: RouteDecision) -> str | None:
    if decision.agent is not None:
        return decision.agent
    return decision.candidates[0].agent if decision.candidates else None


def _some(task: Task, sample: int | None) -> Task:
    if sample is None or sample >= len(task.asked):
        return task
    asked = tuple(random.Random(0).sample(task.asked, sample))
    return Task(examples=task.examples, asked=asked, outside=task.outside[:sample])


def _percent(values: Iterable[object]) -> float:
    listed = [bool(value) for value in values]
    return 100 * sum(listed) / max(1, len(listed))


def _mean(each: list[Figures]) -> dict[str, float | None]:
    rows = [asdict(figures) for figures in each]
    return {
        name: None if rows[0][name] is None else fmean(row[name] for row in rows)
        for name in rows[0]
    }


_HEAD = (
    "| set | right % | soft-max on the same embedding | best of all | outside refused %, 95 % kept "
    "| at the line: kept, outside refused % | sure %, of these right % | p50, p95 ms | learn s |\n"
    "| --- | --- | --- | --- | --- | --- | --- | --- | --- |"
)


def _line(key: str, figures: dict[str, float | None]) -> str:
    def shown(name: str) -> str:
        value = figures[name]
        return "–" if value is None else f"{value:.1f}"

    row = ROWS[key]
    cells = (
        row.title,
        shown("right"),
        str(row.use),
        str(row.best),
        shown("outside_at_95"),
        f"{shown('kept')}, {shown('outside_refused')}",
        f"{shown('sure')}, {shown('sure_right')}",
        f"{shown('p50_ms')}, {shown('p95_ms')}",
        shown("learn_s"),
    )
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
