"""Everything around the desk that a person needs to try it: the scripted model, the warehouse, and
some orders.

    python -m desk.demo
"""

from __future__ import annotations

import argparse
import asyncio

from .books import opened
from .scripted_model import PORT, ScriptedModelServer
from .warehouse import serve

CUSTOMERS = [
    {"id": "mira", "name": "Mira", "refunds": 0},
    {"id": "long", "name": "龙", "refunds": 7},
]
ORDERS = [
    {
        "id": number,
        "customer": customer,
        "article": article,
        "cents": cents,
        "state": state,
        "city": city,
        "is_back": is_back,
    }
    for number, customer, article, cents, state, city, is_back in [
        ("10001", "mira", "lamp", 4_200, "shipped", "Kyoto", 0),
        ("10002", "mira", "teapot", 3_500, "delivered", "Kyoto", 1),
        ("10003", "mira", "desk", 42_000, "delivered", "Naha", 1),
        ("10004", "long", "茶壶", 3_900, "delivered", "上海", 1),
    ]
]


async def main(port: int) -> None:
    """Run until SIGTERM or Ctrl-C."""
    opened().fill(CUSTOMERS, ORDERS)
    async with ScriptedModelServer(port=port) as model:
        print(f"the scripted model is at {model.origin}/v1", flush=True)
        await serve(".ekiden/ekiden.db")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m desk.demo")
    parser.add_argument("--port", type=int, default=PORT, help="of the model; 0 picks a free one")
    asyncio.run(main(parser.parse_args().port))
