"""Guardrails: card numbers neither come in nor go out."""

from __future__ import annotations

import re
from typing import Any

_DIGITS = re.compile(r"(?<!\d)(?:\d[ -]?){15}\d(?!\d)")


def no_card_in_message(message: Any) -> tuple[bool, str]:
    """The customer must not send a card number. Checks a text, or the items of a conversation."""
    return _passes(str(message), "Please do not send card numbers.")


def no_card_in_answer(answer: str) -> tuple[bool, str]:
    """An answer must not show a card number."""
    return _passes(str(answer), "The answer shows a card number.")


def _passes(text: str, error: str) -> tuple[bool, str]:
    return not any(_is_card(found[0]) for found in _DIGITS.finditer(text)), error


def _is_card(text: str) -> bool:
    """Whether the check digit is right (Luhn's algorithm)."""
    digits = [int(each) for each in text if each.isdigit()]
    doubled = [sum(divmod(2 * each, 10)) for each in digits[-2::-2]]
    return (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0
