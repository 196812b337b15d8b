"""Token counts with the SDK's fields, which are OpenAI's own types."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from openai.types.responses.response_usage import InputTokensDetails, OutputTokensDetails

from ekiden.compat.agents.not_supported import placeholders
from ekiden.core.conversation.model import Usage as NativeUsage


def _count(details: Any, name: str) -> int:
    return getattr(details, name, 0) or 0


def input_details(cached: int = 0, written: int = 0) -> InputTokensDetails:
    """Details of input tokens, whichever version of the `openai` package is there."""
    return InputTokensDetails.model_validate(
        {"cached_tokens": cached, "cache_write_tokens": written}
    )


def _read_input(details: Any) -> InputTokensDetails:
    if isinstance(details, Mapping):
        return input_details(
            details.get("cached_tokens") or 0, details.get("cache_write_tokens") or 0
        )
    if isinstance(details, list) and details:
        return _read_input(details[0])
    return input_details(_count(details, "cached_tokens"), _count(details, "cache_write_tokens"))


def _read_output(details: Any) -> OutputTokensDetails:
    if isinstance(details, list) and details:
        details = details[0]
    known = details.get("reasoning_tokens") if isinstance(details, Mapping) else None
    return OutputTokensDetails(reasoning_tokens=known or _count(details, "reasoning_tokens"))


@dataclass
class RequestUsage:
    """Token counts of one request."""

    input_tokens: int
    output_tokens: int
    total_tokens: int
    input_tokens_details: InputTokensDetails
    output_tokens_details: OutputTokensDetails


@dataclass
class Usage:
    """Token counts of a run, in total and by request."""

    requests: int = 0
    input_tokens: int = 0
    input_tokens_details: InputTokensDetails = field(default_factory=input_details)
    output_tokens: int = 0
    output_tokens_details: OutputTokensDetails = field(
        default_factory=lambda: OutputTokensDetails(reasoning_tokens=0)
    )
    total_tokens: int = 0
    request_usage_entries: list[RequestUsage] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.input_tokens_details = _read_input(self.input_tokens_details)
        self.output_tokens_details = _read_output(self.output_tokens_details)

    def add(self, other: Usage) -> None:
        """Add the counts of `other`."""
        self.requests += other.requests or 0
        self.input_tokens += other.input_tokens or 0
        self.output_tokens += other.output_tokens or 0
        self.total_tokens += other.total_tokens or 0
        mine, theirs = self.input_tokens_details, other.input_tokens_details
        self.input_tokens_details = input_details(
            _count(mine, "cached_tokens") + _count(theirs, "cached_tokens"),
            _count(mine, "cache_write_tokens") + _count(theirs, "cache_write_tokens"),
        )
        self.output_tokens_details = OutputTokensDetails(
            reasoning_tokens=_count(self.output_tokens_details, "reasoning_tokens")
            + _count(other.output_tokens_details, "reasoning_tokens")
        )
        if other.request_usage_entries:
            self.request_usage_entries.extend(deepcopy(other.request_usage_entries))
        elif other.requests == 1 and (
            other.input_tokens or other.output_tokens or other.total_tokens
        ):
            self.request_usage_entries.append(
                RequestUsage(
                    input_tokens=other.input_tokens,
                    output_tokens=other.output_tokens,
                    total_tokens=other.total_tokens,
                    input_tokens_details=_read_input(other.input_tokens_details),
                    output_tokens_details=_read_output(other.output_tokens_details),
                )
            )


def to_native(usage: Usage | NativeUsage) -> NativeUsage:
    """The counts as the run's budget counts them."""
    if isinstance(usage, NativeUsage):
        return usage
    return NativeUsage(
        requests=usage.requests or 0,
        input_tokens=usage.input_tokens or 0,
        output_tokens=usage.output_tokens or 0,
        total_tokens=usage.total_tokens or 0,
        cached_tokens=_count(usage.input_tokens_details, "cached_tokens"),
        reasoning_tokens=_count(usage.output_tokens_details, "reasoning_tokens"),
    )


def from_native(usage: NativeUsage) -> Usage:
    """The inverse of `to_native`."""
    return Usage(
        requests=usage.requests,
        input_tokens=usage.input_tokens,
        input_tokens_details=input_details(usage.cached_tokens),
        output_tokens=usage.output_tokens,
        output_tokens_details=OutputTokensDetails(reasoning_tokens=usage.reasoning_tokens),
        total_tokens=usage.total_tokens,
    )


def model_usage_to_span_usage(usage: Usage) -> dict[str, Any]:
    """The counts of one call of a model, as its span shows them."""
    data = serialize_usage(usage)
    del data["request_usage_entries"]
    return data


def turn_usage_to_span_data(usage: Usage) -> dict[str, int]:
    """The counts of a turn, as its span shows them."""
    details = usage.input_tokens_details
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cached_input_tokens": _count(details, "cached_tokens"),
        "cache_write_input_tokens": _count(details, "cache_write_tokens"),
    }


def task_usage_to_span_data(usage: Usage) -> dict[str, int]:
    """The counts of a run, as its span shows them."""
    totals = {"requests": usage.requests, "total_tokens": usage.total_tokens}
    return {**totals, **turn_usage_to_span_data(usage)}


total_usage_to_span_metadata = task_usage_to_span_data


def serialize_usage(usage: Usage) -> dict[str, Any]:
    """The counts as JSON."""

    def plain(value: Any) -> Any:
        return [value.model_dump()] if hasattr(value, "model_dump") else value

    data = {name: plain(value) for name, value in vars(usage).items()}
    data["request_usage_entries"] = [
        {name: plain(value) for name, value in vars(entry).items()}
        for entry in usage.request_usage_entries
    ]
    return data


def deserialize_usage(usage_data: Mapping[str, Any]) -> Usage:
    """The inverse of `serialize_usage`."""
    entries = [
        RequestUsage(
            input_tokens=entry.get("input_tokens", 0),
            output_tokens=entry.get("output_tokens", 0),
            total_tokens=entry.get("total_tokens", 0),
            input_tokens_details=_read_input(entry.get("input_tokens_details")),
            output_tokens_details=_read_output(entry.get("output_tokens_details")),
        )
        for entry in usage_data.get("request_usage_entries") or ()
    ]
    return Usage(
        requests=usage_data.get("requests", 0),
        input_tokens=usage_data.get("input_tokens", 0),
        input_tokens_details=_read_input(usage_data.get("input_tokens_details")),
        output_tokens=usage_data.get("output_tokens", 0),
        output_tokens_details=_read_output(usage_data.get("output_tokens_details")),
        total_tokens=usage_data.get("total_tokens", 0),
        request_usage_entries=entries,
    )


__getattr__ = placeholders(__name__)
