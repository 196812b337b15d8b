"""The scripted model: what it plays, what it records, and what it complains about."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import pytest

from ekiden import (
    Agent,
    Model,
    ModelDelta,
    ModelError,
    ModelRequest,
    ModelResponse,
    ModelSettings,
    Usage,
    UserError,
)
from ekiden.core.conversation.model import (
    ItemView,
    OutputSpec,
    ToolSpec,
    assistant_message,
    function_call,
    text_of,
    user_message,
)
from ekiden.testing import (
    ManualClock,
    ScriptedModel,
    UnexpectedModelCall,
    UnusedSteps,
    call,
    check_unused,
    crash,
    delay,
    fail,
    hang,
    say,
    stream,
    transfer,
)


def request(text: str = "hi", **fields: Any) -> ModelRequest:
    defaults: dict[str, Any] = {"instructions": None, "input": [user_message(text)]}
    return ModelRequest(**{**defaults, **fields})


def offered(*names: str) -> Sequence[ToolSpec]:
    return [ToolSpec(name=name, description="", parameters={}) for name in names]


async def events(model: ScriptedModel, **fields: Any) -> list[Any]:
    return [event async for event in model.respond(request(**fields))]


async def answer(model: ScriptedModel, **fields: Any) -> ModelResponse:
    *deltas, response = await events(model, **fields)
    assert all(isinstance(delta, ModelDelta) for delta in deltas)
    assert isinstance(response, ModelResponse)
    return response


async def texts(model: ScriptedModel, **fields: Any) -> list[str]:
    return [text_of(item) for item in (await answer(model, **fields)).output]


def test_a_scripted_model_is_a_model() -> None:
    assert isinstance(ScriptedModel(), Model)


class TestSteps:
    async def test_steps_are_played_in_order(self) -> None:
        model = ScriptedModel(["one"])
        model.enqueue([assistant_message("two")])
        model.extend([[assistant_message("three")], say("four"), [say("five"), "six"]])

        assert await texts(model) == ["one"]
        assert await texts(model) == ["two"]
        assert await texts(model) == ["three"]
        assert await texts(model) == ["four"]
        assert await texts(model) == ["five", "six"]

    async def test_steps_may_be_objects_of_the_openai_package(self) -> None:
        responses = pytest.importorskip("openai.types.responses")
        text = responses.ResponseOutputText(
            text="hello", type="output_text", annotations=[], logprobs=[]
        )
        message = responses.ResponseOutputMessage(
            id="1", type="message", role="assistant", content=[text], status="completed"
        )
        model = ScriptedModel(steps=[[message]])

        (item,) = (await answer(model)).output
        assert type(item) is dict
        assert text_of(item) == "hello"

    async def test_a_step_may_be_a_complete_response(self) -> None:
        whole = ModelResponse(
            output=[assistant_message("a")],
            usage=Usage(requests=1, input_tokens=3),
            response_id="r",
            model="m",
        )
        assert await answer(ScriptedModel([whole])) == whole

    async def test_a_script_may_be_one_step_instead_of_a_list(self) -> None:
        assert await texts(ScriptedModel("alone")) == ["alone"]
        assert await texts(ScriptedModel(say("alone"))) == ["alone"]

    async def test_a_step_may_be_an_empty_answer(self) -> None:
        assert (await answer(ScriptedModel([[]]))).output == []

    @pytest.mark.parametrize("error", [ModelError("down"), asyncio.CancelledError("stop")])
    async def test_a_step_may_raise_an_exception(self, error: BaseException) -> None:
        for step in (error, fail(error)):
            with pytest.raises(type(error)) as caught:
                await answer(ScriptedModel([step]))
            assert caught.value is error

    async def test_a_step_may_raise_an_exception_class(self) -> None:
        with pytest.raises(ConnectionError):
            await answer(ScriptedModel([fail(ConnectionError)]))

    @pytest.mark.parametrize("nonsense", [7, None, object()])
    def test_an_invalid_step_is_refused(self, nonsense: Any) -> None:
        with pytest.raises(UserError, match="a scripted step must be a text, an exception"):
            ScriptedModel().enqueue(nonsense)

    def test_a_step_with_an_invalid_item_is_refused(self) -> None:
        with pytest.raises(UserError, match="an item must be a JSON object"):
            ScriptedModel().enqueue([7])


class TestCalls:
    async def test_a_call_has_json_arguments(self) -> None:
        (item,) = (await answer(ScriptedModel([call("pay", "c1", name="李", cents=5)]))).output
        assert item == function_call("c1", "pay", '{"name":"李","cents":5}')

    async def test_calls_of_one_answer_have_different_ids(self) -> None:
        model = ScriptedModel([[say("both"), call("a"), call("a")], call("a")])
        first = (await answer(model)).output
        second = (await answer(model)).output
        ids = [item["call_id"] for item in (*first[1:], *second)]
        assert len(set(ids)) == 3

    async def test_a_call_has_the_same_id_when_a_killed_step_is_repeated(self) -> None:
        once = (await answer(ScriptedModel([call("a")]), step="3/llm")).output
        again = (await answer(ScriptedModel([call("a")]), step="3/llm")).output
        assert once == again

    async def test_a_call_does_not_change_its_step(self) -> None:
        step = call("a")
        model = ScriptedModel([step, step])
        one, two = (await answer(model)).output, (await answer(model)).output
        assert one[0]["call_id"] != two[0]["call_id"]

    async def test_a_call_may_have_a_parameter_named_tool(self) -> None:
        (item,) = (await answer(ScriptedModel([call("f", tool="hammer")]))).output
        assert json.loads(item["arguments"]) == {"tool": "hammer"}


class TestTransfers:
    @pytest.mark.parametrize(
        "to", ["code-fixer", "transfer_to_code_fixer", Agent(name="code-fixer")]
    )
    async def test_a_transfer_names_the_agent_or_its_tool(self, to: Any) -> None:
        model = ScriptedModel([transfer(to, reason="bug")])
        (item,) = (await answer(model, tools=offered("transfer_to_code_fixer"))).output
        assert (item["name"], item["arguments"]) == ("transfer_to_code_fixer", '{"reason":"bug"}')

    async def test_a_transfer_finds_a_tool_with_a_custom_name(self) -> None:
        model = ScriptedModel([transfer("escalate")])
        (item,) = (await answer(model, tools=offered("escalate"))).output
        assert item["name"] == "escalate"

    async def test_a_transfer_may_name_an_agent_that_is_not_offered(self) -> None:
        (item,) = (await answer(ScriptedModel([transfer("nobody")]))).output
        assert item["name"] == "transfer_to_nobody"

    async def test_a_transfer_may_stand_beside_other_items(self) -> None:
        model = ScriptedModel([[say("moment"), call("note", text="x"), transfer("billing")]])
        output = (await answer(model)).output
        assert [item.get("name") for item in output] == [None, "note", "transfer_to_billing"]


class TestRecords:
    async def test_recorded_calls_contain_the_request(self) -> None:
        model = ScriptedModel(["ok"])
        settings, output = ModelSettings(temperature=0), OutputSpec(name="o", json_schema={})
        asked = request(
            "hello",
            instructions="be kind",
            tools=offered("t"),
            settings=settings,
            output=output,
            agent="desk",
            session_id="ses_1",
            step="1/llm",
        )
        _ = [event async for event in model.respond(asked)]

        (recorded,) = model.calls
        assert recorded.request is asked
        assert recorded.system_instructions == "be kind"
        assert recorded.input == [user_message("hello")]
        assert [tool.name for tool in recorded.tools] == ["t"]
        assert (recorded.settings, recorded.output) == (settings, output)
        assert (recorded.agent, recorded.session_id, recorded.step) == ("desk", "ses_1", "1/llm")

    @pytest.mark.parametrize("view", [list, ItemView])
    async def test_recorded_calls_are_copies_of_the_conversation(self, view: Any) -> None:
        model, items = ScriptedModel(["ok"]), [user_message("hello")]
        await answer(model, input=view(items))
        items.append(user_message("later"))
        assert model.calls[0].input == [user_message("hello")]
        assert isinstance(model.calls[0].input, list)

    async def test_failed_calls_are_recorded(self) -> None:
        model = ScriptedModel([ModelError("down")])
        with pytest.raises(ModelError):
            await answer(model, agent="desk")
        assert model.calls[0].agent == "desk"

    async def test_recording_can_be_disabled(self) -> None:
        model = ScriptedModel(["ok"], record=False)
        await answer(model)
        assert model.calls == []

    async def test_recorded_calls_can_be_awaited(self) -> None:
        model = ScriptedModel([hang(), hang()])
        waiting = [asyncio.create_task(answer(model)) for _ in range(2)]
        await model.until_called(2)
        assert len(model.calls) == 2
        await model.until_called(1)
        for task in waiting:
            task.cancel()
        await asyncio.wait(waiting)


class TestUsage:
    async def test_usage_counts_one_request_for_each_answer(self) -> None:
        assert (await answer(ScriptedModel(["a"]))).usage == Usage(requests=1)

    async def test_usage_can_be_given_for_all_answers_or_for_one(self) -> None:
        model = ScriptedModel(
            ["a", say("b", usage=Usage(requests=1, output_tokens=9))],
            usage=Usage(requests=1, input_tokens=5),
        )
        assert (await answer(model)).usage.input_tokens == 5
        assert (await answer(model)).usage.output_tokens == 9

    async def test_usage_of_one_answer_is_not_that_of_the_next(self) -> None:
        model = ScriptedModel(["a", "b"], usage=Usage(requests=1, input_tokens=5))
        first = (await answer(model)).usage
        first.add(first)
        assert (await answer(model)).usage.input_tokens == 5


class TestStreaming:
    async def test_a_streamed_answer_has_deltas_that_make_up_the_text(self) -> None:
        *deltas, response = await events(ScriptedModel(["Guten Tag, 世界 🚀"]), stream=True)
        assert len(deltas) > 1
        assert {delta.kind for delta in deltas} == {"text"}
        assert "".join(delta.text for delta in deltas) == text_of(response.output[0])

    async def test_an_answer_without_streaming_has_no_deltas(self) -> None:
        assert len(await events(ScriptedModel([stream("abc", chunks=3)]))) == 1

    async def test_a_delta_names_its_item(self) -> None:
        reasoning = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]}
        model = ScriptedModel([[reasoning, say("ab"), call("f", "c", x=1)]])
        *deltas, _ = await events(model, stream=True)
        joined: dict[tuple[str, int], str] = {}
        for delta in deltas:
            key = (delta.kind, delta.index)
            joined[key] = joined.get(key, "") + delta.text
        assert joined == {("reasoning", 0): "hm", ("text", 1): "ab", ("arguments", 2): '{"x":1}'}

    async def test_a_stream_has_the_number_of_chunks_of_the_script(self) -> None:
        for chunks, expected in ((1, ["abcdef"]), (2, ["abc", "def"]), (99, list("abcdef"))):
            model = ScriptedModel([stream("abcdef", chunks=chunks)])
            *deltas, _ = await events(model, stream=True)
            assert [delta.text for delta in deltas] == expected

    async def test_a_stream_has_the_exact_chunks_of_the_script(self) -> None:
        model = ScriptedModel([stream(say("ab"), chunks=["", "a", "b"])])
        *deltas, response = await events(model, stream=True)
        assert [delta.text for delta in deltas] == ["", "a", "b"]
        assert text_of(response.output[0]) == "ab"

    async def test_a_stream_can_fail_midway(self) -> None:
        model = ScriptedModel([stream(fail(ModelError("cut")), chunks=["half an ans"])])
        answering = aiter(model.respond(request(stream=True)))
        assert await anext(answering) == ModelDelta(kind="text", text="half an ans")
        with pytest.raises(ModelError, match="cut"):
            await anext(answering)

    def test_a_stream_needs_at_least_one_chunk(self) -> None:
        with pytest.raises(UserError, match="at least one piece"):
            stream("a", chunks=0)


class TestWaiting:
    async def test_a_delay_on_a_manual_clock_takes_no_real_time(self) -> None:
        clock = ManualClock()
        model = ScriptedModel([delay(3600, "late")], clock=clock)
        task = asyncio.create_task(texts(model))
        await clock.until_sleeping()
        clock.advance(3599)
        assert not task.done()
        clock.advance(1)
        assert await task == ["late"]

    async def test_a_delay_may_use_the_clock_of_its_step(self) -> None:
        own, other = ManualClock(), ManualClock()
        model = ScriptedModel([delay(1, "late", clock=own)], clock=other)
        task = asyncio.create_task(texts(model))
        await own.until_sleeping()
        own.advance(1)
        assert await task == ["late"]

    async def test_a_delay_may_wait_for_an_event(self) -> None:
        event = asyncio.Event()
        model = ScriptedModel([delay(event, fail(ModelError("late")))])
        task = asyncio.create_task(texts(model))
        await model.until_called()
        assert not task.done()
        event.set()
        with pytest.raises(ModelError, match="late"):
            await task

    async def test_a_delay_without_a_clock_takes_real_time(self) -> None:
        assert await texts(ScriptedModel([delay(0.001, "late")])) == ["late"]

    async def test_a_hang_ends_with_cancellation(self) -> None:
        model = ScriptedModel([hang()])
        task = asyncio.create_task(texts(model))
        await model.until_called()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


CRASHING = """
import asyncio
from ekiden import ModelRequest
from ekiden.testing import ScriptedModel, crash

async def main():
    async for _ in ScriptedModel([crash()]).respond(ModelRequest(instructions=None, input=[])):
        pass

asyncio.run(main())
"""


class TestCrashing:
    def run(self, **environment: str) -> subprocess.CompletedProcess[str]:
        clean = {k: v for k, v in os.environ.items() if not k.startswith("EKIDEN_")}
        return subprocess.run(
            [sys.executable, "-c", CRASHING],
            env={**clean, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **environment},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def test_a_crash_kills_the_process(self) -> None:
        assert self.run(EKIDEN_TESTING="1").returncode == -signal.SIGKILL

    def test_a_crash_requires_a_process_under_test(self) -> None:
        done = self.run()
        assert done.returncode == 1
        assert "it works only with EKIDEN_TESTING=1" in done.stderr


class TestFunctionScripts:
    async def test_a_function_answers_from_the_request(self) -> None:
        def script(asked: ModelRequest) -> Any:
            last = asked.input[-1]
            if last.get("type") == "function_call_output":
                return f"it says {last['output']}"
            return call("lookup", order=7)

        first = await answer(ScriptedModel(respond=script), step="1")
        output = {"type": "function_call_output", "call_id": "c", "output": "sent"}
        second = await texts(ScriptedModel(respond=script), input=[*first.output, output])
        assert second == ["it says sent"]

    async def test_a_function_may_be_async(self) -> None:
        async def script(asked: ModelRequest) -> str:
            return asked.agent

        assert await texts(ScriptedModel(respond=script), agent="desk") == ["desk"]

    async def test_a_function_that_returns_none_is_an_error(self) -> None:
        model = ScriptedModel(respond=lambda asked: None)
        with pytest.raises(UnexpectedModelCall, match="its function returned None"):
            await answer(model)

    def test_a_function_script_accepts_no_steps(self) -> None:
        with pytest.raises(UserError, match="script is a function"):
            ScriptedModel(respond=lambda asked: "a").enqueue("b")
        with pytest.raises(UserError, match="script is a function"):
            ScriptedModel(["b"], respond=lambda asked: "a")


class TestComplaints:
    async def test_the_error_for_an_unexpected_call_names_agent_and_request(self) -> None:
        model = ScriptedModel(["one"])
        await answer(model)
        with pytest.raises(AssertionError) as caught:
            await answer(model, agent="billing", text="and now?", tools=offered("pay"))
        message = str(caught.value)
        for fact in ("agent 'billing'", "'and now?'", "1 items", "tools: pay", "has 1 steps"):
            assert fact in message

    async def test_the_error_for_an_unexpected_call_is_raised_again_at_the_end(self) -> None:
        """Whatever ran the model may have taken the first one for the model's failure."""
        model = ScriptedModel()
        with pytest.raises(UnexpectedModelCall):
            await answer(model, agent="billing")
        with pytest.raises(UnexpectedModelCall, match="billing"):
            model.assert_done()

    def test_the_error_for_unused_steps_describes_them(self) -> None:
        steps: list[Any] = [
            call("lookup", order=7),
            [say("a"), transfer("billing")],
            {"type": "reasoning", "summary": []},
            fail(ModelError("down")),
            delay(5, "late"),
            delay(asyncio.Event(), "late"),
            stream("abc", chunks=2),
            hang(),
            crash(),
            [],
        ]
        model = ScriptedModel([[step] if isinstance(step, dict) else step for step in steps])
        with pytest.raises(UnusedSteps) as caught:
            model.assert_done()
        assert str(caught.value).splitlines() == [
            "10 of 10 scripted steps were not used:",
            '  call lookup({"order":7})',
            "  say('a') + call billing({})",
            "  reasoning",
            "  fail(ModelError('down'))",
            "  delay(5 s, say('late'))",
            "  delay(an event, say('late'))",
            "  stream(say('abc'))",
            "  hang()",
            "  crash()",
            "  an empty answer",
        ]

    def test_unused_steps_raise_at_the_end_of_a_block(self) -> None:
        with pytest.raises(UnusedSteps), ScriptedModel(["unused"]):
            pass
        with pytest.raises(UnusedSteps), check_unused(ScriptedModel(), ScriptedModel(["unused"])):
            pass

    def test_unused_steps_do_not_hide_an_exception_of_the_block(self) -> None:
        with pytest.raises(ZeroDivisionError), ScriptedModel(["unused"]):
            1 / 0  # noqa: B018
        with pytest.raises(ZeroDivisionError), check_unused(ScriptedModel(["unused"])):
            1 / 0  # noqa: B018

    async def test_a_fully_played_script_raises_nothing(self) -> None:
        with ScriptedModel(["used"]) as model, check_unused(model):
            await answer(model)
        assert repr(model) == "<ScriptedModel asked=1 left=0>"


def test_ekiden_testing_does_not_need_pytest() -> None:
    code = (
        "import sys, ekiden.testing; assert not {'pytest', 'pydantic', 'openai'} & {*sys.modules}"
    )
    subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        timeout=60,
        check=True,
    )
