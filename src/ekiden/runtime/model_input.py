"""The filter that may change what a model is given, and what keeps its result valid."""

from __future__ import annotations

from collections.abc import Sequence

from ekiden.core.errors import UserError
from ekiden.core.items import Item, to_items
from ekiden.handoff.selection import paired
from ekiden.runtime.calls import settled
from ekiden.runtime.config import CallModelData, ModelInputData
from ekiden.runtime.state import RunState
from ekiden.runtime.user_errors import warn


async def filtered_input(
    run: RunState, instructions: str | None, items: Sequence[Item]
) -> ModelInputData:
    """What the run's `call_model_input_filter` makes of the input; `UserError` for a bad result.

    An exception of the filter goes on with a note that says where it came from.
    """
    apply = run.config.call_model_input_filter
    assert apply is not None
    data = ModelInputData(input=list(items), instructions=instructions)
    try:
        changed = await settled(
            apply(CallModelData(model_data=data, agent=run.agent, context=run.context.context))
        )
    except Exception as exc:
        exc.add_note("raised by call_model_input_filter")
        raise
    if not isinstance(changed, ModelInputData):
        raise UserError(
            f"call_model_input_filter must return ModelInputData, not {type(changed).__name__}"
        )
    left, notes = paired(without_duplicates(to_items(changed.input)))
    for note in notes:
        warn(run, "call_model_input_filter", note)
    return ModelInputData(input=left, instructions=changed.instructions)


def without_duplicates(items: list[Item]) -> list[Item]:
    """Each call, output and reasoning once, with its latest content, a call before its output.

    A repeated call or reasoning keeps its first place; a repeated output keeps its last.
    """
    kept: list[Item | None] = []
    first_at: dict[tuple[str, str], int] = {}
    for item in items:
        key = _identity(item)
        if key is None:
            kept.append(item)
            continue
        seen = first_at.get(key)
        if seen is None:
            first_at[key] = len(kept)
            kept.append(item)
        elif key[0].endswith("_output"):
            kept[seen] = None
            first_at[key] = len(kept)
            kept.append(item)
        else:
            kept[seen] = item
    return [item for item in kept if item is not None]


def _identity(item: Item) -> tuple[str, str] | None:
    kind = item.get("type")
    if kind in ("function_call", "function_call_output"):
        return (kind, str(item.get("call_id")))
    if kind == "reasoning" and item.get("id"):
        return (kind, str(item["id"]))
    return None
