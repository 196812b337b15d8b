"""The referee: reads what is on record, event by event, and knows what must be true of it."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

from ekiden.core.conversation.model import Item, text_of
from ekiden.core.events import Event
from tests.unit.runtime.handoff_machine.standing import Open, Standing
from tests.unit.runtime.handoff_machine.teams import BEST, EdgeSpec, TeamSpec
from tests.unit.runtime.handoff_machine.verdict import Case, verdict
from tests.unit.runtime.handoff_machine.world import TOKENS, World, words_of

GIVEN_BACK = EdgeSpec(target="", allow_return=True)
"""The way on which a person gives a conversation back."""

MAY_FOLLOW = {
    None: ["initiated"],
    "initiated": ["validating", "failed"],
    "validating": ["transferring", "failed"],
    "transferring": ["completed", "rolled_back"],
}
UNDOING = {
    "TARGET_FAILED", "DECLINED", "PERMISSION_DENIED", "CANCELLED", "BUDGET_EXCEEDED",
}  # fmt: skip


class Referee:
    """An independent model of one session.

    It holds whom the task is with, and why it may be there; every event is judged by that, and
    then changes it.
    """

    def __init__(self, team: TeamSpec, world: World, entry: str) -> None:
        self.team = team
        self.world = world
        self.owner = entry
        self.now = Standing(chain=["user", entry])
        self.open: list[Open] = []
        self.moves: dict[str, list[str]] = {}
        self.ends: dict[str, tuple[str, str, str, str | None]] = {}
        """By handoff: source, target, status, code."""
        self.said: dict[int, tuple[Item, ...]] = {}
        """What stands, by the number of its event."""
        self.undone: set[str] = set()
        """Ids of calls, and texts, that nobody is to see again."""
        self.calls: dict[str, Item] = {}
        self.owners = [entry]
        """By event, who had the task after it."""
        self.tokens = 0
        self.answers = 0
        """Of the owner since it has the task."""
        self.due: list[str] = []
        """Handoffs that the next events must confirm."""
        self.expected_route: str | None = None
        self.approvals: dict[str, bool] = {}
        self.is_undone = False
        """Whether the last event undid a handoff, or told people what could not be undone."""
        self.is_over = False
        """Whether a handoff was undone with which the run had begun: there is nothing to answer."""

    def read(self, events: Sequence[Event]) -> None:
        """Judge what is new."""
        for event in events[len(self.owners) - 1 :]:
            assert event.seq == len(self.owners)
            try:
                self._judge(event)
            except AssertionError as exc:
                exc.add_note(f"at {event.seq} {event.type} {event.agent} {event.details}")
                raise
            if event.items:
                self.said[event.seq] = event.items
            details = event.details or {}
            self.is_undone = "undoes" in details or (
                self.is_undone and details.get("kind") == "rollback_failed"
            )
            self.owners.append(self.owner)
        assert not self.due, "an answer confirms in its own transaction"
        assert self.expected_route is None

    def _judge(self, event: Event) -> None:
        details = event.details or {}
        if event.type == "handoff":
            self._handoff(event, details)
            return
        assert not self.due, f"{self.due} should have been confirmed by now"
        if (
            event.type == "message"
            and event.step is None
            and not details.keys() - {"unfinished", "undone"}
        ):
            self._message(event)
        elif event.type == "route":
            assert details["agent"] == self.expected_route
            self.expected_route = None
        assert event.agent == self.owner, "only who has the task does anything"
        self._learn(event)
        if event.type == "llm_call":
            self._answer(event)
        elif event.type == "message" and event.step and event.step.endswith(".m"):
            self._conclude(event)
        elif event.type == "message" and "published" in details:
            self.now.has_rung = True
        elif event.type == "message" and "state" in details:
            self._variables(details["state"])
        elif event.type == "tool_call":
            if event.error is None:
                assert details["tool"] in self._tools(), "nobody gets tools by a handoff"
                self.now.changes += 1
            else:
                self.now.has_slipped = True
        elif event.type == "inbox" and details["kind"] == "handoff":
            self.due = [each.id for each in self.open]
        elif event.type == "agent_complete" and not details:
            self._check_triggers("the answer")
        elif details.get("limit") == "tokens":
            for each in self.open:
                assert self._is_spent(each.before), "a budget undoes the handoff that it came with"
        elif event.type == "tool_confirmation":
            call_id = details["call_id"]
            # The number of a handoff that nobody went on with goes to the next one.
            is_a_models = call_id in self.calls
            assert not is_a_models or call_id not in self.approvals, "a person is asked once"
            self.approvals[call_id] = details["approved"]

    # Messages and answers

    def _message(self, event: Event) -> None:
        """A person wrote: a new run begins, with whoever has the task or with whom they named."""
        if event.agent != self.owner:
            assert not self.open, "what is taken away from its holder is settled"
            self.expected_route = self.owner = str(event.agent)
            self.now.tools = None
        self._begin_run()
        for each in self.open:
            each.kept.append(event.seq)
            each.begins_run = False
            before = each.before
            each.before = Standing(
                chain=["user", each.source], tools=before.tools, variables=before.variables
            )
        if self.expected_route is None and event.agent in self.world.named:
            self.expected_route = event.agent
        self.world.named.clear()

    def _begin_run(self, *, is_same_task: bool = False) -> None:
        """Only a message begins a new chain."""
        before = self.now
        self.now = Standing(
            chain=["user", self.owner], tools=before.tools, variables=before.variables
        )
        if is_same_task:
            self.now.chain, self.now.changes = before.chain, before.changes
            self.now.left, self.now.passed = before.left, before.passed
        self.tokens = self.answers = 0
        self.is_over = False

    def _learn(self, event: Event) -> None:
        """Calls that were made, and effects of those that are answered."""
        for item in event.items:
            if item.get("type") == "function_call":
                assert item["call_id"] not in self.calls, "no id is used twice"
                self.calls[item["call_id"]] = item
            elif item.get("type") == "function_call_output":
                self._effect(item)

    def _effect(self, output: Item) -> None:
        call, (*notes, told) = self.calls[output["call_id"]], str(output["output"]).split("\n")
        for note in notes:  # Earlier calls that were repeated first.
            if self.open and "call book(" in note and ": done " in note:
                self._booked(note.rpartition(": done ")[2])
        if not told.startswith("done"):
            return
        if call["name"] == "level":
            value = int(call["arguments"].partition(":")[2].strip(" }"))
            self.now.variables["level"] = value
        elif call["name"] == "book" and self.open:
            self._booked(told.removeprefix("done "))

    def _booked(self, key: str) -> None:
        if key not in self.open[-1].booked:
            self.open[-1].booked.append(key)

    def _variables(self, told: dict[str, Any]) -> None:
        """What one of several calls set before all have ended; or a rollback put back."""
        for name in told.get("deleted", ()):
            self.now.variables.pop(name, None)
        self.now.variables.update(told.get("set", {}))
        if not self.is_undone:
            self.now.changes += 1

    def _answer(self, event: Event) -> None:
        question = self.world.asked[str(event.step)]
        agent = self.team[self.owner]
        assert question.agent == self.owner
        if self.answers or not self.open:
            self._check_triggers("the next answer")
        offered = {edge.tool_name for edge in agent.edges if edge.trigger is None}
        assert question.tools == self._tools() | offered
        assert self.undone.isdisjoint(_marks(question.input)), "what was undone is gone"
        assert not self._is_spent(self.now), "nobody spends more than a handoff left"
        self.tokens += TOKENS
        if any(item.get("role") == "assistant" and item.get("content") for item in event.items):
            self.now.changes += 1
        self._conclude(event)

    def _is_spent(self, standing: Standing) -> bool:
        """Whether a budget is used up that somebody had then."""
        return any(self.tokens - begun >= allowed for begun, allowed in standing.budgets)

    def _tools(self) -> set[str]:
        """The tools that the owner may use."""
        tools = set(self.team[self.owner].tools)
        return tools if self.now.tools is None else tools & self.now.tools

    def _conclude(self, event: Event) -> None:
        """An answer: what it confirms."""
        self.answers += 1
        calls = [item for item in event.items if item.get("type") == "function_call"]
        if self.team[self.owner].kind == "runner" and len(event.items) > len(calls):
            self.now.changes += 1
        if self.open and (not calls or not self.open[-1].until_result):
            self.due = [each.id for each in self.open]

    def _check_triggers(self, before: str) -> None:
        """Whatever had to fire has fired before the agent goes on."""
        level = self.now.variables.get("level")
        for edge in self.team[self.owner].edges:
            if edge.trigger is None or edge in self.now.fired:
                continue
            is_due = {
                "condition": level is not None and level > edge.trigger_above,
                "event": self.now.has_rung,
                "error": self.now.has_slipped,
            }[edge.trigger]
            assert not is_due, f"the trigger {edge.trigger_name} did not fire before {before}"

    # Handoffs

    def _handoff(self, event: Event, details: dict[str, Any]) -> None:
        handoff_id, status = details["id"], details["status"]
        before = self.moves.setdefault(handoff_id, [])
        for move in details["moves"]:
            assert move in MAY_FOLLOW[before[-1] if before else None], f"{before} then {move}"
            before.append(move)
        assert before[-1] == status
        self.ends[handoff_id] = (details["from"], details["to"], status, details.get("code"))
        if self.due:
            assert (handoff_id, status) == (self.due.pop(0), "completed")
        if status in ("initiated", "validating"):
            assert details["from"] == event.agent == self.owner
        elif (
            status == "failed" and before[-2:] == ["validating", "failed"] and is_given_up(details)
        ):
            assert "initiated" not in details["moves"], "only what was told of is given up"
        elif details["moves"] and status in ("transferring", "failed"):
            self._attempt(event, details)
        elif status == "completed":
            assert event.agent == self.owner
            assert self.open.pop(0).id == handoff_id
        elif status == "rolled_back":
            self._rolled_back(event, details)
        else:
            self._compensation(event, details)

    def _attempt(self, event: Event, details: dict[str, Any]) -> None:
        assert details["from"] == event.agent == self.owner
        before = self.now, self.tokens, self.answers, self.is_over
        if details.get("begins_run"):
            self._begin_run(is_same_task=True)
        edge, case, words = self._case(event, details)
        code, target = verdict(case)
        if code is None:
            assert details["status"] == "transferring", f"{details.get('code')} without reason"
            assert details["to"] == target
            assert edge is not None
            self._transfer(event, edge, target, words)
        else:
            assert details["status"] == "failed", f"it was not refused: {code}"
            assert details["code"] == code
            assert details["to"] == case.target
            self._learn(event)
            if details.get("begins_run"):
                self.now, self.tokens, self.answers, self.is_over = before

    def _case(self, event: Event, details: dict[str, Any]) -> tuple[EdgeSpec | None, Case, str]:
        by = details.get("by", {}).get("kind", "model")
        policy, readable, words = None, True, ""
        capabilities: tuple[str, ...] = ()
        asked_by_person = by == "person"
        if by == "model":
            call = self.calls[event.items[0]["call_id"]]
            edge = self.team.offered(self.owner, call["name"])
            assert edge is not None, "a model can only use what it is offered"
            read = words_of(call)
            readable, words, target = read is not None, read or "", edge.target
        elif by == "trigger":
            edge = self._fired(details)
            target = edge.target
        elif "request" in details:
            asked = self.world.left.get(details["request"], self.world.asking)
            assert asked is not None
            target, words, policy = asked.to, asked.context, asked.policy
            capabilities = asked.capabilities
            edge = None
            if target == BEST or target in self.team.names:
                edge = self.team.edge(self.owner, target)
        else:
            assert self.team[self.owner].kind == "person"
            edge, target, words = GIVEN_BACK, details["to"], "a person's words"
            self.now.changes += 1
        is_changed = {
            name: self.now.changes > self.now.left.get(name, 0)
            or bool(words and (self.owner, name, words) not in self.now.passed)
            for name in self.team.names
        }
        level = self.now.variables.get("level")
        case = Case(
            team=self.team,
            chain=tuple(self.now.chain),
            target=target,
            edge=edge,
            policy=policy or (edge.policy if edge else "graceful"),
            capabilities=capabilities,
            level=level,
            is_changed=is_changed,
            away=frozenset(self.world.away),
            declining=frozenset(self.world.declining),
            is_approved=asked_by_person or self._is_approved(event, details, by),
            are_words_readable=readable,
        )
        return edge, case, words

    def _is_approved(self, event: Event, details: dict[str, Any], by: str) -> bool:
        call_id = event.items[0]["call_id"] if by == "model" else f"call_{details['id']}"
        return self.approvals.get(call_id, self.world.approving)

    def _fired(self, details: dict[str, Any]) -> EdgeSpec:
        """The edge whose trigger made the handoff; it had reason to."""
        for edge in self.team[self.owner].edges:
            if (
                edge.trigger is not None
                and edge.trigger_name == details["by"]["name"]
                and (edge.target in (details["to"], BEST))
                and edge not in self.now.fired
            ):
                break
        else:
            raise AssertionError("no trigger of the agent could have fired")
        self.now.fired.append(edge)
        level = self.now.variables.get("level")
        if edge.trigger == "condition":
            assert level is not None
            assert level > edge.trigger_above
        elif edge.trigger == "event":
            assert self.now.has_rung
        return edge

    def _transfer(self, event: Event, edge: EdgeSpec, target: str, words: str) -> None:
        now, source = self.now, self.owner
        call_id = event.items[0]["call_id"] if event.items else None
        before = deepcopy(now)
        self.open.append(
            Open(
                id=str((event.details or {})["id"]),
                source=source,
                target=target,
                seq=event.seq,
                call_id=call_id,
                until_result=edge.completes == "result",
                before=before,
                begins_run=bool((event.details or {}).get("begins_run")),
            )
        )
        if words and target in now.chain:
            now.passed.add((source, target, words))
        now.left[source] = now.changes
        now.chain.append(target)
        assert len(now.chain) - 2 <= self.team.depth
        if edge.restrict_tools:
            own = frozenset(self.team[source].tools)
            now.tools = own if now.tools is None else own & now.tools
        if edge.tokens is not None:
            now.budgets.append((self.tokens, edge.tokens))
        now.fired = []
        now.has_rung = now.has_slipped = False
        self.owner = target
        self.answers = 0

    def _compensation(self, event: Event, details: dict[str, Any]) -> None:
        undoing = self.open[-1]
        assert details["id"] == undoing.id
        assert event.agent == self.owner == undoing.target
        key = details["compensation"]
        assert key not in undoing.undone
        undoing.tries[key] = undoing.tries.get(key, 0) + 1
        assert details["attempt"] == undoing.tries[key]
        if event.error is None:
            undoing.undone.append(key)
            assert self.world.ledger.undone.count((undoing.id, key)) >= 1
        elif undoing.tries[key] == 3:
            undoing.given_up.append(key)
        order = [self.world.ledger.booked.index(each) for each in undoing.tries]
        assert order == sorted(order, reverse=True), "undone in reverse order"

    def _rolled_back(self, event: Event, details: dict[str, Any]) -> None:
        undone = self.open.pop()
        assert details["id"] == undone.id
        assert details["code"] in UNDOING
        assert event.agent == undone.source
        assert details["undoes"] == [undone.seq, event.seq - 1]
        assert details.get("keeps", []) == undone.kept
        assert details.get("not_compensated", []) == list(reversed(undone.given_up))
        settled = {*undone.undone, *undone.given_up}
        assert settled >= set(undone.booked), "everything that was booked is undone"
        for seq in [seq for seq in self.said if seq >= undone.seq and seq not in undone.kept]:
            self.undone.update(_marks(self.said.pop(seq)))
        told = [item["call_id"] for item in event.items]
        assert told == ([] if undone.call_id is None else [undone.call_id])
        self.now = undone.before
        self.is_over = undone.begins_run
        self.owner = undone.source
        assert self.now.chain[-1] == self.owner
        self.answers = 1


def is_given_up(details: dict[str, Any]) -> bool:
    """Whether nobody waits for it any more, and nobody decided."""
    return details["code"] == "CANCELLED" and "by" not in details


def _marks(items: Sequence[Item]) -> set[str]:
    """What calls and answers of models can be recognised by."""
    calls = {str(item["call_id"]) for item in items if item.get("type") == "function_call"}
    return calls | {text_of(item) for item in items if item.get("role") == "assistant"}
