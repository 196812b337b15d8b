"""Members and models that the tests of this folder share."""

from __future__ import annotations

from ekiden.core.conversation.model import ModelRequest, ModelResponse
from ekiden.core.plan import AskModel, Member
from ekiden.testing import ScriptedModel

WEATHER = Member(
    name="weather",
    description="Tells the weather.",
    keywords=("weather", "rain", "天气", "天気"),
    capabilities=("forecasts: of the next week",),
    examples=("Is it warm in Kyoto?",),
)
FINANCE = Member(
    name="finance",
    description="Converts money.",
    keywords=("yen", "dollars", "日元", "美元", "円"),
    patterns=(r"\d+ ?(usd|eur)",),
)
TRAVEL = Member(name="travel", keywords=("hotel", "flight", "酒店", "ホテル"))
GENERAL = Member(name="general", description="Takes the rest.")
MEMBERS = (WEATHER, FINANCE, TRAVEL, GENERAL)


def asking(model: ScriptedModel) -> AskModel:
    """What asks `model`."""

    async def ask(request: ModelRequest) -> ModelResponse:
        [response] = [
            part async for part in model.respond(request) if isinstance(part, ModelResponse)
        ]
        return response

    return ask
