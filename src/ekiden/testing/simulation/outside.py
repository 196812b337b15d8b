"""The world outside of the store: what was done there, by which idempotency key."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from typing import Any

from ekiden.core.context import ToolContext
from ekiden.core.conversation.model import ModelRequest
from ekiden.inbox.items import DONE
from ekiden.runtime import Rollback
from ekiden.runtime.questions.sessions import ANSWERS
from ekiden.storage.base import MessageFilter
from ekiden.storage.memory import MemoryStore
from ekiden.testing.simulation.loop import SimulatedLoop, drive
from ekiden.testing.simulation.watch import InvariantChecker


class Outside:
    """The simulated outside world: it receives the side effects of tools.

    Tools of a simulated team report their side effects with `act` or `effect`. `act` makes one
    effect per idempotency key, even if the call is repeated. `effect` makes an effect for every
    call, also for a repeated call. Use it in tools that detect repeated calls themselves, and in
    test doubles of your own services. The simulation reports an effect that was made twice, unless
    the conversation allows it.
    """

    def __init__(
        self,
        loop: SimulatedLoop,
        watch: InvariantChecker,
        truth: MemoryStore,
        after_effect: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._watch = watch
        self._truth = truth
        self._after_effect = after_effect
        """An effect happened whose result was not stored."""
        self._acted: dict[int, ToolContext[Any]] = {}
        """The calls that acted, each by itself: one that is repeated is another."""
        self._keys: set[str] = set()
        self.repeated = 0
        """How many calls were made again that had acted before."""
        self.effects: dict[str, str] = {}
        """By idempotency key: what was done by `act`."""
        self.plain_effects: Counter[str] = Counter()
        """What was done by `effect`, and how often."""

    async def act(self, ctx: ToolContext[Any], what: str) -> None:
        """Make an effect with the idempotency key of the call. Simulated time passes before and
        after it."""
        key = ctx.idempotency_key
        step = key.removeprefix(f"{ctx.session_id}:").partition(":")[2]
        self._watch.now_s = self._loop.time()
        agent = "" if ctx.agent is None else ctx.agent.name
        with self._watch:
            self._watch.computes(self._loop.current, ctx.session_id or "", step, agent)
            if _needs_yes(ctx):
                self._check_yes(ctx)
            if id(ctx) in self._acted:
                self._watch.accuse("effect", f"{key} acts twice in one call: {what!r}")
        self._acted[id(ctx)] = ctx
        await self._pause(key)
        self.repeated += key in self._keys
        self._keys.add(key)
        self._take(key, what)
        self._after_effect()
        await self._pause(key)

    async def effect(self, what: str) -> None:
        """Make an effect, even if it was made before. Simulated time passes before and after it."""
        await self._pause(what)
        self._watch.now_s = self._loop.time()
        self.plain_effects[what] += 1
        self._after_effect()
        await self._pause(what)

    async def undo(self, rollback: Rollback, what: str) -> None:
        """Make the effect of a compensation."""
        await self._pause(rollback.idempotency_key)
        self._take(rollback.idempotency_key, what)

    def models(self, request: ModelRequest) -> None:
        """Record and check a model call."""
        self._watch.now_s = self._loop.time()
        with self._watch:
            where = self._loop.current, request.session_id, request.step
            self._watch.computes(*where, request.agent)
            self._check_conversation(request)

    def _check_conversation(self, request: ModelRequest) -> None:
        """Each call that is shown has one answer."""
        answers: Counter[str] = Counter()
        for item in request.input:
            if item.get("type") == "function_call":
                answers[item["call_id"]] += 10
            elif item.get("type") == "function_call_output":
                answers[item["call_id"]] += 1
        if set(answers.values()) - {11}:
            where = f"{request.session_id} {request.step}"
            self._watch.accuse("conversation", f"{where}: calls and answers: {dict(answers)}")

    def is_awaited(self, session_id: str) -> bool:
        """Whether the question that the session answers is still open."""
        key = self._truth._sessions[session_id].meta[ANSWERS]
        found = drive(self._truth.find_messages(MessageFilter(keys=[key]), limit=1))
        return any(each.state == "open" for each in found)

    def done(self, prefix: str) -> Counter[str]:
        """Count how often each effect was made, for effects whose name begins with `prefix`. The
        names in the result do not have the prefix."""
        everything = Counter(self.effects.values()) + self.plain_effects
        return Counter(
            {
                what.removeprefix(prefix): times
                for what, times in everything.items()
                if what.startswith(prefix)
            }
        )

    def _check_yes(self, ctx: ToolContext[Any]) -> None:
        """A person said yes to exactly this: the tool with these arguments, in this session."""
        given = json.loads(ctx.tool_arguments)
        for each in drive(self._truth.list_documents(DONE, limit=1000)):
            item, answer = each.body, each.body["answer"] or {}
            if (item["session_id"], item["tool"]) != (ctx.session_id, ctx.tool_name):
                continue
            shown = json.loads(answer.get("arguments") or item["arguments"])
            if answer.get("choice") == "approve" and shown == given:
                return
        self._watch.accuse(
            "approval",
            f"{ctx.tool_name} runs in {ctx.session_id} with {given}: nobody allowed that",
        )

    def _take(self, key: str, what: str) -> None:
        self._watch.now_s = self._loop.time()
        known = self.effects.setdefault(key, what)
        if known != what:
            self._watch.accuse("key", f"{key} was {known!r}, and is {what!r}")

    async def _pause(self, key: str) -> None:
        await asyncio.sleep(0.002 + (len(key) % 7) * 0.01)


def _needs_yes(ctx: ToolContext[Any]) -> bool:
    tools: Any = () if ctx.agent is None else ctx.agent.tools
    return any(tool.name == ctx.tool_name and tool.confirmation is not None for tool in tools)
