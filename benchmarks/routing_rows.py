"""The rows of `routing_accuracy.py`: what is learnt, what is asked, and what others reach."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

Examples = Mapping[str, tuple[str, ...]]
SEEDS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """Learn these examples, then say whose these requests are."""

    examples: Examples
    asked: tuple[tuple[str, str], ...]
    """Text and agent."""
    outside: tuple[str, ...] = ()
    """Requests that are nobody's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the table; figures are the mean over its tasks."""

    title: str
    tasks: Callable[[Path], Iterator[Task]]
    use: float
    """A soft-max on the same embedding and hashed letters."""
    best: float
    """The best embedding that comes in a Python package, with any head."""


def clinc(data: Path, part: str) -> list[tuple[str, str]]:
    """Requests and intents of a part of CLINC150."""
    full = json.loads((data / "clinc150" / "data_full.json").read_text("utf-8"))
    return [(text, intent) for text, intent in full[part]]


def clinc_domains(data: Path) -> dict[str, str]:
    """The domain of every intent of CLINC150."""
    names = json.loads((data / "clinc150" / "domains.json").read_text("utf-8"))
    return {intent: name for name, own in names.items() for intent in own}


def xsid(data: Path, language: str, part: str) -> list[tuple[str, str]]:
    """Requests and domains of a part of xSID."""
    pairs = _lines(data / "xsid" / f"xsid_{language}_{part}.jsonl")
    return [(text, intent.split("/")[0]) for text, intent in pairs]


def _outside(data: Path) -> tuple[str, ...]:
    return tuple(text for text, _ in clinc(data, "oos_test"))


def _lines(path: Path) -> list[tuple[str, str]]:
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    return [(row["text"], row["intent"]) for row in rows]


def _grouped(pairs: list[tuple[str, str]]) -> Examples:
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for text, agent in pairs:
        groups[agent].append(text)
    return {agent: tuple(texts) for agent, texts in sorted(groups.items())}


def intents(count: int | None) -> Callable[[Path], Iterator[Task]]:
    """CLINC150's intents as agents, with all examples or the fixed few."""

    def tasks(data: Path) -> Iterator[Task]:
        learnt = (
            clinc(data, "train")
            if count is None
            else _lines(data / "clinc150" / f"clinc150_train_{count}.jsonl")
        )
        yield Task(
            examples=_grouped(learnt),
            asked=tuple(clinc(data, "test")),
            outside=_outside(data),
        )

    return tasks


def domains(count: int) -> Callable[[Path], Iterator[Task]]:
    """CLINC150's ten domains as agents, with some random examples each; several draws."""

    def tasks(data: Path) -> Iterator[Task]:
        domain_of = clinc_domains(data)
        learnt = _grouped([(text, domain_of[each]) for text, each in clinc(data, "train")])
        asked = tuple((text, domain_of[each]) for text, each in clinc(data, "test"))
        for seed in range(SEEDS):
            draw = random.Random(seed)
            some = {name: tuple(draw.sample(texts, count)) for name, texts in learnt.items()}
            yield Task(examples=some, asked=asked, outside=_outside(data))

    return tasks


def languages(learnt: str, asked: str) -> Callable[[Path], Iterator[Task]]:
    """xSID's domains as agents, learnt in one language and asked in another."""

    def tasks(data: Path) -> Iterator[Task]:
        yield Task(
            examples=_grouped(xsid(data, learnt, "valid")),
            asked=tuple(xsid(data, asked, "test")),
        )

    return tasks


ROWS: Mapping[str, Row] = {
    "clinc-all": Row(
        title="CLINC150, all 15,000 examples", tasks=intents(None), use=92.4, best=93.8
    ),
    "clinc-10": Row(
        title="CLINC150, 10 examples an intent", tasks=intents(10), use=89.3, best=90.5
    ),
    "clinc-5": Row(title="CLINC150, 5 examples an intent", tasks=intents(5), use=84.2, best=88.8),
    "domains-20": Row(
        title="CLINC, 10 domains, 20 examples an agent", tasks=domains(20), use=83.9, best=85.8
    ),
    "domains-10": Row(
        title="CLINC, 10 domains, 10 examples an agent", tasks=domains(10), use=77.0, best=78.7
    ),
    "zh-zh": Row(
        title="xSID domains, Chinese → Chinese", tasks=languages("zh", "zh"), use=95.8, best=95.8
    ),
    "en-zh": Row(
        title="xSID domains, English → Chinese", tasks=languages("en", "zh"), use=93.4, best=93.4
    ),
    "en-en": Row(
        title="xSID domains, English → English", tasks=languages("en", "en"), use=96.4, best=96.6
    ),
}
