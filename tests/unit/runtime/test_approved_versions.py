"""What a person approved is what runs: this tool in this version, with these arguments, in time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from ekiden import (
    Agent,
    FunctionTool,
    RunConfig,
    RunHooks,
    Runner,
    Session,
    ToolContext,
    function_tool,
)
from ekiden.core.agent import Team
from ekiden.core.approvals import AlwaysScope, is_within_limits, limits_for
from ekiden.core.errors import UserError
from ekiden.core.errors.messages import InboxAnswerInvalid
from ekiden.core.profile import Confirmation
from ekiden.core.questions import InboxItem
from ekiden.core.roles import Approval, ConfirmationRequest
from ekiden.inbox import Inbox
from ekiden.runtime.state.cursor import ALWAYS
from ekiden.storage.base import Commit, SessionPatch
from ekiden.storage.memory import MemoryStore
from ekiden.testing import ManualClock, ScriptedModel, call, say
from tests.unit.runtime.asking.desks import open_items, outcome, submitted, work

CONFIRMED = Confirmation(timeout_s=10**6)
DAY_S = 86_400


class Bank:
    """A till that is deployed again and again, and what it paid."""

    def __init__(self, *steps: Any) -> None:
        self.paid: list[Any] = []
        self.clock = ManualClock()
        self.store = MemoryStore(self.clock)
        self.config = RunConfig(approver="inbox", clock=self.clock)
        self.model = ScriptedModel(list(steps))
        self.team = self.deployed(self.dollars())

    def dollars(self) -> FunctionTool:
        @function_tool(confirmation=CONFIRMED)
        async def pay(cents: int, to: str = "shop") -> str:
            """Pay."""
            self.paid.append((cents, to))
            return "paid"

        return pay

    def euros(self) -> FunctionTool:
        """The same definition with another meaning."""

        @function_tool(confirmation=CONFIRMED)
        async def pay(cents: int, to: str = "shop") -> str:
            """Pay."""
            self.paid.append((cents * 100, to))
            return "paid"

        return pay

    def remote(self, **changes: Any) -> FunctionTool:
        """A tool of an MCP server."""

        async def forward(ctx: ToolContext[Any], arguments: str) -> str:
            self.paid.append(arguments)
            return "paid"

        schema = {"type": "object", "properties": {"cents": {"type": "integer"}}}
        tool = FunctionTool(
            "pay",
            "Pay.",
            schema,
            forward,
            strict_json_schema=False,
            confirmation=CONFIRMED,
            origin={"mcp": {"name": "bank"}, "destructive": False},
        )
        return replace(tool, **changes)

    def deployed(self, tool: FunctionTool) -> Team:
        self.team = Team(Agent("till", model=self.model, tools=[tool]))
        return self.team

    async def begin(self) -> InboxItem:
        await submitted(self.store, self.team, self.config)
        return await self.item()

    async def item(self) -> InboxItem:
        [item] = await open_items(self.store)
        return item

    async def answer(self, item: InboxItem, **more: Any) -> None:
        await Inbox(self.store).answer(item.id, choice="approve", by="mira", **more)

    async def go_on(self) -> None:
        await work(self.store, self.team, self.config)

    async def again(self) -> None:
        """The next message of the person."""
        await Runner.run(
            self.team, "again", session=Session("s", store=self.store), run_config=self.config
        )

    async def voided(self) -> list[str]:
        events = await self.store.events("s")
        found = [each.details or {} for each in events if each.type == "tool_confirmation"]
        return [each["reason"] for each in found if each["status"] == "void"]


async def test_an_approval_is_void_after_the_tool_was_deployed_with_another_meaning() -> None:
    bank = Bank(call("pay", cents=500), say("done"))
    item = await bank.begin()
    await bank.answer(item)
    bank.deployed(bank.euros())
    await bank.go_on()
    assert bank.paid == []
    [reason] = await bank.voided()
    assert "code changed" in reason
    again = await bank.item()
    assert "code changed" in again.body
    assert again.tool_version != item.tool_version
    await bank.answer(again)
    await bank.go_on()
    assert bank.paid == [(50_000, "shop")]
    assert await outcome(bank.store) == ("idle", "done")


async def test_a_question_about_a_changed_tool_is_withdrawn_and_asked_again() -> None:
    bank = Bank([call("pay", cents=1), call("pay", cents=2)], say("done"))
    await submitted(bank.store, bank.team, bank.config)
    first, second = await open_items(bank.store)
    bank.deployed(bank.euros())
    await Inbox(bank.store).answer(first.id, choice="reject", by="mira")
    await bank.go_on()
    again = await bank.item()
    assert again.arguments == second.arguments
    withdrawn = await Inbox(bank.store).get(second.id)
    assert (withdrawn.status, "the tool changed" in withdrawn.reason) == ("cancelled", True)
    await bank.answer(again)
    await bank.go_on()
    assert [cents for cents, _ in bank.paid] in ([100], [200]), "a rejection needs no version"


async def test_an_approved_call_that_did_not_start_is_asked_again_after_a_deploy() -> None:
    class Stops(RunHooks):
        async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
            raise ConnectionError("it stops before the call")

    bank = Bank(call("pay", cents=500), say("done"))
    session = Session("s", store=bank.store)
    await bank.answer(await bank.begin())
    with pytest.raises(ConnectionError):
        await Runner.resume(bank.team, session, run_config=bank.config, hooks=Stops())
    bank.deployed(bank.euros())
    await Runner.resume(bank.team, session, run_config=bank.config)
    assert bank.paid == []
    await bank.answer(await bank.item())
    await bank.go_on()
    assert bank.paid == [(50_000, "shop")]


async def test_an_unchanged_tool_is_approved_once() -> None:
    bank = Bank(call("pay", cents=500), say("done"))
    await bank.answer(await bank.begin())
    bank.deployed(bank.dollars())
    await bank.go_on()
    assert (bank.paid, await bank.voided()) == ([(500, "shop")], [])


@pytest.mark.parametrize(
    ("changes", "shown"),
    [
        ({"description": "Pay all."}, 'description: "Pay." → "Pay all."'),
        (
            {"params_json_schema": {"type": "object", "properties": {"cents": {"type": "number"}}}},
            'arguments.properties.cents.type: "integer" → "number"',
        ),
        (
            {"origin": {"mcp": {"name": "bank"}, "destructive": True}},
            "server.destructive: false → true",
        ),
        ({"origin": {"mcp": {"name": "evil"}, "destructive": False}}, '"bank" → "evil"'),
    ],
)
async def test_a_changed_mcp_tool_is_asked_again_with_the_difference(
    changes: dict[str, Any], shown: str
) -> None:
    bank = Bank(*[call("pay", cents=5), say("done")] * 3)
    bank.deployed(bank.remote())
    await bank.answer(await bank.begin(), always=True, scope="session")
    await bank.go_on()
    await bank.again()
    assert len(bank.paid) == 2
    bank.deployed(bank.remote(**changes))
    await bank.again()
    assert len(bank.paid) == 2
    item = await bank.item()
    assert shown in item.body
    [*_, reason] = await bank.voided()
    assert shown in reason


@pytest.mark.parametrize(
    ("scope", "limits", "covered"),
    [
        ("call", None, []),
        ("limits", {"cents": {"max": 9}}, [(9, "a")]),
        ("limits", {"cents": {"max": 9}, "to": {"any_of": ["a", "b"]}}, [(9, "a"), (9, "b")]),
        ("session", None, [(9, "a"), (9, "b"), (999_999, "evil")]),
    ],
)
async def test_always_covers_what_the_person_chose(
    scope: AlwaysScope, limits: dict[str, Any] | None, covered: list[tuple[int, str]]
) -> None:
    calls = [(5, "a"), (9, "a"), (9, "b"), (999_999, "evil")]
    bank = Bank(
        call("pay", cents=5, to="a"), [call("pay", cents=n, to=to) for n, to in calls], say("done")
    )
    await bank.answer(await bank.begin(), always=True, scope=scope, limits=limits)
    await bank.go_on()
    assert bank.paid == [(5, "a"), (5, "a"), *covered]


async def test_limits_that_do_not_cover_the_call_are_refused() -> None:
    bank = Bank(call("pay", cents=5, to="a"))
    item = await bank.begin()
    for more in (
        {"always": True, "scope": "limits", "limits": {"cents": {"max": 4}}},
        {"always": True, "scope": "limits", "limits": {"amount": {"max": 9}}},
        {"always": True, "scope": "limits", "limits": {"to": {"like": "a"}}},
        {"always": True, "limits": {"cents": {"max": 9}}},
        {"scope": "session"},
    ):
        with pytest.raises(InboxAnswerInvalid):
            await bank.answer(item, **more)


@pytest.mark.parametrize(
    ("limits", "arguments", "is_within"),
    [
        ({"n": {"max": 9}}, '{"n": 9}', True),
        ({"n": {"max": 9}}, '{"n": 9.5}', False),
        ({"n": {"max": 9}}, '{"n": -1}', False),
        ({"n": {"max": 9}}, '{"n": true}', False),
        ({"n": {"max": 9}}, '{"n": "1"}', False),
        ({"n": {"max": 9}}, '{"n": 1, "to": "evil"}', False),
        ({"n": {"max": 9}}, '{"n": 99, "n": 1}', False),
        ({"n": {"max": 9}}, "{}", False),
        ({"n": {"max": 9}}, "no JSON", False),
        ({"n": {"equal": 1}}, '{"n": 1.0}', False),
        ({"n": {"equal": {"a": [1]}}}, '{"n": {"a": [1]}}', True),
        ({"n": {"any_of": [1, 2]}}, '{"n": 2}', True),
        ({"n": {"any_of": [1, 2]}}, '{"n": 3}', False),
    ],
)
def test_limits(limits: Any, arguments: str, is_within: bool) -> None:
    assert is_within_limits(limits, arguments) is is_within


def test_arguments_without_a_limit_must_be_equal() -> None:
    limits = limits_for('{"n": 1, "to": "a"}', {"n": {"max": 9}})
    assert is_within_limits(limits, '{"n": 3, "to": "a"}')
    assert not is_within_limits(limits, '{"n": 3, "to": "b"}')
    with pytest.raises(UserError, match="not a JSON object"):
        limits_for("[1]")


def changed_grant(change: Callable[[Any], Any]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    def of(cursor: dict[str, Any]) -> dict[str, Any]:
        return {**cursor, ALWAYS: [change(each) for each in cursor[ALWAYS]]}

    return of


async def rewritten(store: MemoryStore, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Replace the stored cursor of the session."""
    claim, row = await store.claim("s", owner="test", lease_s=30)
    patch = SessionPatch(cursor=change(dict(row.cursor)))
    await store.commit(claim, Commit(patch=patch, events=(), release=True))


async def test_always_approvals_of_format_8_are_asked_again() -> None:
    bank = Bank(*[call("pay", cents=5), say("done")] * 2)
    await bank.answer(await bank.begin(), always=True, scope="session")
    await bank.go_on()
    await rewritten(bank.store, changed_grant(lambda _: ["till", "pay", "", "mira"]))
    await bank.again()
    assert len(bank.paid) == 1
    await bank.item()


async def test_questions_of_format_8_are_answered_for_their_arguments() -> None:
    bank = Bank(call("pay", cents=5), say("done"))
    item = await bank.begin()

    def old(cursor: dict[str, Any]) -> dict[str, Any]:
        return {**cursor, "as": {key: each[:7] for key, each in cursor["as"].items()}}

    await rewritten(bank.store, old)
    await bank.answer(item)
    await bank.go_on()
    assert bank.paid == [(5, "shop")]


@pytest.mark.parametrize("valid_s", [60, None])
async def test_an_approval_expires_before_a_late_start(valid_s: float | None) -> None:
    bank = Bank(call("pay", cents=5), say("done"))
    bank.config = replace(bank.config, approval_valid_s=valid_s)
    await bank.answer(await bank.begin())
    bank.clock.advance(61)
    await bank.go_on()
    assert bank.paid == ([] if valid_s else [(5, "shop")])
    if valid_s:
        item = await bank.item()
        assert "expired before the call started" in item.body
        await bank.answer(item)
        await bank.go_on()
        assert bank.paid == [(5, "shop")]


async def test_an_always_approval_expires() -> None:
    bank = Bank(*[call("pay", cents=5), say("done")] * 3)
    await bank.answer(await bank.begin(), always=True)
    await bank.go_on()
    bank.clock.advance(DAY_S - 60)
    await bank.again()
    assert len(bank.paid) == 2
    bank.clock.advance(120)
    await bank.again()
    assert len(bank.paid) == 2
    assert "expired" in (await bank.item()).body


async def test_an_approver_is_told_why_it_is_asked_again() -> None:
    asked: list[ConfirmationRequest] = []

    class Person:
        async def approve(self, request: ConfirmationRequest) -> Approval:
            asked.append(request)
            return Approval(approved=True, by="mira", always=True)

    bank = Bank(*[call("pay", cents=5), say("done")] * 3)
    bank.config = replace(bank.config, approver=Person())
    await bank.again()
    await bank.again()
    bank.deployed(bank.euros())
    await bank.again()
    assert [len(each.changes) for each in asked] == [0, 2]
    assert "code changed" in asked[-1].prompt
