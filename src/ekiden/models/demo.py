"""The model ``demo:offline``, which answers by rules, so that you can try a team without an API
key.

The model compares words and fills in sentences, and says so in every answer. The same text always
gets the same answer. The model hands off to the agent that the text describes, calls a tool whose
arguments are in the text, or repeats the question.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from ekiden.core.conversation.model import (
    Item,
    ModelDelta,
    ModelEvent,
    ModelRequest,
    ModelResponse,
    ToolSpec,
    assistant_message,
    function_call,
    text_of,
)
from ekiden.core.conversation.quotes import is_request
from ekiden.core.errors import UserError
from ekiden.core.text.wording import lazy_pattern
from ekiden.core.values import dumps

PROVIDER: Final = "demo"
NAME: Final = "demo:offline"

_Call: TypeAlias = tuple[str, dict[str, Any]]

_TRANSFER = "transfer_to_"
_GIVE_UP = "transfer_to_router_agent"
"""Never called: comparing words cannot show that no agent fits."""
_NOBODY = "transfer_to_nobody"
"""The tool with which a router declines. Never called, for the same reason."""
_EXAMPLES = '"examples":'
"""The text after it in a description is ignored: it has too many insignificant words."""
_READ = 4000
"""Maximum number of characters of a text that are compared."""
_QUOTED = 300
"""Maximum number of characters of a quoted text."""
_LATIN = lazy_pattern(r"[a-z][a-z'-]{2,}")
_CJK = lazy_pattern(r"[\u3040-\u30ff\u3400-\u9fff]{2,}")
_CHINESE = lazy_pattern(r"[\u4e00-\u9fff]")
_KANA = lazy_pattern(r"[\u3040-\u30ff]")
_COMMON_WORDS = """
about agent agents all also and any are ask asks can conversation could does for from get give
hand handles has have help here how into its just know knows let like make may more much new not
nothing one other our out over please request say should some tell than that the them then there
these they thing this those turn use want was what what's when where which who whom why will with
work would you your
问题 什么 怎么 可以 一个 我们 请问 这个 需要 如何 です ます して
"""
_COMMON = frozenset(_COMMON_WORDS.split())
_FINDERS: Mapping[str, re.Pattern[str]] = {
    "path": lazy_pattern(r"(?<![\w/:.@])((?:[\w.-]+/)*[\w-]+\.[A-Za-z]\w{0,7})(?![\w/])"),
    "url": lazy_pattern(r"(https?://[^\s\"'<>，。、）)]*[\w/])"),
    "command": lazy_pattern(r"`([^`\n]+)`"),
    "order_id": lazy_pattern(r"(?<!\d)(\d{3,})(?!\d)"),
}
"""Patterns that find the value of a parameter in a text, by the name of the parameter."""


def is_demo(model: object) -> bool:
    """Whether `model` is the name of the demo model."""
    return isinstance(model, str) and model.partition(":")[0] == PROVIDER


class DemoModel:
    """A model that answers by fixed rules, without a provider."""

    async def respond(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Answer with a transfer, a tool call or a text. Raises `UserError` for JSON output."""
        if request.output is not None:
            raise UserError(
                f"{NAME} cannot write the JSON that agent {request.agent!r} answers with; "
                "set a real model: ekiden config set model openai:gpt-5-mini"
            )
        question, since = _last_request(request.input)
        called = [str(item.get("name")) for item in since if item.get("type") == "function_call"]
        call = None if called else _transfer_for(request, question)
        if call is None and all(name.startswith(_TRANSFER) for name in called):
            call = _tool_for(request, question)
        if call is not None:
            name, arguments = call
            item = function_call(f"demo_{request.step}", name, dumps(arguments))
            yield ModelResponse(output=[item], model=NAME)
            return
        text = _answer(request, question, since)
        if request.stream:
            for piece in re.findall(r"\s*\S+\s*", text):
                yield ModelDelta(kind="text", text=piece)
        yield ModelResponse(output=[assistant_message(text)], model=NAME)


def _transfer_for(request: ModelRequest, question: str) -> _Call | None:
    """The transfer whose description shares most words with the question.

    It must share more words than the first paragraph of the agent's own instructions. This does not
    apply to a router, which must choose, but a router needs two shared words: one may be chance.
    """
    words = _words(question)
    must_choose = request.settings.tool_choice == "required"
    own = "" if must_choose else (request.instructions or "").partition("\n\n")[0]
    chosen, shared = None, words & _words(own)
    least = 2 if must_choose else 1
    for tool in request.tools:
        if tool.name.startswith(_TRANSFER) and tool.name not in (_GIVE_UP, _NOBODY):
            here = words & _words(tool.description.partition(_EXAMPLES)[0])
            if len(here) >= max(least, len(shared) + 1):
                chosen, shared = tool, here
    if chosen is None:
        return None
    reason = f"the request speaks of {', '.join(sorted(shared))}"
    return chosen.name, _filled(chosen, {"reason": reason}) or {}


def _tool_for(request: ModelRequest, question: str) -> _Call | None:
    """The first tool whose arguments are all in the question."""
    found = {
        name: match[1]
        for name, finder in _FINDERS.items()
        if (match := finder.search(question[:_READ])) is not None
    }
    for tool in request.tools:
        if not tool.name.startswith(_TRANSFER):
            arguments = _filled(tool, found)
            if arguments and found.keys() & arguments.keys():
                return tool.name, arguments
    return None


def _filled(tool: ToolSpec, values: Mapping[str, str]) -> dict[str, Any] | None:
    """The tool's arguments from `values` and defaults; `None` if a required one is missing."""
    properties: Mapping[str, Any] = tool.parameters.get("properties") or {}
    required = tool.parameters.get("required") or ()
    arguments: dict[str, Any] = {}
    for name, schema in properties.items():
        if name in values:
            arguments[name] = values[name]
        elif name not in required:
            continue
        elif "default" in schema:
            arguments[name] = schema["default"]
        elif _may_be_null(schema):
            arguments[name] = None
        else:
            return None
    return arguments


def _may_be_null(schema: Mapping[str, Any]) -> bool:
    kind = schema.get("type")
    return "null" in ([kind] if isinstance(kind, str) else kind or ()) or any(
        _may_be_null(each) for each in schema.get("anyOf") or ()
    )


def _words(text: str) -> set[str]:
    """The words to compare: English words without plural s, and pairs of CJK characters."""
    lowered = text[:_READ].lower()
    words = {word.removesuffix("s") for word in _LATIN.findall(lowered) if word not in _COMMON}
    for run in _CJK.findall(lowered):
        words.update(run[at : at + 2] for at in range(len(run) - 1))
    return words - _COMMON


def _last_request(items: Sequence[Item]) -> tuple[str, list[Item]]:
    """The last message of the person, and the items after it."""
    for at in range(len(items) - 1, -1, -1):
        if is_request(items[at]):
            return text_of(items[at]), list(items[at + 1 :])
    return "", list(items)


def _answer(request: ModelRequest, question: str, since: Sequence[Item]) -> str:
    outputs = {
        item.get("call_id"): item.get("output")
        for item in since
        if item.get("type") == "function_call_output"
    }
    results = [
        (str(item.get("name")), outputs.get(item.get("call_id")))
        for item in since
        if item.get("type") == "function_call" and not str(item.get("name")).startswith(_TRANSFER)
    ]
    is_chinese = _CHINESE.search(question) and not _KANA.search(question)
    return "\n".join((_chinese if is_chinese else _english)(request, question, results))


def _english(request: ModelRequest, question: str, results: Sequence[tuple[str, Any]]) -> list[str]:
    lines = [f"I am {request.agent}; you asked: “{_cut(question)}”"]
    lines += [f"{tool} gave: {_cut(output)}" for tool, output in results]
    if not results:
        tools, colleagues = _offered(request)
        lines += [f"My tools: {', '.join(tools)}."] if tools else []
        lines += [f"I can hand off to: {', '.join(colleagues)}."] if colleagues else []
    lines.append(
        f"({NAME} compares words and understands nothing; for real answers: "
        'ekiden config set model openai:gpt-5-mini, or model="openai:gpt-5-mini" in Python)'
    )
    return lines


def _chinese(request: ModelRequest, question: str, results: Sequence[tuple[str, Any]]) -> list[str]:
    lines = [f"我是 {request.agent}，您的问题是：“{_cut(question)}”"]
    lines += [f"{tool} 的结果：{_cut(output)}" for tool, output in results]
    if not results:
        tools, colleagues = _offered(request)
        lines += [f"我的工具：{'、'.join(tools)}。"] if tools else []
        lines += [f"我可以转交给：{'、'.join(colleagues)}。"] if colleagues else []
    lines.append(
        f"（{NAME} 只比较词语，并不理解内容；要得到真正的回答，请设置模型："
        'ekiden config set model openai:gpt-5-mini，Python 代码里则写 model="openai:gpt-5-mini"）'
    )
    return lines


def _offered(request: ModelRequest) -> tuple[list[str], list[str]]:
    names = [tool.name for tool in request.tools]
    return (
        [name for name in names if not name.startswith(_TRANSFER)],
        [
            name.removeprefix(_TRANSFER)
            for name in names
            if name.startswith(_TRANSFER) and name != _GIVE_UP
        ],
    )


def _cut(value: Any) -> str:
    text = value.strip() if isinstance(value, str) else dumps(value)
    return text if len(text) <= _QUOTED else f"{text[:_QUOTED]}…"
