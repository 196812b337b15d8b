"""A model in this process, with the same interface as remote models."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any, Literal
from uuid import uuid4

from ekiden.core.conversation.model import (
    Item,
    Model,
    ModelDelta,
    ModelEvent,
    ModelRequest,
    ModelResponse,
    ToolSpec,
    Usage,
    assistant_message,
    function_call,
)
from ekiden.core.errors import ModelBehaviorError, UserError
from ekiden.core.values import dumps
from ekiden.models.local.engine import Engine, Generation, shared_engine
from ekiden.models.local.prompt import (
    HELD,
    LikelyTool,
    Message,
    answered_call,
    call_head,
    call_or_answer,
    chat_messages,
    choice_body,
    choice_of,
    json_of,
    wants_reason_only,
    without_echo,
)
from ekiden.models.local.settings import LocalEngineSettings, default_local_settings
from ekiden.models.local.weights import Weights, locate
from ekiden.models.registry import ModelOptions

_ANSWER_NOW = (
    "You have everything that the tools can tell. Do not use a tool again: answer the person's "
    "request now, in one or two sentences, with these results."
)
_NO_THINKING = {"chat_template_kwargs": {"enable_thinking": False}}

ALLOWED_TOOLS = "allowed_tools"
"""Key in `ModelSettings.extra`: the tools that the model may call.

The prompt always describes all tools, so the evaluated prompt can be reused when the allowed tools
change.
"""
WRITE_REASON = "write_reason"
"""Key in `ModelSettings.extra`: whether the model itself writes the reason when it must call a
tool."""

_OURS = frozenset({ALLOWED_TOOLS, WRITE_REASON})
_NOT_OVERRIDDEN = frozenset({"messages", "stream", "grammar", "json_schema", "response_format"})


@dataclass(frozen=True, slots=True, kw_only=True)
class AllowedOutput:
    """The kinds of output that a request allows."""

    mode: Literal["answer", "free", "call"]
    """The allowed kinds of output. `answer`: only an answer. `free`: an answer or a tool call.
    `call`: only a tool call."""
    tools: tuple[ToolSpec, ...] = ()
    """The tools that may be called."""
    write_reason: bool = False


def allowed_output(request: ModelRequest, label: str) -> AllowedOutput:
    """The output that `request` allows. Raises `UserError` for a tool that is not offered."""
    choice = request.settings.tool_choice or "auto"
    extra = request.settings.extra or {}
    if not request.tools or choice == "none":
        return AllowedOutput(mode="answer")
    by_name = {tool.name: tool for tool in request.tools}
    names = list(by_name)
    if ALLOWED_TOOLS in extra:
        names = _allowed_tools(extra[ALLOWED_TOOLS], names, label)
    if choice not in ("auto", "required"):
        if choice not in by_name:
            raise UserError(
                f"tool_choice {choice!r} names no tool that {label} is offered; "
                f"it may be auto, required, none or one of: {', '.join(by_name)}"
            )
        names = [choice]
    return AllowedOutput(
        mode="free" if choice == "auto" else "call",
        tools=tuple(by_name[name] for name in names),
        write_reason=bool(extra.get(WRITE_REASON)),
    )


def sampling(request: ModelRequest, settings: LocalEngineSettings) -> dict[str, Any]:
    """The sampling parameters in llama.cpp's form."""
    wanted = request.settings
    body: dict[str, Any] = {
        "cache_prompt": True,
        "stream_options": {"include_usage": True},
        "temperature": settings.temperature if wanted.temperature is None else wanted.temperature,
        "max_tokens": settings.max_tokens if wanted.max_tokens is None else wanted.max_tokens,
    }
    if wanted.top_p is not None:
        body["top_p"] = wanted.top_p
    for name, value in (wanted.extra or {}).items():
        if name in _NOT_OVERRIDDEN:
            raise UserError(f"extra={{{name!r}: …}} cannot be set for a local model")
        if name not in _OURS:
            body[name] = value
    return body


def _allowed_tools(wanted: Any, names: list[str], label: str) -> list[str]:
    if not isinstance(wanted, list | tuple | set | frozenset) or not wanted:
        raise UserError(f"extra={{{ALLOWED_TOOLS!r}: …}} must be a list of names of tools")
    if unknown := [str(each) for each in wanted if each not in names]:
        raise UserError(
            f"{ALLOWED_TOOLS} names {', '.join(unknown)}, which {label} is not offered; "
            f"there are: {', '.join(names)}"
        )
    return [name for name in names if name in wanted]


class LocalModel:
    """A `Model` in a GGUF file, which llama.cpp runs on the CPU in this process.

    The first request loads the file, once for the process. Requests run one after the other. A
    grammar controls tool calls and structured answers, so that even a small model calls only
    existing tools, with arguments that match their schema. If the model must call one of several
    tools, it first chooses the name of the tool. If a tool has ``reason`` as its only argument,
    like a transfer, the model chooses only the name, and the reason states the probability of the
    choice. The probabilities of all tools are in the ``provider_details`` of the call, under
    ``details`` and ``probabilities``.

    ``EKIDEN_BLOCK_MODELS`` does not block local models, because they cost nothing.
    """

    def __init__(
        self,
        weights: Weights,
        settings: LocalEngineSettings | None = None,
        *,
        timeout_s: float | None = None,
    ) -> None:
        self.weights = weights
        self.settings = settings or LocalEngineSettings()
        self._timeout_s = timeout_s

    @property
    def label(self) -> str:
        """The name of the model in messages."""
        return f"local:{self.weights.name}"

    async def respond(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """See `Model.respond`. Raises `UserError` if the file is not a model, `ModelError` if the
        conversation is longer than the context, and `ModelTimeout` after the timeout.
        """
        allowed = allowed_output(request, self.label)
        call = _Call(self, request, allowed, await self._engine())
        async with aclosing(call.events()) as events:
            async for event in events:
                yield event

    async def prepare(self, request: ModelRequest) -> Usage:
        """Load the model, and evaluate the instructions and tools of `request` in advance.

        Later requests with the same instructions and tools then start at once.
        """
        allowed = allowed_output(request, self.label)
        call = _Call(self, request, allowed, await self._engine())
        return await call.evaluate()

    async def _engine(self) -> Engine:
        path = await asyncio.to_thread(self.weights.ready)
        return shared_engine(path, self.settings)

    def __repr__(self) -> str:
        return f"<LocalModel {self.label} at {self.weights.path}>"


class _Call:
    """One request under way."""

    def __init__(
        self, model: LocalModel, request: ModelRequest, allowed: AllowedOutput, engine: Engine
    ) -> None:
        self._model, self._request, self._allowed, self._engine = model, request, allowed, engine
        self._body = sampling(request, model.settings)
        self._started = asyncio.get_running_loop().time()
        self._usage = Usage()
        self._control: tuple[str, ...] = ()
        """The model's control tokens."""

    async def events(self) -> AsyncGenerator[ModelEvent]:
        self._control = (await asyncio.to_thread(self._engine.inspect)).control_tokens
        kinds = {"call": self._forced_call, "free": self._free, "answer": self._answer}
        events = kinds[self._allowed.mode]()
        async with aclosing(events):
            async for event in events:
                yield event

    async def evaluate(self) -> Usage:
        self._control = (await asyncio.to_thread(self._engine.inspect)).control_tokens
        if self._allowed.mode == "call" and len(self._allowed.tools) > 1:
            body = choice_body(self._request, self._allowed.tools, self._control)
        else:
            body = {**self._body, "messages": chat_messages(self._shown(), self._control)}
        generation = self._generation({**body, "max_tokens": 1})
        await generation.complete()
        return generation.usage

    async def _forced_call(self) -> AsyncGenerator[ModelEvent]:
        tools = self._allowed.tools
        choice: LikelyTool | None = None
        if len(tools) > 1:
            generation = self._generation(choice_body(self._request, tools, self._control))
            await generation.complete()
            self._usage.add(generation.usage)
            choice = choice_of(generation, self._request, tools)
        tool = choice.tool if choice else tools[0]
        is_free = self._request.settings.tool_choice == "required"
        if is_free and wants_reason_only(tool) and not self._allowed.write_reason:
            arguments = dumps({"reason": self._reason(tool, choice)})
            yield ModelDelta(kind="arguments", text=arguments)
        else:
            arguments = ""
            async with aclosing(self._arguments(tool)) as pieces:
                async for piece in pieces:
                    arguments += piece
                    yield ModelDelta(kind="arguments", text=piece)
            _checked_json(arguments, self._model.label, tool)
        yield self._response([self._call_item(tool, arguments, choice)])

    async def _arguments(self, tool: ToolSpec) -> AsyncGenerator[str]:
        messages = chat_messages(self._shown(), self._control)
        prefill = {"role": "assistant", "content": call_head(tool.name).rstrip()}
        body = {**self._body, **_NO_THINKING, "messages": [*messages, prefill]}
        generation = self._generation({**body, "grammar": json_of(tool.parameters)})
        async with aclosing(generation.pieces()) as pieces:
            async for kind, piece in pieces:
                if kind == "text":
                    yield piece
        self._usage.add(generation.usage)
        self._check_finished(generation, f"the arguments of {tool.name}")

    async def _free(self) -> AsyncGenerator[ModelEvent]:
        messages = chat_messages(self._shown(), self._control)
        grammar = call_or_answer(self._allowed.tools, self._request.output)
        generation = self._generation(
            {**self._body, **_NO_THINKING, "messages": messages, "grammar": grammar}
        )
        shown = ""
        async with aclosing(generation.pieces()) as pieces:
            async for kind, _ in pieces:
                # Text that begins with a brace is a call. It is shown only when it is complete.
                if kind == "text" and not generation.text.lstrip().startswith("{"):
                    safe = without_echo(generation.text, self._request)[:-HELD]
                    if safe[len(shown) :]:
                        yield ModelDelta(kind="text", text=safe[len(shown) :])
                        shown = safe
        self._usage.add(generation.usage)
        text = generation.text
        if not text.lstrip().startswith("{"):
            answer = without_echo(text, self._request)
            if text.strip() and not answer.strip():
                async for event in self._answer_now(messages, ""):
                    yield event
                return
            generation.text = answer
            if answer[len(shown) :]:
                yield ModelDelta(kind="text", text=answer[len(shown) :])
            yield self._text_response(generation)
            return
        self._check_finished(generation, "a call or a structured answer")
        found = _checked_json(text, self._model.label)
        tools = {tool.name: tool for tool in self._allowed.tools}
        # A list, because the value may be any JSON, and a dictionary cannot look up a list or an
        # object.
        if set(found) == {"tool", "arguments"} and found["tool"] in list(tools):
            arguments = dumps(found["arguments"])
            if answered_call(self._request, found["tool"], arguments):
                async for event in self._answer_now(messages, text):
                    yield event
                return
            yield ModelDelta(kind="arguments", text=arguments)
            yield self._response([self._call_item(tools[found["tool"]], arguments, None)])
        else:
            yield ModelDelta(kind="text", text=text)
            yield self._text_response(generation)

    async def _answer_now(
        self, messages: list[Message], repeated: str
    ) -> AsyncGenerator[ModelEvent]:
        """Ask again for an answer only, after the model repeated a call or its instructions.

        Without this, small models repeat an answered call until the run ends. `repeated` is the
        call, or empty.
        """
        output = self._request.output
        results = [each["content"] for each in messages if each["content"].startswith("Result of")]
        result = f"{results[-1]}\n\n" if repeated and results else ""
        turns = [{"role": "assistant", "content": repeated}] if repeated else []
        question = f"{result}{_ANSWER_NOW}"
        if not repeated and messages[-1]["role"] == "user":
            last = messages[-1]["content"]
            messages = [*messages[:-1], {"role": "user", "content": f"{last}\n\n{question}"}]
        else:
            turns.append({"role": "user", "content": question})
        grammar = call_or_answer((), output) if output is None else json_of(output.json_schema)
        generation = self._generation(
            {**self._body, **_NO_THINKING, "messages": [*messages, *turns], "grammar": grammar}
        )
        await generation.complete()
        self._usage.add(generation.usage)
        if output is not None:
            self._check_finished(generation, "a structured answer")
            _checked_json(generation.text, self._model.label)
        answer = without_echo(generation.text, self._request)
        if not answer.strip():
            raise ModelBehaviorError(
                f"{self._model.label} repeats its instructions instead of an answer: shorten them, "
                "give it fewer tools, or use a larger model"
            )
        generation.text = answer
        yield ModelDelta(kind="text", text=answer)
        yield self._text_response(generation)

    async def _answer(self) -> AsyncGenerator[ModelEvent]:
        output = self._request.output
        body = {**self._body, "messages": chat_messages(self._shown(), self._control)}
        if output is not None:
            body |= {**_NO_THINKING, "grammar": json_of(output.json_schema)}
        generation = self._generation(body)
        async with aclosing(generation.pieces()) as pieces:
            async for kind, piece in pieces:
                is_text = kind == "text"
                index = 1 if is_text and generation.reasoning else 0
                yield ModelDelta(kind="text" if is_text else "reasoning", text=piece, index=index)
        self._usage.add(generation.usage)
        if output is not None:
            self._check_finished(generation, "a structured answer")
            _checked_json(generation.text, self._model.label)
        answer = without_echo(generation.text, self._request)
        if generation.text.strip() and not answer.strip():
            messages = chat_messages(self._shown(), self._control)
            async for event in self._answer_now(messages, ""):
                yield event
            return
        generation.text = answer
        yield self._text_response(generation)

    def _reason(self, tool: ToolSpec, choice: LikelyTool | None) -> str:
        if choice is None:
            return "the only one that may be chosen"
        count, share = len(choice.probabilities), choice.probabilities[tool.name]
        return f"the most fitting of {count} for {self._model.label} ({share:.0%})"

    def _shown(self) -> ModelRequest:
        """The request with only the tools for the prompt."""
        if self._allowed.mode == "answer" and self._request.tools:
            return replace(self._request, tools=())
        return self._request

    def _generation(self, body: dict[str, Any]) -> Generation:
        return Generation(
            self._engine,
            body,
            label=self._model.label,
            started=self._started,
            timeout_s=self._model._timeout_s,
        )

    def _check_finished(self, generation: Generation, what: str) -> None:
        if generation.finish_reason == "length":
            raise ModelBehaviorError(
                f"{self._model.label} reached its limit of tokens within {what}: raise max_tokens"
            )

    def _call_item(self, tool: ToolSpec, arguments: str, choice: LikelyTool | None) -> Item:
        item = function_call(f"call_{uuid4().hex[:24]}", tool.name, arguments)
        if choice is not None:
            details = {"probabilities": choice.probabilities}
            item["provider_details"] = {"provider": "local", "details": details}
        return item

    def _text_response(self, generation: Generation) -> ModelResponse:
        if generation.finish_reason == "length" and not generation.text:
            raise ModelBehaviorError(
                f"{self._model.label} reached its limit of tokens before it said anything: "
                "raise max_tokens"
            )
        output: list[Item] = []
        if generation.reasoning:
            summary = {"type": "summary_text", "text": generation.reasoning}
            output.append({"type": "reasoning", "summary": [summary]})
        message = assistant_message(generation.text)
        if generation.finish_reason == "length":
            message["status"] = "incomplete"
        return self._response([*output, message])

    def _response(self, output: list[Item]) -> ModelResponse:
        self._usage.requests = 1
        return ModelResponse(output=output, usage=self._usage, model=self._model.weights.name)


def _checked_json(text: str, label: str, tool: ToolSpec | None = None) -> dict[str, Any]:
    """The JSON object in `text`. The check is needed: the library ignores a grammar that it cannot
    compile."""
    try:
        found = json.loads(text)
    except ValueError as exc:
        what = f"arguments of {tool.name}" if tool else "an answer"
        raise ModelBehaviorError(f"{label} wrote {what} that are not JSON: {text[:200]!r}") from exc
    return found if isinstance(found, dict) else {}


def make_local_model(options: ModelOptions) -> Model:
    """The factory of the provider ``local``. It finds the file, but does not load it.

    Raises `UserError` if xllamacpp is not installed, no model is found, or a URL or a key is given.
    """
    if options.base_url or options.api_key:
        raise UserError(
            f"local:{options.model} runs in this process: it takes no base_url and no api_key; "
            "for a server of your own use openai-chat:model@http://host/v1"
        )
    if find_spec("xllamacpp") is None:
        raise UserError(f"local:{options.model} needs xllamacpp: pip install 'ekiden[local]'")
    weights = locate(options.model)
    return LocalModel(weights, default_local_settings(), timeout_s=options.timeout_s)
