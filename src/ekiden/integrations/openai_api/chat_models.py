"""Answers of `/v1/chat/completions`."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from ekiden.core.runs import Run


class ChatMessage(BaseModel):
    """What the team says."""

    role: Literal["assistant"] = "assistant"
    content: str | None
    refusal: str | None = None


class ChatChoice(BaseModel):
    """The one answer."""

    index: int = 0
    message: ChatMessage
    logprobs: None = None
    finish_reason: Literal["stop", "length", "content_filter"]


class ChatUsage(BaseModel):
    """What all models of the run used."""

    model_config = ConfigDict(extra="allow")

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class ChatCompletion(BaseModel):
    """The answer."""

    id: str
    object: Literal["chat.completion"] = "chat.completion"
    created: int
    model: str
    choices: list[ChatChoice]
    usage: ChatUsage
    metadata: dict[str, str]


def finish_reason(run: Run) -> str:
    """Why the answer ends."""
    return "length" if run.status == "out_of_budget" else "stop"


def chat_usage(run: Run) -> dict[str, Any]:
    """What the run used."""
    used = run.usage
    return {
        "prompt_tokens": used.input_tokens,
        "completion_tokens": used.output_tokens,
        "total_tokens": used.tokens,
        "prompt_tokens_details": {"cached_tokens": used.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": used.reasoning_tokens},
    }


def completion(run: Run, *, model: str, text: str, refusal: str | None = None) -> dict[str, Any]:
    """The run as an answer."""
    content = text if text or refusal is None else None
    metadata = {
        "session_id": run.session_id,
        "run_id": run.run_id,
        "agent": run.agent,
        "status": run.status,
    }
    if run.questions:
        metadata["questions"] = ",".join(run.questions)
    return {
        "id": f"chatcmpl-{run.run_id}",
        "object": "chat.completion",
        "created": int(run.started_at),
        "model": model,
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": content, "refusal": refusal},
                "logprobs": None,
                "finish_reason": finish_reason(run),
            }
        ],
        "usage": chat_usage(run),
        "metadata": metadata,
    }
