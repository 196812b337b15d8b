"""Streams of servers that are compatible with OpenAI's chat API, but differ from it."""

from __future__ import annotations

import json
from typing import Any

from ekiden.core.conversation.model import ModelDelta, ModelRequest, ToolSpec, text_of, user_message
from ekiden.models import resolve_model
from ekiden.testing.servers.loopback import HttpReply, HttpRequest, LoopbackServer


class Compatible(LoopbackServer):
    """Answers with these chunks: the delta of each, and the finish reason of the last."""

    def __init__(self, *deltas: dict[str, Any], finish: str) -> None:
        super().__init__()
        self._choices: list[dict[str, Any]] = [{"index": 0, "delta": delta} for delta in deltas]
        self._choices.append({"index": 0, "delta": {}, "finish_reason": finish})

    async def handle(self, request: HttpRequest, reply: HttpReply) -> None:
        facts = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
        chunks = [json.dumps({**facts, "choices": [choice]}) for choice in self._choices]
        text = "".join(f"data: {chunk}\n\n" for chunk in [*chunks, "[DONE]"])
        await reply.text(text, headers={"content-type": "text/event-stream"})


def part(index: int, **function: str) -> dict[str, Any]:
    call = {"index": index, "id": f"call_{index}", "type": "function", "function": function}
    return {"tool_calls": [call]}


async def asked(server: Compatible, ask: Any) -> Any:
    model = resolve_model(f"openai-chat:m@{server.origin}/v1", retries=0)
    tools = [ToolSpec(name=name, description="", parameters={}) for name in ("first", "second")]
    request = ModelRequest(instructions=None, input=[user_message("hi")], tools=tools, stream=True)
    return await ask(model, request)


async def test_the_name_of_a_call_may_arrive_after_the_next_call(ask: Any) -> None:
    second = part(1, name="second", arguments='{"x": ')
    late = part(0, name="first", arguments="{}")
    rest = part(1, arguments="1}")
    deltas = [part(0, arguments=""), second, late, rest]
    async with Compatible(*deltas, finish="tool_calls") as server:
        shown, response = await asked(server, ask)
    assert [call["name"] for call in response.output] == ["first", "second"]
    assert [call["arguments"] for call in response.output] == ["{}", '{"x": 1}']
    assert shown == [
        ModelDelta(kind="arguments", text=text, index=index)
        for index, text in ((1, '{"x": '), (0, "{}"), (1, "1}"))
    ]


async def test_an_unknown_finish_reason_ends_the_answer(ask: Any) -> None:
    async with Compatible({"content": "Done."}, finish="eos") as server:
        _, response = await asked(server, ask)
    assert text_of(response.output[0]) == "Done."
