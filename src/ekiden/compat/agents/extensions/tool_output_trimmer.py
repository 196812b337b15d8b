"""Shortens what old calls of tools gave before a model sees it again."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ekiden.compat.agents.logger import logger as logger
from ekiden.compat.agents.not_supported import placeholders
from ekiden.compat.agents.run_config import CallModelData, ModelInputData


@dataclass
class ToolOutputTrimmer:
    """A `call_model_input_filter` that keeps only the beginning of tool outputs before the last
    turns."""

    recent_turns: int = 2
    max_output_chars: int = 500
    preview_chars: int = 200
    trimmable_tools: str | Iterable[str] | None = None

    def __post_init__(self) -> None:
        if self.recent_turns < 1:
            raise ValueError(f"recent_turns must be >= 1, got {self.recent_turns}")
        if self.max_output_chars < 1:
            raise ValueError(f"max_output_chars must be >= 1, got {self.max_output_chars}")
        if self.preview_chars < 0:
            raise ValueError(f"preview_chars must be >= 0, got {self.preview_chars}")
        tools = self.trimmable_tools
        if tools is not None:
            self.trimmable_tools = frozenset([tools] if isinstance(tools, str) else tools)

    def __call__(self, data: CallModelData[Any]) -> ModelInputData:
        """The input with shorter outputs; the one that was given stays as it is."""
        given = data.model_data
        items = given.input
        users = [place for place, item in enumerate(items) if _get(item, "role") == "user"]
        border = users[-self.recent_turns] if len(users) >= self.recent_turns else 0
        names = {_get(item, "call_id"): _get(item, "name") for item in items}
        shown = [
            self._trimmed(item, names) if place < border else item
            for place, item in enumerate(items)
        ]
        return ModelInputData(input=shown, instructions=given.instructions)

    def _trimmed(self, item: Any, names: dict[Any, Any]) -> Any:
        if _get(item, "type") != "function_call_output":
            return item
        name = names.get(_get(item, "call_id")) or ""
        if self.trimmable_tools is not None and name not in self.trimmable_tools:
            return item
        output = _get(item, "output")
        text = output if isinstance(output, str) else json.dumps(output, default=str)
        short = (
            f"[Trimmed: {name or 'unknown_tool'} output — {len(text)} chars → "
            f"{self.preview_chars} char preview]\n{text[: self.preview_chars]}..."
        )
        if len(text) <= self.max_output_chars or len(short) >= len(text):
            return item
        trimmed = copy.copy(item)
        trimmed["output"] = short
        return trimmed


def _get(item: Any, name: str) -> Any:
    return item.get(name) if isinstance(item, dict) else getattr(item, name, None)


__getattr__ = placeholders(__name__)
