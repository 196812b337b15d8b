"""The agents of the team that are code: they ask, plan, wait for people, and run out of time."""

from __future__ import annotations

import asyncio
import re

from ekiden.core.conversation.model import is_message, text_of
from ekiden.core.errors import ModelError
from ekiden.core.errors.messages import QueryTimeout
from ekiden.runtime import CodeContext
from ekiden.testing.simulation.outside import Outside

PARTS = ("walls", "roof", "doors")
"""What a plan has built."""
_LOOKS = 40
_LOOK_S = 0.5


async def run_front(ctx: CodeContext[Outside]) -> str:
    """Ask somebody, tell somebody, do something."""
    name = _name(ctx)
    price = await ctx.ask("clerk", "the price", f"please price {name}", timeout_s=3600)
    await ctx.tell("archive", "the offer", f"please file {name}")
    return f"{await ctx.call('book', what=f'{name}/front')}; {price}"


async def run_archive(ctx: CodeContext[Outside]) -> str:
    """Be told something, and do it."""
    return str(await ctx.call("book", what=f"{_name(ctx)}/file"))


async def run_part(ctx: CodeContext[Outside]) -> str:
    """Do one task of a plan; the roof succeeds the second time."""
    words = re.split(r"[^\w/]+", ctx.text)
    what = words[words.index("please") + 2]
    if what.endswith("/roof"):
        await ctx.call("book", what=f"{what} tried")
        if ctx.context.done(what)[" tried"] < 2:
            raise ModelError("it rains")
    return str(await ctx.call("book", what=what))


async def run_judge(ctx: CodeContext[Outside]) -> str:
    """Ask a person who has three seconds."""
    name = _name(ctx)
    answer = await ctx.request_approval(
        f"{name}?", ("yes", "no", "later"), deadline_s=3.0, default="later"
    )
    await ctx.call("book", what=f"{name}/{answer.choice}")
    return f"{name}: {answer.choice}"


async def run_hurry(ctx: CodeContext[Outside]) -> str:
    """Ask somebody who does not answer in time."""
    name = _name(ctx)
    try:
        told = str(await ctx.ask("sleeper", "the time", f"please sleep {name}", timeout_s=2.0))
    except QueryTimeout:
        told = "nobody answered"
    return f"{await ctx.call('book', what=f'{name}/front')}; {told}"


async def run_sleeper(ctx: CodeContext[Outside]) -> str:
    """Answer when the time for it is over; that is heard by an asker who did not look yet."""
    for _ in range(_LOOKS):
        if not ctx.context.is_awaited(ctx.session_id or ""):
            return "late"
        await asyncio.sleep(_LOOK_S)
    return "and nobody saw to the time"


def _name(ctx: CodeContext[Outside]) -> str:
    said = [text_of(item) for item in ctx.items if is_message(item)]
    words = re.split(r"[^\w/]+", " ".join([*said, ctx.text]))
    return words[len(words) - words[::-1].index("please") + 1]
