"""A run whose embedding comes from a vendor that is away: it goes on, and nothing is lost."""

from __future__ import annotations

import pytest

from ekiden import Agent, Runner, Session
from ekiden.core.profile import MemorySettings
from ekiden.embeddings.vendors import OpenAIEmbedder
from ekiden.memory import Memory
from ekiden.runtime import RunConfig
from ekiden.storage.memory import MemoryStore
from ekiden.testing import ScriptedModel, call, say
from tests.support.embedding_servers import OpenAIEmbeddings
from tests.support.vendor import DROP, HANG, Trouble, status

pytest.importorskip("openai")

VECTOR = MemorySettings(type="vector")


@pytest.mark.parametrize(
    "trouble", [HANG, DROP, status(429, retry_after="30"), status(401)], ids=str
)
async def test_memories_stored_during_an_outage_are_found_by_words_then_by_meaning(
    trouble: Trouble,
) -> None:
    async with OpenAIEmbeddings(dimensions=1536) as server, MemoryStore() as store:
        embedder = OpenAIEmbedder(
            base_url=server.base_url, api_key="sk-test", timeout_s=0.2, retries=0, rest_s=60.0
        )
        server.away = trouble
        steps = [
            *(call("remember", key=f"k{n}", content=f"The colour is blue {n}.") for n in range(5)),
            call("recall", query="colour blue"),
            say("done"),
        ]
        result = await Runner.run(
            Agent("desk", model=ScriptedModel(steps), memory=VECTOR),
            "hello",
            session=Session(store=store, user_id="ada"),
            run_config=RunConfig(app="desk", embedder=embedder),
        )
        assert result.final_output == "done"
        assert len(server.requests) == 1
        server.away = None
        back = OpenAIEmbedder(base_url=server.base_url, api_key="sk-test")
        memory = Memory(store, user="ada", app="desk", settings=VECTOR, embedder=back)
        assert len(await memory.retrieve("colour blue", top_k=10)) == 5
        assert sum(len(body["input"]) for body in server.bodies) == 6
