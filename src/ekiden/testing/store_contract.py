"""The contract of a store: tests of the rules in `ekiden.storage.base`, which the test class of a
back end inherits.

    class TestMyStore(StoreContract):
        @pytest.fixture
        async def store(self, tmp_path):
            async with MyStore(tmp_path / "db") as store:
                yield store

        async def advance_clock(self, store, seconds):
            store.clock.advance(seconds)

Also override `other` if two handles can share a database. The tests need pytest-asyncio in auto
mode and never sleep.
"""

from __future__ import annotations

from ekiden.testing.contracts.batches import BatchContract, ClockContract, OpeningContract
from ekiden.testing.contracts.documents import DocumentContract, JsonContract
from ekiden.testing.contracts.feed import FeedContract, FoundEventContract, FreeEventContract
from ekiden.testing.contracts.journal import (
    CommitContract,
    EventContract,
    FencingContract,
    StepContract,
)
from ekiden.testing.contracts.leases import (
    ChangeContract,
    ClaimContract,
    ClaimNextContract,
    ReleaseContract,
)
from ekiden.testing.contracts.messages import FindMessageContract, RequeueContract, SettleContract
from ekiden.testing.contracts.queues import ExpiryContract, KeyContract, PutContract, TakeContract
from ekiden.testing.contracts.search import EntryContract, WordContract
from ekiden.testing.contracts.search_vectors import SpaceContract, VectorContract
from ekiden.testing.contracts.sessions import (
    DeleteContract,
    LifeContract,
    ListContract,
    SessionContract,
)
from ekiden.testing.contracts.wake_ups import PriorityContract, WakeContract


class StoreContract(
    LifeContract,
    SessionContract,
    ListContract,
    DeleteContract,
    ClaimContract,
    ReleaseContract,
    ClaimNextContract,
    PriorityContract,
    ChangeContract,
    CommitContract,
    FencingContract,
    EventContract,
    FoundEventContract,
    StepContract,
    JsonContract,
    DocumentContract,
    PutContract,
    TakeContract,
    KeyContract,
    SettleContract,
    ExpiryContract,
    FindMessageContract,
    RequeueContract,
    WakeContract,
    BatchContract,
    OpeningContract,
    FreeEventContract,
    FeedContract,
    ClockContract,
    EntryContract,
    WordContract,
    VectorContract,
    SpaceContract,
):
    """All rules of a `Store`. A back end is correct if all tests pass."""
