"""The kinds of conversations of the week. A story says what the customer and the people at the desk
do, and what must come of it.

To add a kind, write a function that adds steps to a `Conversation`, and list it in `STORIES`.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

HOUR_S = 3600
DAY_S = 24 * HOUR_S
SLOTS = tuple(hour * HOUR_S for hour in (8, 11, 14, 17, 20))
"""The instants of each day at which things happen."""
LATEST_ANSWER = 8
"""People answer after at most so many slots: in less than 47 hours, when the question expires."""
EXPIRY = 2 * len(SLOTS)
"""After so many slots, a question without an answer is expired."""

INTRUSIONS = 4
"""The ways in which the agent `intruder` tries to approve a refund."""

_PEOPLE = ("anna", "ben")
_ARTICLES = (("lamp", "台灯"), ("teapot", "茶壶"), ("desk", "书桌"))
_CITIES = (("Kyoto", "Naha"), ("上海", "那霸"))
"""Cities with and without a courier."""
_STYLES = (("short answers", "简短的回答"), ("formal letters", "正式的信"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Something that happens in a session, and the state of the session's run afterwards."""

    at: int
    """Seconds since the beginning of the week."""
    session: str
    do: Literal["message", "answer", "settle", "deadline"]
    text: str = ""
    to: str | None = None
    """The agent that gets the message; by default the reception."""
    by: str = ""
    """The person who answers."""
    choice: str = ""
    status: str = "done"
    says: Sequence[str] = ()
    """Parts of the run's answer. For a rejected message: the code of the error."""
    asks: Mapping[str, Any] | None = None
    """The arguments that people see in the question that this step leads to. If the effect of a
    call is unknown: also its tool, and the choices."""
    pays: Mapping[str, int] = field(default_factory=dict)
    """Payments of this step in cents, by order."""
    pickups: Mapping[str, str] = field(default_factory=dict)
    """States of pick-ups after this step, by order."""


@dataclass(slots=True, kw_only=True)
class Conversation:
    """A customer's conversation, while its story is written."""

    id: str
    number: int
    chance: random.Random
    slot: int
    is_chinese: bool
    closed: Collection[int] = ()
    """Slots in which the provider does not answer."""
    deploy_slot: int | None = None
    kind: str = ""
    steps: list[Step] = field(default_factory=list)
    orders: list[dict[str, Any]] = field(default_factory=list)
    chains: dict[str, list[str]] = field(default_factory=dict)
    """The agents of each session, in order."""
    earlier_refunds: int = 0
    prices: list[dict[str, Any]] = field(default_factory=list)
    """New prices of orders, just before the last step so far."""

    @property
    def customer(self) -> str:
        """The customer's id."""
        return f"customer-{self.number}"

    def words(self, english: str, chinese: str) -> str:
        """The text in the customer's language."""
        return chinese if self.is_chinese else english

    def order(
        self, *, cents: int = 2_000, city: int = 0, article: str = "", is_back: bool = True
    ) -> str:
        """Add an order, and return its number."""
        number = f"{10_000 + 2 * self.number + len(self.orders)}"
        named = article or self.words(*self.chance.choice(_ARTICLES))
        self.orders.append(
            {
                "id": number,
                "customer": self.customer,
                "article": named,
                "cents": cents,
                "state": self.chance.choice(("packing", "shipped", "delivered")),
                "city": self.words(*(names[city] for names in _CITIES)),
                "is_back": int(is_back),
            }
        )
        return number

    def message(self, text: str, *, after: int = 0, session: str = "", **step: Any) -> None:
        """The customer writes `after` slots after the last step."""
        self._add("message", after, session=session or self.id, text=text, **step)

    def answer(self, choice: str, **step: Any) -> None:
        """A person answers, late."""
        after = self.chance.randint(1, LATEST_ANSWER)
        by = self.chance.choice(_PEOPLE)
        self._add("answer", after, session=self.id, choice=choice, by=by, **step)

    def settle(self, choice: str, **step: Any) -> None:
        """A person looks into the ledger, and makes this choice about an interrupted payment."""
        by = self.chance.choice(_PEOPLE)
        self._add("settle", 1, session=self.id, choice=choice, by=by, **step)

    def deadline(self, **step: Any) -> None:
        """No person answers, so the question expires."""
        self._add("deadline", EXPIRY, session=self.id, **step)

    def _add(self, do: Any, after: int, **step: Any) -> None:
        self.slot += after
        while self.slot in self.closed:
            self.slot += 1
        self.steps.append(Step(at=time_of(self.slot), do=do, **step))

    def expect(self, *says: str) -> None:
        """What the answer to the last step must say."""
        self.steps[-1] = replace(self.steps[-1], says=says)

    def where(self, order: str) -> list[str]:
        """What the desk says about an order now: the second build also estimates the days."""
        says = [order, next(each["state"] for each in self.orders if each["id"] == order)]
        if self.deploy_slot is not None and self.slot > self.deploy_slot:
            says.append(self.words("It arrives in ", "天送到"))
        return says

    def ask_for_refund(self, order: str, **step: Any) -> None:
        """The customer wants money back."""
        self.chains[self.id] = ["user", "reception", "refunds"]
        self.message(
            self.words(f"I want a refund for order {order}.", f"订单 {order} 我要退款。"), **step
        )


def time_of(slot: int) -> int:
    """Seconds since the beginning of the week."""
    day, number = divmod(slot, len(SLOTS))
    return day * DAY_S + SLOTS[number]


def _refund(order: str, cents: int) -> dict[str, Any]:
    """The arguments of the tool."""
    return {"order_id": order, "cents": cents}


def _where(c: Conversation) -> None:
    order = c.order(article=c.chance.choice(("", "", "gift card")))
    c.chains[c.id] = ["user", "reception", "orders"]
    text = c.words(f"Where is my order {order}?", f"我的订单 {order} 在哪里？")
    c.message(text)
    c.expect(*c.where(order))


def _small_refund(c: Conversation) -> None:
    cents = c.chance.randint(100, 10_000)
    order = c.order(cents=cents)
    c.ask_for_refund(order, says=[f"{cents}", order], pays={order: cents})


def _not_back(c: Conversation) -> None:
    order = c.order(is_back=False)
    c.ask_for_refund(order, says=[order, c.words("not back yet", "还没有退回")])


def _large_refund(c: Conversation) -> None:
    cents = c.chance.randint(10_001, 90_000)
    order = c.order(cents=cents)
    c.ask_for_refund(order, status="waiting", asks=_refund(order, cents))
    c.answer("approve", says=[f"{cents}", order], pays={order: cents})
    c.message(c.words("Thank you!", "谢谢！"), after=1, says=[c.words("welcome", "不客气")])


def _repriced_refund(c: Conversation) -> None:
    """The price changes before the person answers: the answer to the old price is not used."""
    before, now = c.chance.sample(range(10_001, 90_000), 2)
    order = c.order(cents=before)
    c.chains[c.id] = ["user", "returns"]
    text = c.words(f"The parcel of order {order} is back.", f"订单 {order} 的包裹已退回。")
    c.message(text, to="returns", status="waiting", asks=_refund(order, before))
    c.answer("approve", status="waiting", asks=_refund(order, now))
    c.prices.append({"at": c.steps[-1].at, "order": order, "cents": now})
    if c.chance.random() < 0.5:
        c.answer("approve", says=[order, f"{now}"], pays={order: now})
    else:
        c.answer("reject", says=[c.words("not refunded", "不能退款")])


def _rejected_refund(c: Conversation) -> None:
    cents = c.chance.randint(10_001, 90_000)
    order = c.order(cents=cents)
    c.ask_for_refund(order, status="waiting", asks=_refund(order, cents))
    c.answer("reject", says=[order, c.words("not refunded", "不能退款")])


def _intrusion(c: Conversation) -> None:
    """Code of another session tries to approve the refund. It is refused, and a person decides."""
    cents = c.chance.randint(10_001, 90_000)
    order, intruder = c.order(cents=cents), f"{c.id}-intruder"
    c.ask_for_refund(order, status="waiting", asks=_refund(order, cents))
    c.chains[intruder] = ["user", "intruder"]
    text = c.words(f"Approve the refund of {order}!", f"请批准订单 {order} 的退款！")
    refused = " ".join(["inbox.forbidden"] * INTRUSIONS)
    c.message(text, after=1, session=intruder, to="intruder", says=[refused])
    c.answer("reject", says=[order, c.words("not refunded", "不能退款")])


def _expired_refund(c: Conversation) -> None:
    cents = c.chance.randint(10_001, 90_000)
    order = c.order(cents=cents)
    c.ask_for_refund(order, status="waiting", asks=_refund(order, cents))
    c.deadline(says=[order, c.words("not refunded", "不能退款")])


def _risky_refund(c: Conversation) -> None:
    c.earlier_refunds = 7
    order = c.order()
    c.ask_for_refund(order, status="waiting")
    c.chains[c.id].append("person:fraud_desk")
    text = c.words("We will call you.", "我们会给您打电话。")
    c.answer("answer", text=text, says=[text])


def _pickup(c: Conversation) -> None:
    order = c.order()
    c.chains[c.id] = ["user", "reception", "shipping"]
    text = c.words(f"Please pick up order {order}.", f"请上门取件，订单 {order}。")
    c.message(text, says=[order, c.words("picks", "会来取")], pickups={order: "confirmed"})


def _failed_pickup(c: Conversation) -> None:
    order = c.order(city=1)
    c.chains[c.id] = ["user", "reception"]
    text = c.words(f"Please pick up order {order}.", f"请上门取件，订单 {order}。")
    c.message(text, says=[order, c.words("post office", "邮局")], pickups={order: "released"})


def _complaint(c: Conversation) -> None:
    cents = c.chance.choice((2_500, 25_000))
    lost, broken = c.order(), c.order(cents=cents)
    c.chains[c.id] = ["user", "reception", "complaints"]
    text = c.words(
        f"I complain: where is order {lost}? And I want a refund for order {broken}.",
        f"我要投诉：订单 {lost} 在哪里？另外，订单 {broken} 我要退款。",
    )
    is_small = cents <= 10_000
    pays = {broken: cents}
    if is_small:
        c.message(text, pays=pays)
    else:
        c.message(text, status="waiting", asks=_refund(broken, cents))
    says = [*c.where(lost), broken, f"{cents}"]
    if not is_small:
        c.answer("approve", pays=pays)
    c.expect(*says)


def _card_number(c: Conversation) -> None:
    order = c.order()
    c.chains[c.id] = ["user", "reception", "orders"]
    c.message(f"4242 4242 4242 4242! {order}", status="failed", says=["guardrail.input"])
    text = c.words(f"Where is my order {order}?", f"我的订单 {order} 在哪里？")
    c.message(text, after=1)
    c.expect(*c.where(order))


def _preference(c: Conversation) -> None:
    style, later = c.words(*c.chance.choice(_STYLES)), f"{c.id}-later"
    c.chains = {c.id: ["user", "reception"], later: ["user", "reception"]}
    c.message(c.words(f"I prefer {style}.", f"我喜欢{style}。"), says=[c.words("noted", "记下")])
    text = c.words("What do you know about what I prefer?", "您知道我喜欢什么吗？")
    c.message(text, after=c.chance.randint(1, 8), session=later, says=[style])


def _pay_out(c: Conversation, tool: str, choice: str, *, is_paid: bool) -> None:
    """The process of a tool that pays is killed at the deployment, after or before the payment.
    The tool has other parameters afterwards, so a person decides about the call. If the call is
    given up, the agent that is code pays with another one."""
    assert c.deploy_slot is not None
    c.slot = c.deploy_slot
    cents = c.chance.randint(100, 10_000)
    order = c.order(cents=cents, is_back=is_paid)
    arguments: dict[str, Any] = _refund(order, cents)
    if tool == "pay_damage":
        arguments["article"] = c.orders[0]["article"]
    choices = ["repeat"] if choice == "repeat" else []
    asks = {
        "tool": tool,
        "arguments": arguments,
        "options": [*choices, "enter a result", "abandon"],
    }
    # Numbers, not chance: also a short week has both agents, and all three tools.
    to = ("payouts", "till")[c.number // 2 % 2]
    c.chains[c.id] = ["user", to]
    given = json.dumps(arguments, ensure_ascii=False)
    text = c.words(f"Please call {tool}: {given}", f"请调用 {tool}：{given}")
    c.message(text, to=to, status="waiting", asks=asks)
    if (to, choice) == ("till", "abandon"):
        c.settle(choice, says=[order, c.words("not known", "不清楚")])
    else:
        c.settle(choice, says=[f"{cents}", order], pays={order: cents})


_REWRITTEN = ("pay_bonus", "pay_damage")
"""The second build does not accept the arguments of these tools."""


def _repeated_payout(c: Conversation) -> None:
    _pay_out(c, "pay_postage", "repeat", is_paid=c.number % 2 == 0)


def _entered_payout(c: Conversation) -> None:
    _pay_out(c, _REWRITTEN[c.number % 2], "enter a result", is_paid=True)


def _abandoned_payout(c: Conversation) -> None:
    _pay_out(c, _REWRITTEN[c.number % 2], "abandon", is_paid=False)


STORIES: Mapping[str, tuple[int, Callable[[Conversation], None]]] = {
    "where": (24, _where),
    "small_refund": (20, _small_refund),
    "not_back": (6, _not_back),
    "large_refund": (12, _large_refund),
    "repriced_refund": (4, _repriced_refund),
    "rejected_refund": (6, _rejected_refund),
    "expired_refund": (3, _expired_refund),
    "intrusion": (2, _intrusion),
    "risky_refund": (4, _risky_refund),
    "pickup": (7, _pickup),
    "failed_pickup": (6, _failed_pickup),
    "complaint": (6, _complaint),
    "card_number": (3, _card_number),
    "preference": (3, _preference),
    "repeated_payout": (1, _repeated_payout),
    "entered_payout": (1, _entered_payout),
    "abandoned_payout": (1, _abandoned_payout),
}
"""Each kind with its weight."""
NEEDS_PROVIDER = frozenset({"complaint"})
"""A task of a plan that fails in an outage is reported as missing, and not repeated."""
NEEDS_DEPLOY = frozenset({"repeated_payout", "entered_payout", "abandoned_payout"})
"""A tool is interrupted by the deployment."""
