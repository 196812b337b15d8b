"""Cutting text into sentences, so that speech begins before the answer is complete."""

from __future__ import annotations

import re
from collections.abc import Callable

_BOUNDARY = re.compile(r"[.!?]\s+(?=\S)")


def get_sentence_based_splitter(min_sentence_length: int = 20) -> Callable[[str], tuple[str, str]]:
    """A function that splits off complete sentences with at least this length in total."""

    def split(text_buffer: str) -> tuple[str, str]:
        ends = [found.end() for found in _BOUNDARY.finditer(text_buffer)]
        sentences = text_buffer[: ends[-1]].strip() if ends else ""
        if len(sentences) < min_sentence_length:
            return "", text_buffer
        return sentences, text_buffer[ends[-1] :]

    return split
