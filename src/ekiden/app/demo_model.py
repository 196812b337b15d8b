"""``demo:offline``: a model without a model, so that a fresh team can be tried with no key.

It compares words and fills in sentences; it understands nothing, and every answer says so. What it
does is the same every time: it hands on what the text calls for, calls a tool whose arguments
stand in the text, and else tells who it is and what it would do.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Any

from ekiden.core.errors import UserError
from ekiden.core.items import Item, assistant_message, function_call, is_message, text_of
from ekiden.core.jsonio import dumps
from ekiden.core.model import ModelDelta, ModelEvent, ModelRequest, ModelResponse, ToolSpec
from ekiden.models import ModelOptions, register_provider

PROVIDER = "demo"
NAME = "demo:offline"

_TRANSFER = "transfer_to_"
_HAN = re.compile(r"[\u3400-\u9fff]")
_KANA = re.compile(r"[\u3040-\u30ff]")
_LATIN_WORD = re.compile(r"[a-z][a-z'-]{2,}")
_CJK_RUN = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]{2,}")
_COMMON = frozenset(
    "about agent and any are ask but can conversation does for from get give hand handles has have "
    "help here how into its knows not one other over please should some tell than that the them "
    "then there these they this those was what when where which who why will with you your "
    "person user answer answers question questions want wants need needs use uses work".split()
)
_FINDERS: Mapping[str, re.Pattern[str]] = {
    "path": re.compile(r"(?<![\w/:.])((?:[\w.-]+/)*[\w-]+\.[A-Za-z]\w{0,7})(?![\w/])"),
    "url": re.compile(r"(https?://[^\s\"'<>，。）)]+)"),
    "command": re.compile(r"`([^`\n]+)`"),
    "order_id": re.compile(r"(?<!\d)(\d{3,})(?!\d)"),
}
"""How the value of a parameter of this name is found in a text."""
_LONGEST_QUOTE = 400


class DemoModel:
    """Answers by rule; see the module's text."""

    async def respond(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """A transfer, a tool call, or a text; `UserError` where JSON is asked for."""
        if request.output is not None:
            raise UserError(
                f"{NAME} cannot give the JSON that agent {request.agent!r} is to answer with; "
                "set a real model: ekiden config set model openai:gpt-5-mini"
            )
        asked, since = _last_request(request.input)
        called = _called_names(since)
        call = None if called else _transfer(request, asked) or _tool(request, asked)
        if call is None and not any(name.startswith(_TRANSFER) for name in called):
            text = _told(request, asked, _last_output(since))
        elif call is None:
            call = _tool(request, asked) if called[-1].startswith(_TRANSFER) else None
            text = _told(request, asked, _last_output(since))
        else:
            text = ""
        if call is not None:
            name, arguments = call
            item = function_call(f"demo_{request.step}", name, dumps(arguments))
            yield ModelResponse(output=[item], model=NAME)
            return
        if request.stream:
            for piece in re.findall(r"\S+\s*|\s+", text):
                yield ModelDelta(kind="text", text=piece)
        yield ModelResponse(output=[assistant_message(text)], model=NAME)


def register_demo() -> None:
    """Let ``demo:offline`` be named as a model."""
    register_provider(PROVIDER, _made)
