"""Answers of `/v1/chat/completions`."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict


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


def finish_reason(record: dict[str, Any]) -> str:
    """Why the answer ends."""
    return "length" if record["status"] == "out_of_budget" else "stop"


def chat_usage(record: dict[str, Any]) -> dict[str, Any]:
    """What the run used."""
    used = record["usage"]
    sent, made = used.get("input_tokens", 0), used.get("output_tokens", 0)
    return {
        "prompt_tokens": sent,
        "completion_tokens": made,
        "total_tokens": max(used.get("total_tokens", 0), sent + made),
        "prompt_tokens_details": {"cached_tokens": used.get("cached_tokens", 0)},
        "completion_tokens_details": {"reasoning_tokens": used.get("reasoning_tokens", 0)},
    }


def completion(
    record: dict[str, Any], *, model: str, text: str, refusal: str | None = None
) -> dict[str, Any]:
    """The run as an answer."""
    content = text if text or refusal is None else None
    metadata = {
        "session_id": record["session_id"],
        "run_id": record["run_id"],
        "agent": record["agent"],
        "status": record["status"],
    }
    if record["questions"]:
        metadata["questions"] = ",".join(record["questions"])
    return {
        "id": f"chatcmpl-{record['run_id']}",
        "object": "chat.completion",
        "created": int(record["started_at"]),
        "model": model,
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": content, "refusal": refusal},
                "logprobs": None,
                "finish_reason": finish_reason(record),
            }
        ],
        "usage": chat_usage(record),
        "metadata": metadata,
    }
