"""A model that answers from a script."""

from __future__ import annotations

from collections.abc import AsyncIterator

from ekiden.core.conversation.model import ModelEvent, ModelRequest, ModelResponse
from ekiden.testing import ScriptedModel as _ScriptedModel

__all__ = ["ScriptedModel"]


class ScriptedModel(_ScriptedModel):
    """Ekiden's, which tests of this SDK can also change where its models are asked."""

    async def respond(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Through `stream_response` where somebody looks on, else through `get_response`."""
        if request.stream:
            async for event in self.stream_response(request):
                yield event
        else:
            yield await self.get_response(request)

    async def get_response(self, request: ModelRequest) -> ModelResponse:
        """The answer as a whole."""
        answers = [each async for each in super().respond(request)]
        [response] = [each for each in answers if isinstance(each, ModelResponse)]
        return response

    async def stream_response(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """The answer piece by piece, and then as a whole."""
        async for event in super().respond(request):
            yield event
