"""Reading what a model answered as text."""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

from ekiden.core.conversation.model import ModelResponse, is_message, refusal_of, text_of, to_item

MAX_ANSWER_CHARS = 200_000
_FENCE = re.compile(r"[ \t]*(`{3,})[^`]*")


class ReplyNotJson(Exception):
    """Why an answer is not the JSON that was asked for."""


def answer_text(response: ModelResponse) -> tuple[str, str | None]:
    """What the model said, and its refusal if it refused."""
    said: list[str] = []
    refusal: str | None = None
    for each in response.output:
        item = to_item(each)
        if is_message(item):
            said.append(text_of(item))
            refusal = refusal_of(item) if refusal is None else refusal
    return "\n".join(part for part in said if part).strip(), refusal


def json_in(text: str) -> Any:
    """The JSON that `text` is, or that stands in the one fence in it; `ReplyNotJson` otherwise."""
    if not text:
        raise ReplyNotJson("the answer is empty")
    if len(text) > MAX_ANSWER_CHARS:
        raise ReplyNotJson(f"the answer has {len(text):,} characters, at most {MAX_ANSWER_CHARS:,}")
    blocks = [] if text[0] in "{[" else _fenced_blocks(text)
    if len(blocks) > 1:
        raise ReplyNotJson("the answer has several fences; give the JSON alone")
    try:
        return json.loads(blocks[0] if blocks else text, parse_constant=_refuse)
    except (ValueError, RecursionError) as exc:
        raise ReplyNotJson(f"the answer is not JSON: {str(exc)[:200]}") from exc


def _fenced_blocks(text: str) -> list[str]:
    """What stands between lines of three or more backticks."""
    blocks: list[str] = []
    inside: list[str] | None = None
    fence = ""
    for line in text.splitlines():
        found = _FENCE.fullmatch(line)
        if inside is None and found is not None:
            inside, fence = [], found[1]
        elif inside is not None and line.strip() == fence:
            blocks.append("\n".join(inside))
            inside = None
        elif inside is not None:
            inside.append(line)
    return blocks


def _refuse(word: str) -> NoReturn:
    raise ValueError(f"{word} is not a number in JSON")
