"""The contract of an engine: the runtime's promises as tests, for any caller of `advance`.

    class TestMyEngine(QueueEngineContract):
        @pytest.fixture
        async def engine(self, store):
            engine = MyEngine(store)
            yield engine
            await engine.stop(drain=False)

`EngineUnderTest` says what `MyEngine` has to have. The tests need pytest-asyncio in auto mode; they
wait for facts, and never sleep.
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
    """Every behaviour that all engines share; an engine passes when all of it passes."""


class QueueEngineContract(EngineContract, LineContract):
    """The same, and what is promised where sessions wait in line for a free place."""
