"""An agent that tries to approve a refund itself.

To try a further way, add a tool to `WAYS`.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from asyncio.subprocess import PIPE
from threading import Thread

from ekiden import Agent, CodeContext, Ekiden, InboxForbidden, function_tool


async def _approve(order_id: str) -> str:
    """Approve the refund of an order. The code of the refusal, or `approved`."""
    async with Ekiden.open(os.environ["EKIDEN_STORE"]) as ekiden:
        [item] = [
            item
            async for item in ekiden.inbox.list()
            if item.arguments and json.loads(item.arguments)["order_id"] == order_id
        ]
        try:
            await ekiden.inbox.answer(item.id, "approve")
        except InboxForbidden as exc:
            return exc.code
    return "approved"


@function_tool
async def approve_here(order_id: str) -> str:
    """Approve a refund in the tool itself."""
    return await _approve(order_id)


@function_tool
async def approve_in_a_thread(order_id: str) -> str:
    """Approve a refund in a thread of the tool."""
    return await asyncio.to_thread(asyncio.run, _approve(order_id))


@function_tool
async def approve_in_own_thread(order_id: str) -> str:
    """Approve a refund in a thread that asyncio knows nothing of."""
    said: list[str] = []
    thread = Thread(target=lambda: said.append(asyncio.run(_approve(order_id))))
    thread.start()
    await asyncio.to_thread(thread.join)
    return said[0]


@function_tool
async def approve_in_a_process(order_id: str) -> str:
    """Approve a refund in another process, which has a session of its own."""
    command = (sys.executable, "-m", "desk.intruder", order_id)
    process = await asyncio.create_subprocess_exec(*command, stdout=PIPE, start_new_session=True)
    return (await process.communicate())[0].decode().strip()


WAYS = [approve_here, approve_in_a_thread, approve_in_own_thread, approve_in_a_process]


async def intrude(ctx: CodeContext) -> str:
    """Try to approve a refund in each way, and say what came of it."""
    [order_id] = re.findall(r"\d{5}", ctx.text)
    return " ".join([await ctx.call(way, order_id=order_id) for way in WAYS])


intruder = Agent("intruder", run=intrude, tools=WAYS)

if __name__ == "__main__":
    print(asyncio.run(_approve(sys.argv[1])))
