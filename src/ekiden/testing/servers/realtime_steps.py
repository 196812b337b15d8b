"""The steps of a script for the realtime server."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TypeAlias

from ekiden.core.errors import UserError
from ekiden.testing.servers.openai import Cut, Garbled
from ekiden.testing.steps import Crash, Delayed, Failure, Step, StepLike, Streamed, to_step


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """The person says this, as soon as audio comes."""

    transcript: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Complaint:
    """Answer a request for a response with an error instead."""

    message: str
    code: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedTurn:
    """Begin a response, and fail."""

    message: str


RealtimeStep: TypeAlias = StepLike | Heard | Complaint | FailedTurn | Cut | Garbled
ServerStep: TypeAlias = Step | Heard | Complaint | FailedTurn | Cut | Garbled


def heard(transcript: str) -> Heard:
    """The person said `transcript`: played when audio comes, or when it is committed."""
    return Heard(transcript=transcript)


def complain(message: str, *, code: str = "server_error") -> Complaint:
    """The server refuses to answer this one request."""
    return Complaint(message=message, code=code)


def fail_turn(message: str) -> FailedTurn:
    """The model's answer fails after it began."""
    return FailedTurn(message=message)


async def pause(step: Delayed) -> None:
    """Wait as the step says."""
    if isinstance(step.until, asyncio.Event):
        await step.until.wait()
    elif step.clock is not None:
        await step.clock.sleep(step.until)
    else:
        await asyncio.sleep(step.until)


def server_step(step: RealtimeStep) -> ServerStep:
    """`step` as the server plays it; `UserError` for one that only a model can."""
    made: ServerStep
    if isinstance(step, Heard | Complaint | FailedTurn | Cut | Garbled):
        made = step
    else:
        made = to_step(step)
    inner = made
    while isinstance(inner, Delayed | Streamed):
        inner = inner.step
    if isinstance(inner, Failure | Crash):
        raise UserError(f"a server cannot play {inner}: use complain(), fail_turn() or cut()")
    return made
