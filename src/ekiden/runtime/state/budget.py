"""The limits of a run, of its agents and of its handoffs, and limits that the run shares with other
sessions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from hashlib import blake2b
from typing import Any

from ekiden.core.conversation.model import ModelRequest, Usage
from ekiden.core.errors import StaleDocument, StoreError, UserError
from ekiden.core.profile import Budget
from ekiden.core.runs import LimitName, LimitScope, OutOfBudget
from ekiden.core.values import dumps, new_id
from ekiden.runtime.state.ledger import HELD, HOLDABLE, SPENT, SharedLimit, read_day, read_ledger
from ekiden.runtime.state.step_record import Recording
from ekiden.storage.base import DocumentStore, DocumentWrite

_SET = "set."
"""Prefix of a limit's name in a cursor's budget. The value under the plain name is counted from the
start of the run; the value under the prefixed name is the limit that the handoff declared."""


class UnknownPrice(UserError):
    """Money is limited, but the price of a model is unknown."""


def narrowed(run: Recording, budget: Budget) -> dict[str, float]:
    """The limits after a handoff with this `budget`, which begins now. No limit gets higher."""
    left = dict(run.cursor.budget.narrowed)
    for name, used in _used(run).items():
        allowed: float | None = getattr(budget, name)
        if allowed is not None and used + allowed < left.get(name, float("inf")):
            left[name] = round(used + allowed, 6)
            left[f"{_SET}{name}"] = allowed
    return left


def as_set(run: Recording, over: OutOfBudget) -> OutOfBudget:
    """The reached limit as it was declared. The budget of a handoff or of an agent counts from its
    own start, and not from the start of the run."""
    if over.scope != "run":
        return over
    limit: float | None = None
    scope: LimitScope = "handoff"
    if over.allowed == run.cursor.budget.narrowed.get(over.limit):
        limit = run.cursor.budget.narrowed.get(f"{_SET}{over.limit}")
    elif run.agent.budget is not None and over.allowed == _own_allowed(run, over.limit):
        limit, scope = getattr(run.agent.budget, over.limit), "agent"
    if limit is None:
        return over
    # The difference of the two limits is the usage before the handoff, or before the agent's work.
    used = round(over.used - (over.allowed - limit), 6)
    return OutOfBudget(over.limit, limit, used, scope=scope)


def allowed(run: Recording, limit: LimitName) -> float | None:
    """The lowest limit that applies now, counted from the start of the run. `None` means no
    limit."""
    own: float | None = getattr(run.config.limits, limit)
    narrower = run.cursor.budget.narrowed.get(limit)
    if run.agent.budget is not None:
        found = (own, narrower, _own_allowed(run, limit))
        return min((each for each in found if each is not None), default=None)
    if narrower is None:
        return own
    return narrower if own is None else min(own, narrower)


def is_budget(run: Recording, limit: LimitName, *, is_own: bool) -> bool:
    """Whether the limit that applies now is a budget of a handoff or agent, and not the limit of a
    whole run.

    With `is_own`, a budget that the run inherited from the asking run also counts as a budget.
    """
    now = allowed(run, limit)
    if now is None or now == getattr(run.config.limits, limit):
        return False
    is_inherited = (
        now == run.cursor.budget.narrowed.get(limit)
        and f"{_SET}{limit}" not in run.cursor.budget.narrowed
    )
    return is_own or not is_inherited


def _own_allowed(run: Recording, limit: LimitName) -> float | None:
    """The limit of the active agent's own budget, counted from the start of the run."""
    budget: float | None = getattr(run.agent.budget, limit, None)
    if budget is None:
        return None
    tokens, seconds, money = run.cursor.budget.by_agent.get(run.agent.name, (0, 0.0, 0.0))
    usage = run.cursor.budget.usage
    before = {
        "tokens": usage.tokens - tokens,
        "seconds": run.cursor.budget.spent_s - seconds,
        "money": usage.cost - money,
    }
    return round(before[limit] + budget, 6)


def left_of(run: Recording) -> dict[str, float]:
    """The amounts that are left of the limits that apply now."""
    found: dict[str, float] = {}
    for name, used in _used(run).items():
        limit = allowed(run, name)
        if limit is not None:
            found[name] = max(round(limit - used, 6), 0.0)
    return found


def _used(run: Recording) -> dict[LimitName, float]:
    usage = run.cursor.budget.usage
    return {"tokens": usage.tokens, "seconds": run.spent_s(), "money": usage.cost}


def budget_of(run: Recording, own: Budget | None, max_turns: int | None) -> dict[str, float]:
    """The limits of a session that the run opens: the limits `own`, reduced to the rest of the
    run's limits."""
    budget = left_of(run)
    for name, wanted in own_limits(own, max_turns).items():
        budget[name] = min(wanted, budget.get(name, wanted))
    return budget


def own_limits(own: Budget | None, max_turns: int | None) -> dict[str, float]:
    """The limits that a question sets, by name."""
    found: dict[str, float] = {}
    for name in ("tokens", "seconds", "money"):
        wanted: float | None = None if own is None else getattr(own, name)
        if wanted is not None:
            found[name] = wanted
    if max_turns is not None:
        found["turns"] = max_turns
    return found


def spend_own(run: Recording, tokens: int, seconds: float, money: float) -> None:
    """Count the usage of the active agent, which has its own budget."""
    run.cursor.budget.spend(run.agent.name, tokens, seconds, money)


def own_left(run: Recording) -> OutOfBudget | None:
    """The first limit of the active agent's own budget that is reached; `None` if no limit is
    reached."""
    budget = run.agent.budget
    if budget is None:
        return None
    tokens, seconds, money = run.cursor.budget.by_agent.get(run.agent.name, (0, 0.0, 0.0))
    used: tuple[tuple[LimitName, float], ...] = (
        ("tokens", tokens),
        ("seconds", seconds + run.work.elapsed()),
        ("money", money),
    )
    for name, spent in used:
        limit: float | None = getattr(budget, name)
        if limit is not None and spent >= limit:
            return OutOfBudget(name, limit, spent, scope="agent")
    return None


def own_seconds_left(run: Recording) -> float:
    """The seconds that the active agent has left. The agent's own budget must limit the time."""
    budget = run.agent.budget
    assert budget is not None
    assert budget.seconds is not None
    _, seconds, _ = run.cursor.budget.by_agent.get(run.agent.name, (0, 0.0, 0.0))
    return budget.seconds - seconds - run.work.elapsed()


SHARED_BUDGETS = "purses"
"""The key in a session's meta with the ids of its shared budgets, the innermost last."""
_OF_RUN = "run"
_SHORTEST_ANSWER = 1_024
"""The minimum number of tokens that every answer may have."""
_SHARE = 16
"""One answer may use this fraction (1/16) of a shared token limit."""
_USUAL_ANSWER = 4_096
"""The assumed number of tokens of an answer without a maximum."""
_ROOM_S = 0.5
"""Seconds between two checks whether a shared budget has room."""
_STAY_S = 0.25
"""Seconds between two calls of `while_waiting`."""
_SPARE_S = 30.0
"""A reservation lives this many seconds longer than the model's timeout."""


class Spent(Exception):
    """A budget has nothing left for another model call. `advance` stores this as a normal
    outcome."""

    def __init__(self, over: OutOfBudget) -> None:
        super().__init__(over.limit)
        self.over = over


def shared_budgets_of(run: Recording) -> list[str]:
    """The keys of the shared budgets that the run spends from, the innermost last."""
    cursor = run.cursor
    if cursor.budget.shared_budget is None:
        return list(run.outer_budgets)
    levels = [level for level, _ in _levels(run) if level in cursor.budget.levels]
    return [
        *run.outer_budgets,
        *(f"{cursor.budget.shared_budget}.{level}" for level in levels),
    ]


def open_shared_budgets(run: Recording) -> list[str]:
    """The shared budgets of a session that the run opens. If the run has limits, it starts a shared
    budget of its own for each level of limits."""
    cursor = run.cursor
    for level, limits in _levels(run):
        if cursor.budget.shared_budget is None:
            cursor.budget.shared_budget = new_id("purse")
        if level not in cursor.budget.levels:
            cursor.budget.levels = [*cursor.budget.levels, level]
            others = cursor.budget.others or Usage()
            body = {"limits": limits, "base": [others.tokens, others.cost], "held": {}}
            collection = _collection(f"{cursor.budget.shared_budget}.{level}")
            run.write(DocumentWrite(collection=collection, key=HELD, body=body))
    return shared_budgets_of(run)


async def keep_limit(run: Recording) -> None:
    """Update the shared budget of a resumed run, whose limits may have changed."""
    cursor = run.cursor
    if cursor.budget.shared_budget is None or _OF_RUN not in cursor.budget.levels:
        return
    limits = _limits(run.config.limits)
    collection = _collection(f"{cursor.budget.shared_budget}.{_OF_RUN}")
    while (found := await run.store.get_document(collection, HELD)) is not None:
        if found.body["limits"] == limits:
            return
        body = {**found.body, "limits": limits}
        write = DocumentWrite(
            collection=collection, key=HELD, body=body, expected_version=found.version
        )
        with suppress(StaleDocument):
            await run.store.write_documents([write])


def charge(run: Recording, spent: list[float]) -> None:
    """Store, with the step, the tokens and money that the run itself has spent so far."""
    key = f"{SPENT}{run.session_id}.{run.cursor.progress.run}"
    for shared_budget in shared_budgets_of(run):
        run.write(DocumentWrite(collection=_collection(shared_budget), key=key, body=spent))


async def reserve(
    run: Recording,
    request: ModelRequest,
    price: float | None,
    *,
    while_waiting: Callable[[], Awaitable[None]],
) -> ModelRequest:
    """Reserve the maximum cost of the call in all shared budgets, and wait until they have room.

    Raises `Spent` if a budget is used up. `price` is the highest price of a million tokens; `None`
    if money is not limited. `while_waiting` is called repeatedly during the wait. Returns the
    request with a maximum length of its answer.
    """
    request = _bounded(run, request)
    tokens = _most_tokens(request)
    wanted = {"tokens": tokens, "money": 0.0 if price is None else tokens * price / 1e6}
    key = f"{run.session_id}:{request.step}"
    monotonic = run.config.clock.monotonic
    stayed_at = monotonic()
    while True:
        now_us = await run.store.now_us()
        until_us = now_us + int((run.config.model_timeout_s + _SPARE_S) * 1e6)
        writes = []
        for ledger in await _ledgers(run, now_us):
            over = ledger.over()
            if over is not None:
                raise Spent(over)
            if not ledger.has_room(key, wanted):
                # Reservations of dead processes are dropped before the run has to wait.
                ledger = await ledger.without_dead(run.store)
                if not ledger.has_room(key, wanted):
                    break
            writes.append(ledger.with_hold(key, [*wanted.values(), until_us]))
        else:
            # Set before the write: if this call is cancelled, the write may still be stored, and
            # the next commit removes the reservation.
            run.reserved_call = key
            try:
                await run.store.write_documents(writes)
            except StaleDocument:
                run.reserved_call = None
                continue
            return request
        await run.store.wait_for_change(_ROOM_S)
        if monotonic() - stayed_at >= _STAY_S:
            stayed_at = monotonic()
            await while_waiting()


async def let_go(run: Recording) -> None:
    """Remove the reservation of the finished call. If the store fails, the reservation expires."""
    key, run.reserved_call = run.reserved_call, None
    while key is not None:
        try:
            now_us = await run.store.now_us()
            ledgers = await _ledgers(run, now_us)
            writes = [each.with_hold(key, None) for each in ledgers if key in each.held]
            await run.store.write_documents(writes)
            return
        except StaleDocument:
            await asyncio.sleep(0)
        except StoreError:
            return


async def empty(run: Recording) -> None:
    """Remove the shared budgets of a run that ends or stops. The caller commits this.

    The spending is counted in the run's usage. A resumed run starts new shared budgets.
    """
    for write in await shared_budget_removals(
        run.store, run.cursor.budget.shared_budget, run.cursor.budget.levels
    ):
        run.write(write)
    run.cursor.budget.shared_budget, run.cursor.budget.levels = None, []


async def shared_budget_removals(
    store: DocumentStore, shared_budget: str | None, levels: Sequence[str]
) -> list[DocumentWrite]:
    """The writes that remove the shared budgets of a run."""
    writes: list[DocumentWrite] = []
    for level in levels if shared_budget is not None else ():
        collection, after = _collection(f"{shared_budget}.{level}"), ""
        while documents := await store.list_documents(collection, after=after):
            writes += [
                DocumentWrite(collection=collection, key=each.key, body=None) for each in documents
            ]
            after = documents[-1].key
    return writes


async def _ledgers(run: Recording, now_us: int) -> list[SharedLimit]:
    """The ledgers of all shared budgets of the run, and of the daily budget."""
    collections = [_collection(each) for each in shared_budgets_of(run)]
    found = [await read_ledger(run.store, each, now_us) for each in collections]
    ledgers = [each for each in found if each is not None]
    if run.config.daily is not None:
        ledgers.append(await read_day(run, now_us))
    return ledgers


def _levels(run: Recording) -> list[tuple[str, dict[str, float | None]]]:
    """The names and limits of the shared budgets: one for the limits of the run, and one for the
    current limits if a handoff or agent has lowered them."""
    of_run = _limits(run.config.limits)
    now = {str(name): allowed(run, name) for name in HOLDABLE}
    found = [(_OF_RUN, of_run), (blake2b(dumps(now).encode(), digest_size=6).hexdigest(), now)]
    if now == of_run:
        found.pop()
    return [(level, limits) for level, limits in found if set(limits.values()) != {None}]


def _limits(limits: Any) -> dict[str, float | None]:
    return {str(name): getattr(limits, name) for name in HOLDABLE}


def _collection(shared_budget: str) -> str:
    return f"purse.{shared_budget}"


def _bounded(run: Recording, request: ModelRequest) -> ModelRequest:
    """The request with a maximum length of its answer, unless only the daily budget applies."""
    if request.settings.max_tokens is not None or not shared_budgets_of(run):
        return request
    limit = allowed(run, "tokens")
    longest = max(int(limit or 0) // _SHARE, _SHORTEST_ANSWER)
    return replace(request, settings=replace(request.settings, max_tokens=longest))


def _most_tokens(request: ModelRequest) -> int:
    """An upper bound of the call's tokens: one for each byte of the request, and the answer's
    maximum."""
    shown = [request.instructions or "", list(request.input)]
    shown += [[tool.name, tool.description, tool.parameters] for tool in request.tools]
    size = len(dumps(shown).encode("utf-8", "surrogatepass"))
    return size + (request.settings.max_tokens or _USUAL_ANSWER)
