"""A person of the soak: ``python -m tests.faults.soak_person STORE NAME``.

Says yes to everything in the inbox, now and then after somebody else has. Until SIGTERM.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
from pathlib import Path

from ekiden.core.errors import StoreUnavailable
from ekiden.core.errors.messages import InboxItemClosed
from ekiden.core.questions import InboxItem
from ekiden.inbox import Inbox
from ekiden.project.stores import open_store
from tests.faults.family_life import CHOICES
from tests.faults.ledger import Ledger
from tests.faults.soak_team import FOLDER, pause_s

_MOST = 50
_REST_S = 0.2


async def main(url: str, name: str) -> None:
    """Answer until told to stop."""
    over = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, over.set)
    ledger = Ledger(Path(os.environ[FOLDER]))
    async with open_store(url) as store:
        inbox = Inbox(store)
        while not over.is_set():
            try:
                await _answer_all(inbox, name, ledger)
                await store.wait_for_change(_REST_S)
            except StoreUnavailable:
                await asyncio.sleep(_REST_S)


async def _answer_all(inbox: Inbox, name: str, ledger: Ledger) -> None:
    items = list((await inbox.list(limit=_MOST)).items)
    random.shuffle(items)
    for item in items:
        await asyncio.sleep(pause_s())
        await _answer(inbox, item, name, ledger)


async def _answer(inbox: Inbox, item: InboxItem, name: str, ledger: Ledger) -> None:
    try:
        await inbox.answer(item.id, choice=CHOICES[item.kind], by=name)
    except InboxItemClosed:
        ledger.note("too_late", item=item.id, by=name)
    else:
        ledger.note("answered", item=item.id, by=name)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
