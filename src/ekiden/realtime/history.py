"""The conversation of a live session, kept in the provider's order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ekiden.realtime.items import RealtimeItem


class History:
    """Items by id, each after the one that the provider says is before it."""

    def __init__(self) -> None:
        self._items: dict[str, RealtimeItem] = {}
        self._order: list[str] = []

    def all(self) -> Sequence[RealtimeItem]:
        """All items, oldest first."""
        return tuple(self._items[item_id] for item_id in self._order)

    def put(self, item: RealtimeItem) -> tuple[RealtimeItem, bool, bool]:
        """Keep `item`; gives it as it is kept now, whether it is new, and whether it changed.

        A text that is known is not lost when the provider tells of the item again without it, and
        an item that is over does not begin again.
        """
        known = self._items.get(item.item_id)
        if known is None:
            self._items[item.item_id] = item
            self._insert(item)
            return item, True, True
        kept = replace(
            item,
            text=item.text or known.text,
            status=known.status if item.status == "in_progress" else item.status,
            is_audio=item.is_audio or known.is_audio,
            previous_item_id=known.previous_item_id or item.previous_item_id,
        )
        self._items[item.item_id] = kept
        return kept, False, kept != known

    def set_text(self, item_id: str, text: str) -> tuple[RealtimeItem, bool]:
        """What a person said is known now; gives the item, and whether it is new."""
        known = self._items.get(item_id)
        if known is None:
            known = RealtimeItem(item_id=item_id, type="message", role="user", is_audio=True)
            item, is_new, _ = self.put(replace(known, text=text))
            return item, is_new
        item = self._items[item_id] = replace(known, text=text, status="completed")
        return item, False

    def remove(self, item_id: str) -> bool:
        """Forget an item; gives whether it was there."""
        if self._items.pop(item_id, None) is None:
            return False
        self._order.remove(item_id)
        return True

    def last_said(self) -> str:
        """The text of the last message of an agent; empty if there is none."""
        items = (self._items[item_id] for item_id in reversed(self._order))
        return next((item.text for item in items if item.role == "assistant"), "")

    def _insert(self, item: RealtimeItem) -> None:
        before = item.previous_item_id
        if before is None or before not in self._items or self._order[-1:] == [before]:
            self._order.append(item.item_id)
        else:
            self._order.insert(self._order.index(before) + 1, item.item_id)
