"""Reading the JSON that a model gave as arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from ekiden.core.errors import ModelBehaviorError

if TYPE_CHECKING:
    from pydantic import TypeAdapter, ValidationError

T = TypeVar("T")


def validate_json(
    json_str: str, type_adapter: TypeAdapter[T], partial: bool = False, strict: bool | None = None
) -> T:
    """`json_str` as the adapter's type; `partial` takes JSON that is cut off.

    With `strict` nothing is converted, so ``"25"`` is no number. Raises `ModelBehaviorError` with
    a message that the model can correct itself by: every place and what is wrong there.
    """
    from pydantic import ValidationError

    try:
        return type_adapter.validate_json(
            json_str,
            strict=strict,
            experimental_allow_partial="trailing-strings" if partial else False,
        )
    except ValidationError as exc:
        raise ModelBehaviorError(f"Invalid JSON: {_problems(exc)}") from exc


def _problems(error: ValidationError) -> str:
    """Each problem as ``place: what``; the values themselves are left out."""
    found: list[Any] = error.errors(include_url=False, include_context=False, include_input=False)
    return "; ".join(
        f"{'.'.join(str(part) for part in one['loc']) or 'arguments'}: {one['msg']}"
        for one in found
    )
