"""The values that a user of the simulation writes: a scene with its team and talks, and the outside
world."""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any, TypeAlias

from ekiden.core.agent import Agent, Team
from ekiden.core.context import ToolContext
from ekiden.core.conversation.model import ModelRequest
from ekiden.core.errors import UserError
from ekiden.inbox.items import DONE
from ekiden.runtime import Rollback, RunConfig
from ekiden.runtime.questions.sessions import ANSWERS
from ekiden.runtime.state.cursor import Cursor
from ekiden.storage.base import MessageFilter
from ekiden.storage.memory import MemoryStore
from ekiden.testing.simulation.checker import InvariantChecker
from ekiden.testing.simulation.loop import SimulatedLoop, run_sync


class Outside:
    """The simulated outside world: it receives the side effects of tools.

    Tools of a simulated team report their side effects with `act` or `effect`. `act` makes one
    effect per idempotency key, even if the call is repeated. `effect` makes an effect for every
    call, including repeated calls. Use it in tools that detect repeated calls themselves, and in
    test doubles of your own services. The simulation reports an effect that was made twice, unless
    the conversation allows this.
    """

    def __init__(
        self,
        loop: SimulatedLoop,
        checker: InvariantChecker,
        truth: MemoryStore,
        after_effect: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._checker = checker
        self._truth = truth
        self._after_effect = after_effect
        """Called after an effect whose result is not stored yet."""
        self._acted: dict[int, ToolContext[Any]] = {}
        """The contexts of calls that acted, by object id. A repeated call has a new context."""
        self._keys: set[str] = set()
        self.repeated = 0
        """The number of repeated calls."""
        self.effects: dict[str, str] = {}
        """The effects of `act` by idempotency key."""
        self.results: dict[str, str] = {}
        """The results of effects of `act`, which people can find, by idempotency key."""
        self.plain_effects: Counter[str] = Counter()
        """The effects of `effect`, with their number."""

    async def act(self, ctx: ToolContext[Any], what: str, result: str = "done") -> None:
        """Make an effect with the idempotency key of the call. Simulated time passes before and
        after the effect. `result` is what people who look for the effect find."""
        key = ctx.idempotency_key
        step = key.removeprefix(f"{ctx.session_id}:").partition(":")[2]
        self._checker.now_s = self._loop.time()
        agent = "" if ctx.agent is None else ctx.agent.name
        with self._checker:
            self._checker.computes(self._loop.current, ctx.session_id or "", step, agent)
            self._check_unknown(ctx, step)
            if _needs_approval(ctx):
                self._check_approval(ctx)
            if id(ctx) in self._acted:
                self._checker.violation("effect", f"{key} acts twice in one call: {what!r}")
        self._acted[id(ctx)] = ctx
        await self._pause(key)
        self.repeated += key in self._keys
        self._keys.add(key)
        self._record(key, what)
        self.results[key] = result
        self._after_effect()
        await self._pause(key)

    async def effect(self, what: str) -> None:
        """Make an effect, even if the same effect was made before. Simulated time passes before and
        after the effect."""
        await self._pause(what)
        self._checker.now_s = self._loop.time()
        self.plain_effects[what] += 1
        self._after_effect()
        await self._pause(what)

    async def undo(self, rollback: Rollback, what: str) -> None:
        """Make the effect of a compensation."""
        await self._pause(rollback.idempotency_key)
        self._record(rollback.idempotency_key, what)

    def models(self, request: ModelRequest) -> None:
        """Record and check a model call."""
        self._checker.now_s = self._loop.time()
        with self._checker:
            where = self._loop.current, request.session_id, request.step
            self._checker.computes(*where, request.agent)
            self._check_conversation(request)

    def _check_conversation(self, request: ModelRequest) -> None:
        """Check that each call in the conversation has exactly one output."""
        answers: Counter[str] = Counter()
        for item in request.input:
            if item.get("type") == "function_call":
                # The tens count the calls, the ones their outputs.
                answers[item["call_id"]] += 10
            elif item.get("type") == "function_call_output":
                answers[item["call_id"]] += 1
        if set(answers.values()) - {11}:
            where = f"{request.session_id} {request.step}"
            self._checker.violation("conversation", f"{where}: calls and answers: {dict(answers)}")

    def is_awaited(self, session_id: str) -> bool:
        """Whether the question that the session answers is still open."""
        key = self._truth._sessions[session_id].meta[ANSWERS]
        found = run_sync(self._truth.find_messages(MessageFilter(keys=[key]), limit=1))
        return any(each.state == "open" for each in found)

    def done(self, prefix: str) -> Counter[str]:
        """Count how often each effect was made, for effects whose name begins with `prefix`. The
        names in the result do not have the prefix."""
        effects = Counter(self.effects.values()) + self.plain_effects
        return Counter(
            {
                what.removeprefix(prefix): times
                for what, times in effects.items()
                if what.startswith(prefix)
            }
        )

    def _check_unknown(self, ctx: ToolContext[Any], step: str) -> None:
        """Check that no other call of the tool starts while the effect of a call is unknown."""
        session = self._truth._sessions.get(ctx.session_id or "")
        unknown = () if session is None else Cursor.from_json(session.cursor).questions.unknown
        keys = [each.key for each in unknown if each.tool == ctx.tool_name]
        if keys and step not in keys:
            text = f"{ctx.session_id} {step}: the effect of {keys[0]} is unknown"
            self._checker.violation("unknown", text)

    def _check_approval(self, ctx: ToolContext[Any]) -> None:
        """Check that a person approved the call with exactly these arguments."""
        arguments = json.loads(ctx.tool_arguments)
        for each in run_sync(self._truth.list_documents(DONE, limit=1000)):
            item, answer = each.body, each.body["answer"] or {}
            if (item["session_id"], item["tool"]) != (ctx.session_id, ctx.tool_name):
                continue
            approved = json.loads(answer.get("arguments") or item["arguments"])
            if answer.get("choice") == "approve" and approved == arguments:
                return
        self._checker.violation(
            "approval",
            f"{ctx.tool_name} runs in {ctx.session_id} with {arguments}: nobody allowed that",
        )

    def _record(self, key: str, what: str) -> None:
        self._checker.now_s = self._loop.time()
        known = self.effects.setdefault(key, what)
        if known != what:
            self._checker.violation("key", f"{key} was {known!r}, and is {what!r}")

    async def _pause(self, key: str) -> None:
        await asyncio.sleep(0.002 + (len(key) % 7) * 0.01)


def _needs_approval(ctx: ToolContext[Any]) -> bool:
    tools: Any = () if ctx.agent is None else ctx.agent.tools
    return any(tool.name == ctx.tool_name and tool.confirmation is not None for tool in tools)


CheckAnswer: TypeAlias = Callable[[str], bool]
"""A function that returns whether an answer is correct."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Talk:
    """One conversation: its messages in order, and the expected results."""

    id: str
    """The id of the session."""
    texts: Sequence[str]
    """The messages, in order."""
    waits_for_answer: bool = True
    """Whether each message is sent only after the answer to the previous message."""
    answer: str | CheckAnswer | None = None
    """The expected last answer, or a function that checks the last answer. `None` accepts any
    answer."""
    effects: Mapping[str, int | Collection[int]] | None = None
    """The expected number of each effect at the end, or several allowed numbers. Repeats with the
    same idempotency key count once. Leave out the id of the talk, with which the name of an effect
    begins. `None` means that no effect may be made twice."""
    variables: Mapping[str, int | Collection[int]] = field(default_factory=dict)
    """The expected values of numeric session variables at the end: one number, or several allowed
    numbers."""
    outcomes: Sequence[str] = ("done",)
    """The allowed outcomes of the last run."""
    at_s: float = 0.0
    """The start time, in simulated seconds."""
    hand_to: str | None = None
    """If set, a program requests a handoff to this agent at some time."""
    ask: str | None = None
    """If set, the texts are sent on the bus instead of in a conversation. The first text is a query
    to this agent. The other texts are notifications to this agent, each sent more than once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A team, and its simulated conversations.

    For example::

        talk = Talk(id="s1", texts=["book A-42"], answer="A-42 is booked")
        assert simulate(Scene(team=team, talks=[talk]), seed=7).ok
    """

    team: Agent[Any] | Team
    later: Agent[Any] | Team | None = None
    """The team of workers that are started again, as after a deployment. `None` means `team`."""
    talks: Sequence[Talk] = ()
    config: RunConfig = field(default_factory=RunConfig)
    context: Callable[[Outside], Any] = lambda outside: outside
    """A function that creates ``ctx.context`` for tools. By default ``ctx.context`` is the
    `Outside` object."""
    workers: int = 3
    serves: Sequence[Collection[str] | None] = ()
    """The agents that each worker runs. `None`, or a missing entry, means all agents."""
    people: int = 2
    """The number of people who answer items in the inbox."""
    choices: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The choices of people, by kind of inbox item. The default is the options of the item."""


_DEFAULT = "scene"
_CONFIG = RunConfig(approver="inbox", lease_s=2.0, model_timeout_s=5.0)


def load_scene(name: str, texts: Sequence[str] = (), *, seed: int) -> Scene:
    """Load the scene with the name ``file.py:name`` or ``module:name``.

    The name refers to a `Scene`, to a function that takes a `Random` and returns a `Scene`, or to
    an agent or a team. An agent or a team gets each of `texts` in its own conversation. Raises
    `UserError`.
    """
    place, _, attribute = name.partition(":")
    attribute = attribute or _DEFAULT
    module = _module(place)
    try:
        found: Any = getattr(module, attribute)
    except AttributeError:
        raise UserError(f"{place} has nothing called {attribute!r}") from None
    if isinstance(found, Agent | Team):
        return _scene_of(found, texts, name)
    if texts:
        raise UserError(f"--say works only for an agent or a team; {name} has its own messages")
    if not isinstance(found, Scene) and callable(found):
        found = found(Random(f"{seed} scene"))
    if not isinstance(found, Scene):
        raise UserError(
            f"{name} must be a Scene, a function that makes one, an Agent or a Team, not "
            f"{type(found).__name__}"
        )
    return found


def _scene_of(team: Agent[Any] | Team, texts: Sequence[str], name: str) -> Scene:
    if not texts:
        raise UserError(f"there is no message for {name}: give --say TEXT, or name a Scene")
    talks = [Talk(id=f"talk{number}", texts=[text]) for number, text in enumerate(texts, 1)]
    return Scene(team=team, talks=talks, config=_CONFIG)


@cache
def _module(place: str) -> ModuleType:
    try:
        if not place.endswith(".py"):
            return importlib.import_module(place)
        file = Path(place).resolve()
        if str(file.parent) not in sys.path:
            sys.path.insert(0, str(file.parent))
        module = importlib.import_module(file.stem)
    except ImportError as exc:
        raise UserError(f"{place} cannot be imported: {exc}") from exc
    if Path(module.__file__ or "").resolve() != file:
        raise UserError(f"{place} cannot be imported: another module has its name; rename the file")
    return module
