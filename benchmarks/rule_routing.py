"""Rule routing with many agents: how long a request takes, and how long compiling does.

    python benchmarks/rule_routing.py [--agents 1000] [--requests 2000]

Prints one JSON object. Every agent has 20 keywords (one in four Chinese, some of two words) and 3
patterns, made from a fixed seed; requests are sentences of 8 to 20 words, half of which have
keywords in them.
"""

from __future__ import annotations

import argparse
import json
import random
import time

from ekiden import Agent
from ekiden.core.profile import Triggers
from ekiden.routing import RuleStage

_LETTERS = "etaoinshrdlucmfwypvbgkjqxz"
_HAN = "订单退款发票查询错误支付物流客服账户密码登录网络服务数据文件系统接口测试部署日志"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--agents", type=int, default=1000)
    options.add_argument("--requests", type=int, default=2000)
    given = options.parse_args()
    rng = random.Random(20)
    words = [_word(rng) for _ in range(30_000)]
    agents = [_agent(rng, number, words) for number in range(given.agents)]
    requests = [_request(rng, words) for _ in range(given.requests)]

    began = time.perf_counter()
    stage = RuleStage(agents)
    compiled = time.perf_counter() - began

    took: list[float] = []
    matched = 0
    used = time.thread_time()
    for request in requests:
        began = time.perf_counter()
        result = stage.decide(request)
        took.append((time.perf_counter() - began) * 1e3)
        matched += result.agent is not None
    used = time.thread_time() - used
    first = took[0]
    took.sort()
    figures = {
        "agents": given.agents,
        "keywords": sum(len(agent.triggers.keywords) for agent in agents),
        "patterns": sum(len(agent.triggers.patterns) for agent in agents),
        "compile_ms": round(compiled * 1e3, 1),
        "requests": len(requests),
        "matched": matched,
        "cpu_ms": round(used * 1e3 / len(took), 4),
        "first_ms": round(first, 3),
        "mean_ms": round(sum(took) / len(took), 4),
        "median_ms": round(took[len(took) // 2], 4),
        "p99_ms": round(took[int(len(took) * 0.99)], 4),
        "max_ms": round(took[-1], 3),
    }
    print(json.dumps(figures))


def _word(rng: random.Random) -> str:
    return "".join(rng.choices(_LETTERS, weights=range(len(_LETTERS), 0, -1), k=rng.randint(3, 10)))


def _agent(rng: random.Random, number: int, words: list[str]) -> Agent[None]:
    keywords = [
        *("".join(rng.sample(_HAN, rng.randint(2, 4))) for _ in range(5)),
        *(" ".join(rng.sample(words, 2)) for _ in range(3)),
        *rng.sample(words, 12),
    ]
    one, other, third = rng.sample(words, 3)
    patterns = [rf"\b{one}\s+{other}\b", rf"{third}[-_ ]?\d+", rf"(?:错误|error)\s*{number}\b"]
    triggers = Triggers(
        keywords=tuple(keywords), patterns=tuple(patterns), priority=rng.randint(1, 100)
    )
    return Agent(f"agent-{number}", triggers=triggers)


def _request(rng: random.Random, words: list[str]) -> str:
    known = rng.random() < 0.5
    said = [rng.choice(words) if known else _word(rng) for _ in range(rng.randint(8, 20))]
    if rng.random() < 0.3:
        said.insert(rng.randrange(len(said)), "".join(rng.choices(_HAN, k=8)))
    return " ".join(said).capitalize() + "?"


if __name__ == "__main__":
    main()
