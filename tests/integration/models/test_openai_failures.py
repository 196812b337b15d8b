"""What happens when a provider is slow, overloaded, unreachable, or talks nonsense."""

from __future__ import annotations

import asyncio
import json
import logging
import time
import traceback
from contextlib import aclosing
from typing import Any

import pytest

from ekiden.core.conversation.model import (
    ModelDelta,
    ModelRequest,
    function_output,
    text_of,
    user_message,
)
from ekiden.core.errors import (
    EkidenError,
    ModelBehaviorError,
    ModelError,
    ModelTimeout,
    UserError,
)
from ekiden.models import RetryPolicy, resolve_model
from ekiden.testing import delay, hang, say
from ekiden.testing.servers.loopback import HttpReply, HttpRequest, LoopbackServer
from ekiden.testing.servers.openai import OpenAIServer, cut, garbled, http_error

KEY = "sk-canary-0123456789"


def request(text: str = "hi", *, stream: bool = False) -> ModelRequest:
    return ModelRequest(instructions=None, input=[user_message(text)], stream=stream)


def connect(api: str, server: OpenAIServer, **options: Any) -> Any:
    return resolve_model(f"{api}:gpt-5-mini", base_url=server.base_url, api_key=KEY, **options)


async def test_a_429_is_retried_after_the_requested_time(
    api: str, streamed: bool, ask: Any, waits: Any
) -> None:
    async with OpenAIServer([http_error(429, retry_after="7"), say("ok")]) as server:
        model = connect(api, server, retries=waits.policy())
        _, response = await ask(model, request(stream=streamed))
    assert text_of(response.output[0]) == "ok"
    assert waits.seconds == [7.0]


async def test_server_errors_are_retried_with_growing_pauses(
    api: str, streamed: bool, ask: Any, waits: Any
) -> None:
    failing = [http_error(500), http_error(503), http_error(502)]
    async with OpenAIServer([*failing, say("ok")]) as server:
        model = connect(api, server, retries=waits.policy())
        _, response = await ask(model, request(stream=streamed))
    assert text_of(response.output[0]) == "ok"
    assert waits.seconds == [0.5, 1.0, 2.0]


async def test_after_the_last_retry_the_failure_is_raised_with_its_status(
    api: str, streamed: bool, ask: Any, waits: Any
) -> None:
    async with OpenAIServer([http_error(503, "We are full.")] * 3) as server:
        model = connect(api, server, retries=waits.policy(retries=2))
        with pytest.raises(ModelError, match=f"{api}:gpt-5-mini answered 503: We are full") as info:
            await ask(model, request(stream=streamed))
    assert info.value.status == 503
    assert len(server.requests) == 3


async def test_a_requested_pause_longer_than_the_maximum_is_not_awaited(
    ask: Any, waits: Any
) -> None:
    async with OpenAIServer([http_error(429, retry_after="600")]) as server:
        model = connect("openai", server, retries=waits.policy())
        with pytest.raises(ModelError, match="asks to wait 600 s"):
            await ask(model, request())
    assert waits.seconds == []


async def test_an_exhausted_quota_is_not_retried(api: str, ask: Any, waits: Any) -> None:
    step = http_error(429, "You exceeded your current quota.", code="insufficient_quota")
    async with OpenAIServer([step]) as server:
        model = connect(api, server, retries=waits.policy())
        with pytest.raises(ModelError, match="quota or credit is used up"):
            await ask(model, request())


@pytest.mark.parametrize(
    ("status", "advice"),
    [
        (400, "answered 400: scripted"),
        (401, "set OPENAI_API_KEY"),
        (403, "set OPENAI_API_KEY"),
        (404, "no such model or path"),
        (422, "answered 422"),
    ],
)
async def test_a_permanent_error_is_raised_at_once_with_advice(
    api: str, streamed: bool, status: int, advice: str, ask: Any, waits: Any
) -> None:
    async with OpenAIServer([http_error(status)]) as server:
        model = connect(api, server, retries=waits.policy())
        with pytest.raises(ModelError, match=advice) as info:
            await ask(model, request(stream=streamed))
    assert info.value.status == status
    assert waits.seconds == []
    assert len(server.requests) == 1


async def test_an_output_without_its_call_is_refused_by_the_api(api: str, ask: Any) -> None:
    torn = ModelRequest(
        instructions=None, input=[user_message("hi"), function_output("call_x", "1")]
    )
    async with OpenAIServer() as server:
        with pytest.raises(ModelError, match=r"(?i)tool.call") as info:
            await ask(connect(api, server), torn)
    assert info.value.status == 400


class Silent(LoopbackServer):
    """Takes requests and never answers."""

    async def handle(self, request: HttpRequest, reply: HttpReply) -> None:
        await reply.unless_gone(asyncio.Event().wait())


async def test_a_slow_answer_times_out(api: str, streamed: bool, ask: Any, waits: Any) -> None:
    async with Silent() as server:
        model = resolve_model(
            f"{api}:m@{server.origin}", timeout_s=0.05, retries=waits.policy(retries=1)
        )
        with pytest.raises(ModelTimeout, match=r"did not answer within 0\.05 s"):
            await ask(model, request(stream=streamed))
    assert len(waits.seconds) == 1


@pytest.mark.slow
async def test_a_retry_after_a_timeout_returns_the_answer(ask: Any, waits: Any) -> None:
    async with OpenAIServer([hang(), say("at last")]) as server:
        model = connect("openai", server, timeout_s=3.0, retries=waits.policy())
        _, response = await ask(model, request())
    assert text_of(response.output[0]) == "at last"


@pytest.mark.slow
async def test_time_spent_by_the_consumer_does_not_count_towards_the_timeout() -> None:
    async with OpenAIServer([say("one two three")]) as server:
        model = connect("openai", server, timeout_s=2.0, retries=0)
        events = []
        async with aclosing(model.respond(request(stream=True))) as stream:
            async for event in stream:
                if not events:
                    time.sleep(2.1)  # noqa: ASYNC251 - it does not let others work
                events.append(event)
    assert text_of(events[-1].output[0]) == "one two three"


async def test_a_refused_connection_is_retried_and_then_raised(
    api: str, streamed: bool, ask: Any, waits: Any
) -> None:
    async with OpenAIServer() as server:
        model = connect(api, server, retries=waits.policy(retries=2))
    with pytest.raises(ModelError, match=r"connection to .* at 127\.0\.0\.1:\d+ failed"):
        await ask(model, request(stream=streamed))
    assert len(waits.seconds) == 2


async def test_a_broken_off_plain_answer_is_requested_again(api: str, ask: Any, waits: Any) -> None:
    async with OpenAIServer([cut("whole", after=0), say("whole")]) as server:
        model = connect(api, server, retries=waits.policy())
        _, response = await ask(model, request())
    assert text_of(response.output[0]) == "whole"
    assert response.attempt == 2


async def test_a_stream_broken_before_its_first_delta_is_requested_again(
    api: str, ask: Any, waits: Any
) -> None:
    async with OpenAIServer([cut("whole", after=1), say("whole")]) as server:
        model = connect(api, server, retries=waits.policy())
        deltas, response = await ask(model, request(stream=True))
    assert "".join(delta.text for delta in deltas) == "whole"
    assert text_of(response.output[0]) == "whole"
    assert len(waits.seconds) == 1


@pytest.mark.parametrize("how", ["drop", "end", "hang"])
async def test_a_stream_broken_after_a_delta_is_not_requested_again(
    api: str, how: Any, waits: Any
) -> None:
    after = 5 if api == "openai" else 2
    async with OpenAIServer([cut("one two three", after=after, how=how)]) as server:
        model = connect(api, server, timeout_s=2.0, retries=waits.policy())
        events = model.respond(request(stream=True))
        assert isinstance(await anext(events), ModelDelta)
        with pytest.raises(ModelError, match="did not answer" if how == "hang" else "connection"):
            await anext(events)
    assert waits.seconds == []
    assert len(server.requests) == 1


async def test_a_stream_that_ends_without_its_last_event_is_not_an_answer(
    api: str, ask: Any, waits: Any
) -> None:
    steps = [cut("whole", after=1, how="end"), say("whole")]
    async with OpenAIServer(steps) as server:
        model = connect(api, server, retries=waits.policy())
        _, response = await ask(model, request(stream=True))
    assert text_of(response.output[0]) == "whole"


@pytest.mark.parametrize(
    "text", ['{"id": "resp_1", "object"', "<html>busy</html>", "{}", "[1]", '{"output": 3}', "null"]
)
async def test_an_unreadable_answer_is_a_model_error(
    api: str, streamed: bool, text: str, ask: Any, waits: Any
) -> None:
    async with OpenAIServer([garbled(text)]) as server:
        model = connect(api, server, retries=waits.policy(retries=0))
        with pytest.raises((ModelBehaviorError, ModelError)) as info:
            await ask(model, request(stream=streamed))
    if not streamed:
        assert isinstance(info.value, ModelBehaviorError)
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "event",
    [
        {"type": "error", "code": "rate_limit_exceeded", "message": "slow", "param": None},
        {"error": {"code": "rate_limit_exceeded", "message": "slow", "type": "requests"}},
    ],
)
async def test_an_error_inside_a_stream_is_treated_like_one_before_it(
    event: Any, ask: Any, waits: Any
) -> None:
    steps = [garbled(json.dumps({**event, "sequence_number": 0})), say("ok")]
    async with OpenAIServer(steps) as server:
        model = connect("openai", server, retries=waits.policy())
        _, response = await ask(model, request(stream=True))
    assert text_of(response.output[0]) == "ok"
    assert len(waits.seconds) == 1


async def test_an_answer_that_reports_a_failure_raises_it(ask: Any, waits: Any) -> None:
    error = {"code": "invalid_prompt", "message": "Not like this."}
    body = {"id": "resp_1", "object": "response", "output": [], "status": "failed", "error": error}
    async with OpenAIServer([garbled(json.dumps(body))]) as server:
        model = connect("openai", server, retries=waits.policy())
        with pytest.raises(ModelError, match="Not like this"):
            await ask(model, request())


async def test_a_late_answer_is_awaited(api: str, streamed: bool, ask: Any) -> None:
    ready = asyncio.Event()
    async with OpenAIServer([delay(ready, say("here"))]) as server:
        asking = asyncio.ensure_future(ask(connect(api, server), request(stream=streamed)))
        await server.until_called()
        assert not asking.done()
        ready.set()
        _, response = await asking
    assert text_of(response.output[0]) == "here"


async def test_cancelling_a_call_closes_its_connection(api: str, streamed: bool, ask: Any) -> None:
    async with OpenAIServer([hang()]) as server:
        asking = asyncio.ensure_future(ask(connect(api, server), request(stream=streamed)))
        await server.until_called()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await asyncio.wait_for(server.gone.wait(), 60)


async def test_closing_a_stream_early_closes_its_connection(api: str) -> None:
    async with OpenAIServer([cut("one two three", after=5, how="hang")]) as server:
        events = connect(api, server).respond(request(stream=True))
        assert isinstance(await anext(events), ModelDelta)
        await events.aclose()
        await asyncio.wait_for(server.gone.wait(), 60)


async def test_an_api_key_appears_in_no_error_repr_or_log(
    api: str, streamed: bool, ask: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with OpenAIServer(api_key="another key") as server:
        model = connect(api, server)
        with pytest.raises(EkidenError) as info:
            await ask(model, request(stream=streamed))
    shown = "".join(traceback.format_exception(info.value))
    assert "Incorrect API key provided: ***" in str(info.value)
    for text in (shown, repr(info.value), repr(model), caplog.text):
        assert KEY not in text


async def test_a_failure_keeps_its_cause_if_it_contains_no_secret(ask: Any) -> None:
    async with OpenAIServer([http_error(400)]) as server:
        with pytest.raises(ModelError) as info:
            await ask(connect("openai", server), request())
    assert type(info.value.__cause__).__module__ == "pydantic_ai.exceptions"


async def test_an_unknown_model_is_named_in_the_advice(api: str, ask: Any) -> None:
    async with OpenAIServer([say("never")], models={"other"}) as server:
        with pytest.raises(ModelError, match=r"'gpt-5-mini' does not exist.* check the name"):
            await ask(connect(api, server), request())


async def test_blocked_models_are_refused_except_local_ones(api: str, ask: Any) -> None:
    model = resolve_model(f"{api}:gpt-5-mini", api_key=KEY)
    with pytest.raises(UserError, match=r"EKIDEN_BLOCK_MODELS is set, and api\.openai\.com"):
        await ask(model, request())


async def test_the_vendors_client_makes_no_retries(api: str, streamed: bool, ask: Any) -> None:
    async with OpenAIServer([http_error(500)]) as server:
        model = connect(api, server, retries=RetryPolicy(retries=0))
        with pytest.raises(ModelError):
            await ask(model, request(stream=streamed))
    assert len(server.requests) == 1
