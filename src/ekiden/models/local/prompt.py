"""Prompts and grammars for a small model: for conversations, and for the choice of a tool.

A model chooses one of several tools with few tokens, and with the probability of each.
A router's prompt has hundreds of words of instructions, tools with descriptions, and a quoted
request. On a CPU, a model with one or two billion parameters needs minutes to read this prompt, and
then does not follow it. Such a model is good at continuing a list. Therefore the examples become
lines of a list, and the request becomes the last line::

    Each request goes to one agent.
    billing: invoices and payments
    travel: flights and hotels

    Request: book me a flight to Oslo
    Agent: travel
    Request: the invoice is wrong
    Agent:

The grammar allows only names of agents, so the answer is always one of the agents. All lines except
the last two stay the same and are evaluated once.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeAlias

from ekiden.core.conversation.model import (
    Item,
    ModelRequest,
    OutputSpec,
    ToolSpec,
    is_message,
    refusal_of,
    text_of,
)
from ekiden.core.errors import ModelBehaviorError, UserError
from ekiden.core.values import dumps
from ekiden.models.local.engine import Generation

_HEAD = "%llguidance {}\n"
_ANY_TEXT = "TEXT: /[^{](.|\\n)*/\n"
"""Text that does not begin like a call."""


def one_of(words: Sequence[str]) -> str:
    """A grammar for exactly one of `words`."""
    return f"{_HEAD}start: {' | '.join(map(_literal, words))}\n"


def json_of(schema: Mapping[str, Any]) -> str:
    """A grammar for JSON that matches `schema`."""
    return f"{_HEAD}start: {_json(schema)}\n"


def call_or_answer(tools: Sequence[ToolSpec], output: OutputSpec | None) -> str:
    """A grammar for a call of one of `tools` or an answer: text, or JSON that matches `output`."""
    calls = [f"call{number}" for number in range(len(tools))]
    final = "TEXT" if output is None else "answer"
    lines = [f"start: {' | '.join([*calls, final])}"]
    for number, tool in enumerate(tools):
        lines.append(f"call{number}: {_literal(call_head(tool.name))} args{number} {_literal('}')}")
        lines.append(f"args{number}: {_json(tool.parameters)}")
    lines.append(_ANY_TEXT if output is None else f"answer: {_json(output.json_schema)}\n")
    return _HEAD + "\n".join(lines)


def call_head(name: str) -> str:
    """The beginning of a call. The arguments and a closing brace follow."""
    return f'{{"tool": {json.dumps(name, ensure_ascii=False)}, "arguments": '


def call_text(name: str, arguments: str) -> str:
    """The text of a complete call. The model writes calls in this form, and reads its earlier calls
    in this form."""
    with suppress(ValueError):  # A model that wrote invalid JSON reads its own text.
        arguments = json.dumps(json.loads(arguments), ensure_ascii=False)
    return f"{call_head(name)}{arguments}}}"


def _json(schema: Mapping[str, Any]) -> str:
    # The library ignores a grammar that it cannot compile, so nothing would be enforced. `lenient`
    # leaves out only the parts of a schema that it cannot enforce.
    # Spaces are where models write them. Without the space after a colon, the likeliest token that
    # begins with a quotation mark is often `",`: a small model then writes the text ", tracking".
    options = {
        "whitespace_flexible": False,
        "key_separator": ": ",
        "item_separator": ", ",
        "lenient": True,
    }
    return f"%json {json.dumps({**schema, 'x-guidance': options})}"


def _literal(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


Message: TypeAlias = dict[str, str]

_READABLE = ("input_text", "output_text", "text", "refusal")
_BREAK = "\u200b"
"""Inserted into text that looks like a control token, so that the model does not read it as one."""


def chat_messages(request: ModelRequest, control_tokens: Sequence[str] = ()) -> list[Message]:
    """Convert the conversation to messages: at most one system message, followed by user and
    assistant messages in turn.

    Calls and results are written as text, because not every model's template supports tools. The
    parts that do not change within a conversation come first, so that they are evaluated once.
    Raises `UserError` for content that a local model cannot read, such as an image.
    """
    system = _system(request, control_tokens)
    messages: list[Message] = [{"role": "system", "content": system}] if system else []
    turns = _merged(_turns(request.input, control_tokens))
    if not turns or turns[0]["role"] == "assistant":
        turns.insert(0, {"role": "user", "content": "(The conversation goes on.)"})
    if turns[-1]["role"] == "assistant":
        turns.append({"role": "user", "content": "Go on."})
    elif (
        request.tools
        and request.settings.tool_choice != "none"
        and request.input[-1].get("type") == "function_call_output"
        and turns[-1]["content"].startswith("Result of")
    ):
        # Without it, a model of one or two billion parameters often hands the conversation on
        # although the result answers the request.
        turns[-1]["content"] += f"\n\n{_AFTER_RESULT}"
    return messages + turns


_AFTER_RESULT = (
    "Now answer the request in one or two sentences, or use another tool if the request needs it."
)
TOOL_RULE = 'To use a tool, answer with nothing but {"tool": "NAME", "arguments": {…}}'
_OURS = (
    TOOL_RULE[:40],
    "Otherwise answer with a text.",
    "(The conversation goes on.)",
    _AFTER_RESULT,
)
_BEGINNING = 60
HELD = 80
"""The number of characters at the end of a streamed answer that are held back, because they may be
the beginning of an echo of the prompt."""


def without_echo(text: str, request: ModelRequest) -> str:
    """Return the answer up to the first text that repeats the prompt. The result is empty if the
    whole answer repeats the prompt.

    The function looks for the sentences that surround tools and results in the prompt. If the
    answer begins like the instructions, the result is empty.
    """
    start = one_line(request.instructions or "")[:_BEGINNING]
    if len(start) == _BEGINNING and one_line(text[: 4 * _BEGINNING]).startswith(start):
        return ""
    results = (f"Result of {tool.name}:" for tool in request.tools)
    found = [at for each in (*_OURS, *results) if (at := text.find(each)) >= 0]
    return text[: min(found)].rstrip() if found else text


def answered_call(request: ModelRequest, name: str, arguments: str) -> bool:
    """Whether the same call was made and answered since the person's last message."""
    made: set[str] = set()
    is_answered = False
    for item in request.input:
        kind, call_id = item.get("type"), str(item.get("call_id"))
        if is_message(item) and item.get("role") == "user":
            made.clear()
            is_answered = False
        elif kind == "function_call" and item.get("name") == name:
            if _same(str(item.get("arguments") or "{}"), arguments):
                made.add(call_id)
        elif kind == "function_call_output" and call_id in made:
            is_answered = True
    return is_answered


def _same(one: str, other: str) -> bool:
    try:
        return bool(json.loads(one) == json.loads(other))
    except ValueError:
        return one == other


def safe(text: str, control_tokens: Sequence[str]) -> str:
    """Return `text` with a break inside every control token, such as the token for the end of a
    turn."""
    text = text.encode("utf-8", errors="replace").decode("utf-8")
    for token in control_tokens:
        if token in text:
            text = text.replace(token, f"{token[0]}{_BREAK}{token[1:]}")
    return text


def one_line(text: str) -> str:
    """`text` with all white space replaced by single spaces."""
    return " ".join(text.split())


def _system(request: ModelRequest, control_tokens: Sequence[str]) -> str:
    parts = [request.instructions or ""]
    if request.tools and request.settings.tool_choice != "none":
        parts.append(_tool_section(request.tools))
    if request.output is not None:
        parts.append(_output_section(request.output))
    return safe("\n\n".join(part for part in parts if part), control_tokens)


def _tool_section(tools: Sequence[ToolSpec]) -> str:
    listed = "\n".join(
        f"- {tool.name}({_signature(tool.parameters)}): {one_line(tool.description)}"
        for tool in tools
    )
    return (
        f"{TOOL_RULE}; its result "
        f"comes back to you. Otherwise answer with a text.\nTools:\n{listed}"
    )


def _output_section(output: OutputSpec) -> str:
    schema = json.dumps(output.json_schema, ensure_ascii=False, separators=(",", ":"))
    return f"Answer with JSON that fits this schema: {schema}"


def _signature(schema: dict[str, Any]) -> str:
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        return ""
    required = schema.get("required") or ()
    return ", ".join(
        f"{name}{'' if name in required else '?'}: {_kind(each)}"
        for name, each in properties.items()
    )


def _kind(schema: Any) -> str:
    if not isinstance(schema, dict):
        return "any"
    if isinstance(schema.get("enum"), list):
        return "|".join(json.dumps(each, ensure_ascii=False) for each in schema["enum"])
    kind = schema.get("type")
    if isinstance(kind, list):
        return " or ".join(map(str, kind))
    return kind if isinstance(kind, str) else "any"


def _turns(items: Sequence[Item], control_tokens: Sequence[str]) -> Iterator[Message]:
    names: dict[str, str] = {}
    # The prompt already describes the handoff. A small model that reads the call as its own copies
    # it, and hands the conversation on instead of doing the work.
    handoffs = {str(item.get("call_id")) for item in items if _is_handoff_result(item)}
    for item in items:
        kind = item.get("type")
        if str(item.get("call_id")) in handoffs:
            continue
        if is_message(item):
            yield _message(item, control_tokens)
        elif kind == "function_call":
            names[str(item.get("call_id"))] = str(item.get("name"))
            call = call_text(str(item.get("name")), str(item.get("arguments") or "{}"))
            yield {"role": "assistant", "content": safe(call, control_tokens)}
        elif kind == "function_call_output":
            name = names.get(str(item.get("call_id")), "the tool")
            result = safe(_result(item.get("output")), control_tokens)
            yield {"role": "user", "content": f"Result of {name}: {result}"}
        elif kind != "reasoning":
            raise UserError(
                f"an item of type {kind!r} cannot be sent to a model: "
                "use messages, function_call, function_call_output and reasoning"
            )


def _is_handoff_result(item: Item) -> bool:
    """Whether `item` is the result of a successful handoff: the name of the new agent."""
    if item.get("type") != "function_call_output":
        return False
    try:
        output = json.loads(str(item.get("output")))
    except ValueError:
        return False
    return isinstance(output, dict) and list(output) == ["assistant"]


def _message(item: Item, control_tokens: Sequence[str]) -> Message:
    _check_readable(item.get("content"))
    role = item.get("role")
    text = safe(text_of(item) or refusal_of(item) or "", control_tokens)
    match role:
        case "user" | "assistant":
            return {"role": role, "content": text}
        case "system" | "developer":
            return {"role": "user", "content": f"(Note: {text})"}
    raise UserError(f"a message has the role {role!r}: use user, assistant, system or developer")


def _check_readable(content: Any) -> None:
    for part in content if isinstance(content, list) else ():
        if not (isinstance(part, dict) and part.get("type") in _READABLE):
            kind = part.get("type") if isinstance(part, dict) else type(part).__name__
            raise UserError(f"a local model reads text only, and a message has a part {kind!r}")


def _result(output: Any) -> str:
    if isinstance(output, str):
        return output
    try:
        return dumps(output)
    except (TypeError, ValueError) as exc:
        raise UserError("a function call's output must be JSON") from exc


def _merged(turns: Iterator[Message]) -> list[Message]:
    """Consecutive messages of one role joined: many templates refuse two in a row."""
    merged: list[Message] = []
    for turn in turns:
        if merged and merged[-1]["role"] == turn["role"]:
            merged[-1]["content"] += f"\n\n{turn['content']}"
        else:
            merged.append(dict(turn))
    return merged


_LOOKED_AT = 100
"""The number of alternatives of the first token that are requested with their probabilities."""
_LEAST = -30.0
"""The log-probability of a name that begins with none of these tokens."""
_LONGEST_NAME = 64
_COMMON: dict[str, Any] = {
    "cache_prompt": True,
    "stream_options": {"include_usage": True},
    "temperature": 0,
    "max_tokens": _LONGEST_NAME,
}

_PREFIX = "transfer_to_"
_ABOUT = "About it: "
"""In the descriptions of a router's tools, the agent's own description follows it as JSON."""
_FENCED = re.compile(r"\s*<request>\s*(?P<json>\".*\")\s*</request>\s*", re.DOTALL)

_EXAMPLE_CHARS = 6_000
"""Maximum length of all examples: more would fill the context and take long to evaluate."""
_ABOUT_CHARS = 200
_LONGEST_EXAMPLE = 160
_LONGEST_REQUEST = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Candidate:
    name: str
    about: str
    examples: tuple[str, ...]


def routing_prompt(request: ModelRequest, control_tokens: Sequence[str] = ()) -> str:
    """Return the prompt. The model must continue it with a space and the name of one of the
    tools."""
    candidates = [_candidate(tool) for tool in request.tools]
    lines = ["Each request goes to one agent."]
    lines += [f"{each.name}: {each.about}" for each in candidates]
    lines.append("")
    for name, example in _examples(candidates):
        lines += [f"Request: {example}", f"Agent: {name}"]
    lines += [f"Request: {one_line(_question(request))[:_LONGEST_REQUEST]}", "Agent:"]
    return safe("\n".join(lines), control_tokens)


def short_name(tool: str) -> str:
    """The target of a transfer tool, or the name of any other tool."""
    return tool.removeprefix(_PREFIX)


def _candidate(tool: ToolSpec) -> _Candidate:
    about, examples = _facts(tool.description)
    return _Candidate(
        name=short_name(tool.name),
        about=one_line(about)[:_ABOUT_CHARS],
        examples=tuple(one_line(each)[:_LONGEST_EXAMPLE] for each in examples),
    )


def _facts(description: str) -> tuple[str, list[str]]:
    """The purpose of an agent, and its examples if a router has added them."""
    _, marked, rest = description.partition(_ABOUT)
    if not marked:
        return description, []
    try:
        facts = json.loads(rest)
    except ValueError:
        return rest, []
    if not isinstance(facts, dict):
        return str(facts), []
    can = [str(each) for each in _listed(facts.get("can"))]
    about = "; ".join(filter(None, [str(facts.get("does") or ""), *can]))
    return about, [str(each) for each in _listed(facts.get("examples"))]


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _examples(candidates: Sequence[_Candidate]) -> Iterator[tuple[str, str]]:
    """The first example of every agent, then the second, up to the maximum length."""
    room = _EXAMPLE_CHARS
    longest = max((len(each.examples) for each in candidates), default=0)
    for number in range(longest):
        for each in candidates:
            if number < len(each.examples) and (example := each.examples[number]):
                room -= len(example) + len(each.name)
                if room < 0:
                    return
                yield each.name, example


def _question(request: ModelRequest) -> str:
    """The person's last message, without the fence that a router puts around it."""
    texts = (text_of(item) for item in reversed(request.input) if _is_user(item))
    text = next(texts, "")
    fenced = _FENCED.fullmatch(text)
    if fenced is None:
        return text
    try:
        found = json.loads(fenced["json"])
    except ValueError:
        return text
    return found if isinstance(found, str) else text


def _is_user(item: dict[str, Any]) -> bool:
    return is_message(item) and item.get("role") == "user"


@dataclass(frozen=True, slots=True, kw_only=True)
class LikelyTool:
    """The most probable tool."""

    tool: ToolSpec
    probabilities: dict[str, float]
    """The probabilities of all allowed tools, by name. Their sum is 1.

    The probabilities are computed from the first token of each name, so names with the same first
    token have the same probability.
    """


def is_routing(request: ModelRequest) -> bool:
    """Whether every tool needs only a reason, like the transfers of a router."""
    return len(request.tools) > 1 and all(map(wants_reason_only, request.tools))


def wants_reason_only(tool: ToolSpec) -> bool:
    """Whether the tool needs only a reason as text, like a transfer."""
    properties = tool.parameters.get("properties") or {}
    reason = properties.get("reason")
    is_text = isinstance(reason, dict) and reason.get("type") == "string" and "enum" not in reason
    return is_text and list(tool.parameters.get("required") or ()) == ["reason"]


def choice_body(
    request: ModelRequest, allowed: Sequence[ToolSpec], control_tokens: Sequence[str]
) -> dict[str, Any]:
    """Return the request to the model. The request describes all tools, but its grammar allows only
    the `allowed` tools.

    For a router the prompt is `routing_prompt`, because small models complete a list far better
    than they follow instructions.
    """
    if is_routing(request):
        return {
            **_COMMON,
            "prompt": routing_prompt(request, control_tokens),
            "grammar": one_of([f" {short_name(tool.name)}" for tool in allowed]),
            "logprobs": _LOOKED_AT,
        }
    prefill = {"role": "assistant", "content": '{"tool": "'}
    return {
        **_COMMON,
        "messages": [*chat_messages(request, control_tokens), prefill],
        "grammar": one_of([tool.name for tool in allowed]),
        "chat_template_kwargs": {"enable_thinking": False},
        "logprobs": True,
        "top_logprobs": _LOOKED_AT,
    }


def choice_of(
    generation: Generation, request: ModelRequest, allowed: Sequence[ToolSpec]
) -> LikelyTool:
    """Return the tool whose name the model wrote. Raises `ModelBehaviorError` if the model wrote no
    such name."""
    shorten = is_routing(request)
    by_name = {short_name(tool.name) if shorten else tool.name: tool for tool in allowed}
    tool = by_name.get(generation.text.strip())
    if tool is None:
        raise ModelBehaviorError(
            f"the model was to choose one of {len(allowed)} tools and wrote {generation.text!r}"
        )
    return LikelyTool(tool=tool, probabilities=_probabilities(generation, by_name, tool))


def _probabilities(
    generation: Generation, by_name: dict[str, ToolSpec], chosen: ToolSpec
) -> dict[str, float]:
    found = dict.fromkeys((tool.name for tool in by_name.values()), _LEAST)
    for token, logprob in generation.first_alternatives.items():
        begin = token.strip()
        for name, tool in by_name.items():
            if begin and name.startswith(begin):
                found[tool.name] = max(found[tool.name], logprob)
    # At temperature 0 the written name is the most probable one, even if its token is not listed.
    found[chosen.name] = max(found.values())
    weights = {name: math.exp(logprob - found[chosen.name]) for name, logprob in found.items()}
    total = sum(weights.values())
    return {name: round(weight / total, 4) for name, weight in weights.items()}
