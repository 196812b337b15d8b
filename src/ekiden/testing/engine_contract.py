"""The contract of an engine: the guarantees of the runtime, as tests that an engine inherits.

    class TestMyEngine(QueueEngineContract):
        @pytest.fixture
        async def engine(self, store):
            engine = MyEngine(store)
            yield engine
            await engine.stop(drain=False)

`EngineUnderTest` is the interface of `MyEngine`. The tests need pytest-asyncio in auto mode. They
wait for conditions and do not sleep.
"""

from __future__ import annotations

from ekiden.testing.engine_contracts.answers import (
    AnswerContract,
    AskingContract,
    ConcurrencyContract,
    PeopleContract,
    RelayContract,
)
from ekiden.testing.engine_contracts.base import (
    CONFIG as CONFIG,
    EngineUnderTest as EngineUnderTest,
)
from ekiden.testing.engine_contracts.shutdown import LineContract, StoppingContract


class EngineContract(
    AnswerContract,
    ConcurrencyContract,
    RelayContract,
    AskingContract,
    PeopleContract,
    StoppingContract,
):
    """All rules of an engine. An engine is correct if all tests pass."""


class QueueEngineContract(EngineContract, LineContract):
    """All rules of an engine with a limit of concurrent sessions, where sessions queue up."""
