"""Fits what routing's confidence is made of, on the validation parts of public sets of requests.

    python benchmarks/routing_calibration.py --data DIR

``DIR`` is that of ``routing_accuracy.py``. It prints the share of requests that keywords route
rightly by their lead (`_RIGHT_BY_LEAD` of ``ekiden.routing.rules``), and the weights of the two
logistic functions of a team known by descriptions (`RIGHT` and `IN_SCOPE` of
``ekiden.routing.learner``). In every team, nine of ten requests are in scope.
"""

from __future__ import annotations

import argparse
import math
import random
import re
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from embedding_cache import KeptEmbeddings
from numpy.typing import NDArray
from routing_rows import clinc, clinc_domains, xsid

from ekiden import Agent
from ekiden.core.profile import Triggers
from ekiden.embeddings.local import MISSING, local_embedder
from ekiden.routing import RuleStage
from ekiden.routing.learner import DescribedCalibration
from ekiden.routing.semantic import SemanticStage

Floats = NDArray[np.float64]
IN_SCOPE_SHARE = 0.9
CLINC = {
    "banking": "Manages bank accounts: balances, transfers, bills, transactions and fraud.",
    "credit_cards": (
        "Handles credit cards: limits, rewards, lost cards, credit score and applications."
    ),
    "kitchen_and_dining": (
        "Helps with recipes, ingredients, nutrition and restaurant reservations."
    ),
    "home": "Runs the household: music, calendar, reminders, shopping and to-do lists, smart home.",
    "auto_and_commute": "Helps drivers with directions, traffic, fuel, tires and car maintenance.",
    "travel": "Plans trips: flights, hotels, visas, luggage, currency and travel alerts.",
    "utility": (
        "Tells time, date and weather, sets alarms and timers, makes calls, calculates and "
        "converts."
    ),
    "work": "Answers employees' questions about pay, taxes, holidays, insurance and meetings.",
}
XSID = {
    "alarm": "Sets, shows, changes and cancels alarms.",
    "reminder": "Keeps reminders and tells people what they must not forget.",
    "weather": "Gives weather forecasts.",
    "BookRestaurant": "Books tables in restaurants.",
    "PlayMusic": "Plays songs, artists and albums.",
    "AddToPlaylist": "Adds songs to playlists.",
    "RateBook": "Records ratings of books.",
    "SearchScreeningEvent": "Finds cinemas and when films are shown.",
    "SearchCreativeWork": "Finds films, books, games and other works by their title.",
}
_COMMON = re.compile(
    "the|and|what|how|can|you|for|are|was|does|with|have|when|where|who|why|which|this|that|they|"
    "them|there|then|please|need|want|would|could|should|tell|give|get|let|know|will|did|has|had|"
    "much|many|long|about|from|into|out|any|all|some|not|your|one|our|its|his|her|own|just|like|"
    "make|use|been|there's|i'm|what's|don't"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A team, requests with their agents, and requests for nobody."""

    agents: Sequence[Agent[None]]
    asked: Sequence[tuple[str, str]]
    outside: Sequence[str]


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--data", type=Path, required=True)
    options.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir(), "ekiden-bench"))
    given = options.parse_args()
    for lead, (right, count) in keyword_leads(given.data).items():
        print(f"{lead} keywords ahead: {right:.1f} % right of {count}")
    embedder = local_embedder()
    if embedder is None:
        raise SystemExit(MISSING)
    kept = KeptEmbeddings(embedder, given.cache)
    features, right, in_scope, weights = measured(list(described(given.data)), kept)
    kept.save()
    for name, wanted in (("RIGHT", right), ("IN_SCOPE", in_scope)):
        found = fitted(features, wanted, weights)
        print(f"{name} = ({', '.join(f'{each:.2f}' for each in found)})")
        sure = 1 / (1 + np.exp(-(np.c_[features, np.ones(len(features))] @ found)))
        for low in range(0, 100, 20):
            rows = (sure >= low / 100) & (sure < (low + 20) / 100)
            if rows.any():
                share = 100 * np.average(wanted[rows], weights=weights[rows])
                print(f"  told {low} to {low + 20} %: {share:.0f} % of {rows.sum()}")


def described(data: Path) -> Iterator[Case]:
    """Teams of 3 to 150 agents; some with one or two examples beside the description."""
    draw = random.Random(5)
    outside = [text for text, _ in clinc(data, "oos_val") + clinc(data, "oos_train")]
    domains, intents = clinc_domains(data), clinc(data, "val")
    asked = [(text, domains[intent]) for text, intent in intents]
    taught = [(text, domains[intent]) for text, intent in clinc(data, "train")]
    for size, examples in ((3, 0),) * 6 + ((5, 0),) * 6 + ((8, 0), (4, 1), (8, 1), (4, 2), (8, 2)):
        names = draw.sample(sorted(CLINC), size)
        others = [text for text, name in asked if name in CLINC and name not in names]
        yield Case(
            agents=[
                _agent(name, CLINC[name], draw.sample(_own(taught, name), examples))
                for name in names
            ],
            asked=draw.sample([each for each in asked if each[1] in names], 200),
            outside=outside + draw.sample(others, min(len(others), 100)),
        )
    for language in ("en", "zh"):
        known = xsid(data, language, "valid")
        for size in (4, 4, 4, 9):
            names = draw.sample(sorted(XSID), size)
            yield Case(
                agents=[_agent(name, XSID[name]) for name in names],
                asked=[each for each in known if each[1] in names],
                outside=[text for text, name in known if name not in names],
            )
    for size in (20, 50, 150):
        names = draw.sample(sorted({intent for _, intent in intents}), size)
        yield Case(
            agents=[_agent(name, name.replace("_", " ")) for name in names],
            asked=draw.sample([each for each in intents if each[1] in names], 300),
            outside=outside,
        )


def measured(cases: Sequence[Case], kept: KeptEmbeddings) -> tuple[Floats, Floats, Floats, Floats]:
    """The features of every request, whether it went right, whether it is in scope, weights."""
    features: list[tuple[float, ...]] = []
    right: list[bool] = []
    in_scope: list[bool] = []
    weights: list[float] = []
    for case in cases:
        kept.embed([*(text for text, _ in case.asked), *case.outside])
        stage = SemanticStage(case.agents, kept)
        names = [agent.name for agent in case.agents]
        known = sum(len(agent.triggers.examples) for agent in case.agents) / (3 * len(names))
        requests = [*case.asked, *((text, "") for text in case.outside)]
        for text, own in requests:
            scores = stage.scores(text)
            if scores is None:
                continue
            features.append(DescribedCalibration(examples=known).features(*scores))
            right.append(names[int(scores[0].argmax())] == own)
            in_scope.append(bool(own))
            part, of = (IN_SCOPE_SHARE, case.asked) if own else (1 - IN_SCOPE_SHARE, case.outside)
            weights.append(part / len(of))
    columns = (features, right, in_scope, weights)
    rows, *rest = (np.array(each, dtype=np.float64) for each in columns)
    return rows, rest[0], rest[1], rest[2]


def fitted(features: Floats, wanted: Floats, weights: Floats) -> Floats:
    """Logistic regression by Newton's method, with a little ridge."""
    rows = np.c_[features, np.ones(len(features))]
    weights = weights / weights.sum()
    found = np.zeros(rows.shape[1])
    for _ in range(60):
        told = 1 / (1 + np.exp(-rows @ found))
        slope = rows.T @ (weights * (told - wanted)) + 1e-4 * np.append(found[:-1], 0)
        bend = (rows * (weights * told * (1 - told))[:, None]).T @ rows
        found -= np.linalg.solve(bend + 1e-4 * np.eye(len(found)), slope)
    return found


def keyword_leads(data: Path) -> dict[int, tuple[float, int]]:
    """By how many keywords the best agent leads: the share that is right, and of how many."""
    draw = random.Random(1)
    outside = [text for text, _ in clinc(data, "oos_val") + clinc(data, "oos_train")]
    domains = clinc_domains(data)
    found: defaultdict[int, list[tuple[bool, float]]] = defaultdict(list)
    for count in (5, 10, 20):
        for level in ("domain",) * 6 + ("intent",) * 2:
            names = domains if level == "domain" else {intent: intent for intent in domains}
            taught = [(text, names[each]) for text, each in clinc(data, "train")]
            asked = [(text, names[each]) for text, each in clinc(data, "val")]
            pool = sorted(CLINC) if level == "domain" else sorted(domains)
            team = draw.sample(pool, 5 if level == "domain" else draw.choice((30, 150)))
            _count(found, team, taught, asked, outside, count)
        for language in ("en", "zh"):
            known = xsid(data, language, "valid")
            _count(found, sorted(XSID), known[::2], known[1::2], (), count)
    return {
        lead: (100 * sum(ok * w for ok, w in each) / sum(w for _, w in each), len(each))
        for lead, each in sorted(found.items())
    }


def _count(
    found: Mapping[int, list[tuple[bool, float]]],
    team: Sequence[str],
    taught: Sequence[tuple[str, str]],
    asked: Sequence[tuple[str, str]],
    outside: Sequence[str],
    count: int,
) -> None:
    keywords = _keywords([each for each in taught if each[1] in team], count)
    triggers = {name: Triggers(keywords=tuple(keywords[name])) for name in team}
    stage = RuleStage([Agent(name, triggers=triggers[name]) for name in team])
    asked = [each for each in asked if each[1] in team]
    rare = (1 / IN_SCOPE_SHARE - 1) * len(asked) / max(1, len(outside))
    for (text, own), weight in (
        *((each, 1.0) for each in asked),
        *(((text, ""), rare) for text in outside),
    ):
        ranked = stage.scores(text)
        if ranked:
            second = len(ranked[1].keywords) if len(ranked) > 1 else 0
            lead = min(len(ranked[0].keywords) - second, 3)
            found[lead].append((ranked[0].agent == own, weight))


def _keywords(taught: Sequence[tuple[str, str]], count: int) -> dict[str, list[str]]:
    """The words that tell most about an agent, as its author might choose them."""
    used: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for text, name in taught:
        used[name].update(_words(text))
    everywhere = sum(used.values(), Counter[str]())

    def telling(name: str, word: str) -> float:
        here = used[name][word]
        return here * math.log((here + 0.5) / (everywhere[word] - here + 0.5))

    return {
        name: sorted(
            (word for word in own if not _COMMON.fullmatch(word) and own[word] >= 2),
            key=lambda word: (-telling(name, word), word),
        )[:count]
        for name, own in used.items()
    }


def _words(text: str) -> set[str]:
    lowered = text.lower()
    found = set(re.findall(r"[a-z']{3,}", lowered))
    for run in re.findall(r"[\u4e00-\u9fff]+", lowered):
        found |= {run[at : at + 2] for at in range(len(run) - 1)}
    return found


def _own(pairs: Sequence[tuple[str, str]], name: str) -> list[str]:
    return [text for text, own in pairs if own == name]


def _agent(name: str, description: str, examples: Sequence[str] = ()) -> Agent[None]:
    return Agent(name, description=description, triggers=Triggers(examples=tuple(examples)))


if __name__ == "__main__":
    main()
