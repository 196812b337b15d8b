"""The usage that OpenAI's API reports."""

from __future__ import annotations

from typing import Any

from ekiden.compat.agents.usage import Usage


def usage_of(reported: Any) -> Usage:
    """The counts of one response; a response without any is one request."""
    if reported is None:
        return Usage(requests=1)
    return Usage(
        requests=1,
        input_tokens=reported.input_tokens or 0,
        output_tokens=reported.output_tokens or 0,
        total_tokens=reported.total_tokens or 0,
        input_tokens_details=reported.input_tokens_details,
        output_tokens_details=reported.output_tokens_details,
    )
