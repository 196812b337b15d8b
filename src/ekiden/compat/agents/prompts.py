"""Prompts that are kept at OpenAI."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NotRequired, TypeAlias

from typing_extensions import TypedDict

from ekiden.compat.agents.exceptions import UserError


class Prompt(TypedDict):
    """A prompt by its id, with its version and variables."""

    id: str
    version: NotRequired[str]
    variables: NotRequired[dict[str, Any]]


@dataclass
class GenerateDynamicPromptData:
    """The argument of a function that returns a prompt."""

    context: Any
    agent: Any


DynamicPromptFunction: TypeAlias = Callable[[GenerateDynamicPromptData], Any]


class PromptUtil:
    """Reads an agent's `prompt`."""

    @staticmethod
    async def to_model_input(prompt: Any, context: Any, agent: Any) -> dict[str, Any] | None:
        """The prompt as OpenAI's API takes it."""
        if prompt is None:
            return None
        if not isinstance(prompt, dict):
            prompt = prompt(GenerateDynamicPromptData(context=context, agent=agent))
            if inspect.isawaitable(prompt):
                prompt = await prompt
            if not isinstance(prompt, dict):
                raise UserError("Dynamic prompt function must return a Prompt")
        return {
            "id": prompt["id"],
            "version": prompt.get("version"),
            "variables": prompt.get("variables"),
        }
