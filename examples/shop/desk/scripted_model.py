"""A model server for the desk: it speaks OpenAI's Responses API and answers from a script.

An answer depends only on the request, so a repeated request gets the same answer. `POST /outage`
with a kind of `OUTAGES`, or `null`, begins or ends an outage of the provider.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from ekiden.core.conversation.model import Item, Usage, text_of
from ekiden.testing import call, say, transfer
from ekiden.testing.servers.loopback import HttpReply, HttpRequest, LoopbackServer
from ekiden.testing.servers.openai_wire import (
    WireAnswer,
    check_responses,
    response_body,
    response_events,
    wire_item,
)
from ekiden.testing.steps import AnswerStep

PORT = 8322
OUTAGES = ("unavailable", "busy", "cut", "hang")
_HANG_S = 2.0
"""After so many seconds of silence, the provider closes the connection."""
_CARD = "4111 1111 1111 1111"
_USAGE = Usage(requests=1, input_tokens=100, output_tokens=20, total_tokens=120)
_REJECTED = "Your last answer was rejected"


class Request:
    """A request to the model: the last message of the customer, and the calls since then."""

    def __init__(self, body: Mapping[str, Any]) -> None:
        self.instructions: str = body.get("instructions") or ""
        self.tools = {tool["name"] for tool in body.get("tools") or ()}
        self.is_plan = (body.get("text") or {}).get("format", {}).get("name") == "plan"
        given = body["input"]
        items: list[Item] = (
            [{"role": "user", "content": given}] if isinstance(given, str) else given
        )
        asked = [item for item in items if item.get("role") == "user"]
        self.is_rejected = text_of(asked[-1]).startswith(_REJECTED)
        asked = [item for item in asked if not text_of(item).startswith(_REJECTED)]
        self.text = text_of(asked[-1])
        since = items[items.index(asked[-1]) :]
        names = {item["call_id"]: item["name"] for item in since if "name" in item}
        self.done = {
            names[item["call_id"]]: _output(item)
            for item in since
            if item.get("type") == "function_call_output"
        }
        """The outputs of the tools that were called, by name."""

    @property
    def order(self) -> str:
        """The number of the order that the message is about."""
        found = re.search(r"\d{5}", self.text)
        return found[0] if found else ""

    def has(self, *words: str) -> bool:
        """Whether the message has one of these words."""
        return any(word in self.text.lower() for word in words)

    def say(self, english: str, chinese: str) -> AnswerStep:
        """Answer in the language of the message."""
        return say(chinese if re.search(r"[\u4e00-\u9fff]", self.text) else english)


def _output(item: Item) -> Any:
    text = item["output"] if isinstance(item["output"], str) else text_of(item)
    try:
        return json.loads(text)
    except ValueError:
        return text


def _hand_to(agent: str, request: Request) -> AnswerStep:
    return transfer(agent, reason=request.text[:200], context=None, summary=None)


def _reception(request: Request) -> AnswerStep:
    if "does not serve" in str(request.done.get("transfer_to_shipping")):
        return request.say(
            f"No courier can fetch order {request.order}. Please bring it to a post office.",
            f"没有快递可以取订单 {request.order}，请您送到邮局。",
        )
    if request.has("what do you know", "您知道"):
        if "recall" not in request.done:
            return call("recall", query=request.text)
        found = re.findall(r'"content":\s*"([^"]*)"', str(request.done["recall"]))
        known = " ".join(found)
        return request.say(f"You told me: {known}", f"您告诉过我：{known}")
    if request.has("i prefer", "我喜欢"):
        if "remember" not in request.done:
            return call("remember", content=request.text, key="style", tags=["style"])
        return request.say("I have noted it.", "我记下了。")
    for words, agent in _TOPICS.items():
        if request.has(*words):
            return _hand_to(agent, request)
    return request.say("What can I do for you?", "我能为您做什么？")


_TOPICS = {
    ("complain", "投诉"): "complaints",
    ("refund", "退款"): "refunds",
    ("pick up", "取件"): "shipping",
    ("where", "哪里"): "orders",
}
"""The agent for each topic; the first topic with a matching word counts."""


def _unknown(request: Request) -> AnswerStep:
    """The answer after a failed look-up, whose result is the text of an error."""
    return request.say(
        f"I do not find the order {request.order}. Please check its number.",
        f"找不到订单 {request.order}，请核对订单号。",
    )


def _orders(request: Request) -> AnswerStep:
    if "lookup_order" not in request.done:
        return call("lookup_order", order_id=request.order)
    order = request.done["lookup_order"]
    if not isinstance(order, dict):
        return _unknown(request)
    if "estimate_delivery" in request.tools and "estimate_delivery" not in request.done:
        return call("estimate_delivery", order_id=request.order)
    days = request.done.get("estimate_delivery")
    paid = f" You paid with {_CARD}." if order["article"] == "gift card" else ""
    paid = "" if request.is_rejected else paid
    return request.say(
        f"Order {request.order} ({order['article']}) is {order['state']}.{paid}"
        + (f" It arrives in {days} days." if days else ""),
        f"订单 {request.order}（{order['article']}）的状态是 {order['state']}。{paid}"
        + (f"还有 {days} 天送到。" if days else ""),
    )


def _refunds(request: Request) -> AnswerStep:
    order_id = request.order
    if "check_refund" not in request.done:
        return call("check_refund", order_id=order_id)
    checked = request.done["check_refund"]
    if not isinstance(checked, dict):
        return _unknown(request)
    if not checked["is_back"]:
        return request.say(
            f"Order {order_id} is not back yet. Please send it back first.",
            f"订单 {order_id} 还没有退回，请先寄回。",
        )
    if "refund" not in request.done:
        return call("refund", order_id=order_id, cents=checked["cents"])
    paid = request.done["refund"]
    if not isinstance(paid, dict):
        return request.say(
            f"I am sorry, order {order_id} is not refunded.", f"很抱歉，订单 {order_id} 不能退款。"
        )
    return request.say(
        f"{paid['paid_cents']} cents for order {order_id} are paid back.",
        f"订单 {order_id} 已退款 {paid['paid_cents']} 分。",
    )


def _shipping(request: Request) -> AnswerStep:
    if "reserve_pickup" not in request.done:
        return call("reserve_pickup", order_id=request.order)
    if "confirm_pickup" not in request.done:
        return call("confirm_pickup", **request.done["reserve_pickup"])
    return request.say(
        f"A courier picks order {request.order} up.", f"快递会来取订单 {request.order}。"
    )


def _plan(request: Request) -> AnswerStep:
    text = json.loads(request.text.removeprefix("<request>").removesuffix("</request>"))
    parts = [part.strip() for part in re.split(r"(?<=[?？])", text) if part.strip()]
    tasks: list[dict[str, Any]] = [
        {
            "id": f"t{number}",
            "agent": "refunds" if re.search("refund|退款", part) else "orders",
            "description": part,
            "parameters": [],
            "depends_on": [],
        }
        for number, part in enumerate(parts, start=1)
    ]
    return say(json.dumps({"reasoning": "One task for each subject.", "tasks": tasks}))


def _till(request: Request) -> AnswerStep:
    [tool] = [tool for tool in request.tools if tool in request.text]
    if tool not in request.done:
        found = re.search(r"{.*}", request.text)
        assert found is not None
        return call(tool, **json.loads(found[0]))
    paid = request.done[tool]
    if not isinstance(paid, dict):
        return request.say(
            f"It is not known whether order {request.order} is paid.",
            f"不清楚订单 {request.order} 是否已付款。",
        )
    return request.say(
        f"{paid['paid_cents']} cents for order {request.order} are paid.",
        f"订单 {request.order} 已付款 {paid['paid_cents']} 分。",
    )


def _joined(request: Request) -> AnswerStep:
    return say(" ".join(re.findall(r"```\n(.*?)\n```", request.text, flags=re.DOTALL)))


_AGENTS: Mapping[str, Callable[[Request], AnswerStep]] = {
    "You are the reception": _reception,
    "You are the order desk": _orders,
    "You are the refund desk": _refunds,
    "You are the shipping desk": _shipping,
    "You are the till": _till,
    "Several agents worked on": _joined,
}
"""Who speaks, by a part of the instructions."""


def answer(body: Mapping[str, Any]) -> AnswerStep:
    """The answer to a request."""
    request = Request(body)
    if request.is_plan:
        return _plan(request)
    if request.has("thank", "谢谢"):
        return request.say("You are welcome.", "不客气。")
    for part, script in _AGENTS.items():
        if part in request.instructions:
            return script(request)
    raise KeyError(f"no script for {request.instructions[:100]!r}")


class ScriptedModelServer(LoopbackServer):
    """Serves the script at ``/v1/responses``, and counts what it serves."""

    def __init__(self, *, port: int = 0) -> None:
        super().__init__(port=port)
        self._outage: str | None = None
        self._counts = {"answers": 0, **dict.fromkeys(OUTAGES, 0)}

    async def handle(self, request: HttpRequest, reply: HttpReply) -> None:
        """Answer, or fail as the outage says."""
        if request.path == "/outage":
            self._outage = request.json()
            await reply.json(self._counts)
            return
        body = request.json()
        if self._outage is not None:
            self._counts[self._outage] += 1
            await self._fail(self._outage, reply)
            return
        check_responses(body, reasoning_of={})
        self._counts["answers"] += 1
        made = _wire(answer(body), body)
        if not body.get("stream"):
            await reply.json(response_body(made))
            return
        await reply.start_events()
        for name, data in response_events(made):
            await reply.event(data, name=name)
        await reply.end_events()

    async def _fail(self, kind: str, reply: HttpReply) -> None:
        if kind == "hang":
            await reply.unless_gone(asyncio.sleep(_HANG_S))
            await reply.drop()
        elif kind == "cut":
            await reply.text('{"id": "resp_1", "object": "response"}', sent=12)
            await reply.drop()
        else:
            status = 503 if kind == "unavailable" else 429
            await reply.json({"error": {"message": kind}}, status=status)


def _wire(step: AnswerStep, body: Mapping[str, Any]) -> WireAnswer:
    """The answer with ids that depend only on the request."""
    digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()[:16]
    items = [wire_item(dict(item), f"{digest}_{index}") for index, item in enumerate(step.output)]
    for index in step.transfers:
        items[index]["name"] = f"transfer_to_{items[index]['name']}"
    return WireAnswer(id=digest, model=body["model"], items=items, usage=_USAGE, chunks=1)


async def _serve(port: int) -> None:
    async with ScriptedModelServer(port=port) as server:
        print(json.dumps({"url": server.origin}), flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m desk.scripted_model")
    parser.add_argument("--port", type=int, default=PORT, help="0 picks a free port")
    asyncio.run(_serve(parser.parse_args().port))
