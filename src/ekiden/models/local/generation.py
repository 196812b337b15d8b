"""One answer of an engine, seen from an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from ekiden.core.conversation.model import Usage
from ekiden.core.errors import EkidenError, ModelError, ModelTimeout
from ekiden.models.local.engine import Chunk, Engine, Job

_TOO_LONG = "exceed_context_size_error"


class Generation:
    """Text that a model is writing; the facts about it are known at the end.

    `deadline` is a time of the running loop's clock, after which `ModelTimeout` is raised.
    """

    def __init__(self, engine: Engine, body: Chunk, *, label: str, deadline: float | None) -> None:
        self._engine, self._body, self._label = engine, body, label
        self._deadline = deadline
        self.text = ""
        self.reasoning = ""
        self.finish_reason: str | None = None
        self.usage = Usage()
        self.first_alternatives: dict[str, float] = {}
        """Of the first token: what else it could have been, with its log-probability."""

    async def pieces(self) -> AsyncGenerator[tuple[str, str]]:
        """``text`` or ``reasoning`` with each piece of it, as it comes.

        Closing the generator stops the model within a token, or one batch of the prompt.
        """
        loop = asyncio.get_running_loop()
        arrived: asyncio.Queue[Chunk | None] = asyncio.Queue()
        failures: list[BaseException] = []

        def put(chunk: Chunk | None) -> None:
            try:
                loop.call_soon_threadsafe(arrived.put_nowait, chunk)
            except RuntimeError:
                job.stopped.set()  # The loop was closed: nobody reads any more.

        def end(failure: BaseException | None) -> None:
            if failure is not None:
                failures.append(failure)
            put(None)

        job = Job(self._body, on_chunk=put, on_end=end)
        self._engine.submit(job)
        try:
            while (chunk := await self._next(arrived)) is not None:
                for kind, piece in self._taken(chunk):
                    yield kind, piece
        finally:
            job.stopped.set()
        if failures:
            raise self._translated(failures[0])

    async def complete(self) -> str:
        """The whole text."""
        async for _ in self.pieces():
            pass
        return self.text

    async def _next(self, arrived: asyncio.Queue[Chunk | None]) -> Chunk | None:
        if self._deadline is None:
            return await arrived.get()
        started = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout_at(self._deadline):
                return await arrived.get()
        except TimeoutError as exc:
            raise ModelTimeout(self._label, max(self._deadline - started, 0.0)) from exc

    def _taken(self, chunk: Chunk) -> list[tuple[str, str]]:
        if "error" in chunk:
            raise self._refused(chunk["error"])
        if "usage" in chunk:
            self.usage = _usage(chunk["usage"])
        pieces = []
        for choice in chunk.get("choices") or ():
            self.finish_reason = choice.get("finish_reason") or self.finish_reason
            delta = choice.get("delta") or {}
            if thought := delta.get("reasoning_content"):
                self.reasoning += thought
                pieces.append(("reasoning", thought))
            if piece := delta.get("content") or choice.get("text"):
                if not self.text:
                    self.first_alternatives = _alternatives(choice.get("logprobs"))
                self.text += piece
                pieces.append(("text", piece))
        return pieces

    def _refused(self, error: Any) -> ModelError:
        facts = error if isinstance(error, dict) else {"message": str(error)}
        if facts.get("type") == _TOO_LONG:
            return ModelError(
                f"{self._label} is asked with {facts.get('n_prompt_tokens')} tokens and holds "
                f"{facts.get('n_ctx')}: shorten the conversation or the instructions, or set "
                "EKIDEN_LOCAL_CTX higher"
            )
        return ModelError(f"{self._label} failed: {facts.get('message')}")

    def _translated(self, failure: BaseException) -> BaseException:
        if isinstance(failure, EkidenError):
            return failure
        error = ModelError(f"{self._label} failed: {failure}")
        error.__cause__ = failure
        return error


def _alternatives(logprobs: Any) -> dict[str, float]:
    content = (logprobs or {}).get("content") or []
    if not content:
        return {}
    return {each["token"]: each["logprob"] for each in content[0].get("top_logprobs") or ()}


def _usage(facts: dict[str, Any]) -> Usage:
    details = facts.get("prompt_tokens_details") or {}
    return Usage(
        requests=1,
        input_tokens=facts.get("prompt_tokens") or 0,
        output_tokens=facts.get("completion_tokens") or 0,
        total_tokens=facts.get("total_tokens") or 0,
        cached_tokens=details.get("cached_tokens") or 0,
    )
