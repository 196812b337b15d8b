"""Defines `ProcessAgent` and `HttpAgent`, with which a team calls agents in other processes, and
the lines of JSON that both processes exchange."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from ekiden.core.checks.addresses import tls_context
from ekiden.core.conversation.model import Usage
from ekiden.core.errors import UserError
from ekiden.core.errors.integrations import FrameworkMissing
from ekiden.core.integrations.foreign_agents import (
    CheckpointDelta,
    Durability,
    ForeignTurn,
    PersonAnswer,
    TurnAnswer,
    TurnCheckpoint,
    TurnDelta,
    TurnHandoff,
    TurnLink,
    TurnPart,
    TurnQuestion,
    TurnToolCall,
    TurnToolResult,
    TurnUsage,
)
from ekiden.core.values import dumps, loads

LONGEST = 1 << 26
"""The maximum length of a line, in bytes. It is high because checkpoints may be large."""
_PARTS: Mapping[str, type[Any]] = {
    "answer": TurnAnswer,
    "checkpoint": TurnCheckpoint,
    "delta": TurnDelta,
    "handoff": TurnHandoff,
    "question": TurnQuestion,
    "tool_call": TurnToolCall,
    "tool_result": TurnToolResult,
    "usage": TurnUsage,
}
_DELTA = "checkpoint.added"
"""The only key of the object for a `CheckpointDelta`."""
_NAMES = {part: name for name, part in _PARTS.items()}
_TURN_FIELDS = [each.name for each in fields(ForeignTurn) if each.name not in ("link", "handed")]


def turn_to_json(turn: ForeignTurn) -> dict[str, Any]:
    """The line that starts a turn."""
    values = {name: getattr(turn, name) for name in _TURN_FIELDS}
    values["items"] = list(turn.items)
    values["answers"] = {name: asdict(each) for name, each in turn.answers.items()}
    values["messages"] = turn.messages()
    return {"type": "turn", **values}


def turn_from_json(data: Mapping[str, Any], link: TurnLink) -> ForeignTurn:
    """Read a turn from the result of `turn_to_json`."""
    values = {name: data[name] for name in _TURN_FIELDS}
    values["answers"] = {name: PersonAnswer(**each) for name, each in values["answers"].items()}
    return ForeignTurn(**values, link=link)


def part_to_json(part: TurnPart) -> dict[str, Any]:
    """The line with one part of an agent's answer to a turn."""
    values = {each.name: getattr(part, each.name) for each in fields(part)}
    for name, value in values.items():
        if isinstance(value, CheckpointDelta):
            values[name] = {_DELTA: value.added}
    if isinstance(part, TurnUsage):
        values = {**part.usage.to_json(), "model": part.model}
    return {"type": _NAMES[type(part)], **values}


def part_from_json(data: Any) -> TurnPart:
    """Parse the part in a line. Raises `RuntimeError` for a line that is not a part."""
    kind = _PARTS.get(str(data.get("type"))) if isinstance(data, dict) else None
    if kind is None:
        raise RuntimeError(
            f"not a line of a turn: {data!r:.200}; types: {', '.join(sorted(_PARTS))}"
        )
    values = {name: value for name, value in data.items() if name != "type"}
    for name in ("checkpoint", "data"):
        if isinstance(values.get(name), dict) and _DELTA in values[name]:
            values[name] = CheckpointDelta(values[name][_DELTA])
    try:
        if kind is TurnUsage:
            model = values.pop("model", None)
            return TurnUsage(usage=Usage.from_json(values), model=model)
        if kind is TurnQuestion:
            values["options"] = tuple(values.get("options", ()))
        part: TurnPart = kind(**values)
    except (TypeError, ValueError) as exc:
        raise RuntimeError(f"the line of type {data['type']!r} cannot be read: {exc}") from exc
    return part


_MOST_IDLE = 4
_STDERR_LINES = 20
_GRACE_S = 5.0


@dataclass(slots=True, eq=False)
class _Started:
    """A running process, with the last lines of its standard error."""

    process: asyncio.subprocess.Process
    loop: asyncio.AbstractEventLoop
    stderr: deque[str] = field(default_factory=lambda: deque(maxlen=_STDERR_LINES))
    stderr_task: asyncio.Task[None] | None = None

    async def read_stderr(self) -> None:
        assert self.process.stderr is not None
        while line := await self.process.stderr.readline():
            self.stderr.append(line.decode(errors="replace").rstrip())

    async def write(self, line: Mapping[str, Any]) -> None:
        assert self.process.stdin is not None
        with suppress(ConnectionError):  # `read` reports the end of the process.
            self.process.stdin.write(f"{dumps(line)}\n".encode())
            await self.process.stdin.drain()

    async def read(self) -> Any:
        """The next line. Raises `RuntimeError` if the process ended, or the line is not JSON."""
        assert self.process.stdout is not None
        line = await self.process.stdout.readline()
        if not line:
            code = await self.process.wait()
            if self.stderr_task is not None:
                await self.stderr_task
            stderr = "\n".join(self.stderr)
            raise RuntimeError(
                f"the process ended with code {code} before its answer\n{stderr}".strip()
            )
        try:
            return loads(line)
        except ValueError:
            raise RuntimeError(
                f"the process wrote a line that is not JSON: {line!r:.200}"
            ) from None

    async def stop(self) -> None:
        """Close its input, and kill it if it does not end within `_GRACE_S`."""
        if self.process.stdin is not None:
            self.process.stdin.close()
        try:
            async with asyncio.timeout(_GRACE_S):
                await self.process.wait()
        except TimeoutError:
            with suppress(ProcessLookupError):
                self.process.kill()
            await self.process.wait()
        if self.stderr_task is not None:
            await self.stderr_task


class ProcessAgent:
    """An agent in another process. The process reads each turn as a line of JSON, and writes the
    parts of the turn as lines of JSON.

    For example, a graph of a framework with its own environment::

        ProcessAgent.of("crew:flow", python="crew-env/bin/python", durability="method")
    """

    framework = "process"

    def __init__(
        self,
        command: Sequence[str],
        *,
        cwd: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
        durability: Durability = "turn",
        stays: bool = False,
    ) -> None:
        """`env` is added to the environment of the process. With `stays`, a process takes one turn
        after another until its input is closed. Otherwise the process ends after each turn."""
        if isinstance(command, str) or not command:
            raise UserError("`command` must be a list: the program and its arguments")
        self.durability: Durability = durability
        self._command, self._cwd, self._env = [*map(str, command)], cwd, env
        self._stays = stays
        self._idle: list[_Started] = []

    @classmethod
    def of(
        cls, target: str, *, python: str, durability: Durability = "turn", **options: Any
    ) -> ProcessAgent:
        """Create an agent that is defined as ``module:name`` in another Python environment.
        `python` is the path of the interpreter of that environment. Ekiden must be installed
        there."""
        command = [python, "-m", "ekiden.integrations.process.serve", target]
        return cls(command, durability=durability, stays=True, **options)

    async def take_turn(self, turn: ForeignTurn) -> AsyncGenerator[TurnPart, None]:
        """See `ForeignAdapter.take_turn`."""
        # The runtime turns a `RuntimeError` of the other process into a ForeignAgentError.
        started = await self._start()
        is_over = False
        steps: set[asyncio.Task[None]] = set()
        results: dict[Any, asyncio.Future[Any]] = {}
        try:
            await started.write(turn_to_json(turn))
            while not is_over:
                line = await started.read()
                match line.get("type") if isinstance(line, dict) else None:
                    case "step":
                        result = results[line["id"]] = asyncio.get_running_loop().create_future()
                        steps.add(asyncio.create_task(_step(turn, started, line, result)))
                    case "did":
                        results.pop(line["id"]).set_result(line)
                    case "failed":
                        raise RuntimeError(str(line.get("error"))[:2000])
                    case "end":  # The turn ends with questions, which were sent before.
                        is_over = True
                    case kind:
                        part = part_from_json(line)
                        is_over = kind in ("answer", "handoff")
                        # Before the `yield`: the caller may not resume this generator.
                        if is_over and self._stays:
                            self._idle.append(started)
                        yield part
                        if isinstance(part, TurnCheckpoint):
                            await started.write({"type": "stored"})
            if self._stays and started not in self._idle:
                self._idle.append(started)
        finally:
            for step in steps:
                step.cancel()
            await asyncio.gather(*steps, return_exceptions=True)
            if started not in self._idle or len(self._idle) > _MOST_IDLE:
                with suppress(ValueError):
                    self._idle.remove(started)
                if not is_over:
                    with suppress(ProcessLookupError):
                        started.process.kill()
                await started.stop()

    async def aclose(self) -> None:
        """Stop the idle processes."""
        while self._idle:
            await self._idle.pop().stop()

    async def _start(self) -> _Started:
        loop = asyncio.get_running_loop()
        while self._idle:
            idle = self._idle.pop()
            # A process belongs to the event loop that started it.
            if idle.loop is loop and idle.process.returncode is None:
                return idle
        try:
            process = await asyncio.create_subprocess_exec(
                *self._command,
                cwd=self._cwd,
                env={**os.environ, **(self._env or {})},
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                limit=LONGEST,
            )
        except OSError as exc:
            raise FrameworkMissing("process", exc, f"check `{self._command[0]}`") from exc
        started = _Started(process, loop)
        started.stderr_task = asyncio.create_task(started.read_stderr())
        return started


async def _step(
    turn: ForeignTurn, started: _Started, line: Mapping[str, Any], result: asyncio.Future[Any]
) -> None:
    """Have the process execute a step whose result is not stored yet, and store its result."""

    async def do(key: str) -> Any:
        await started.write({"type": "do", "id": line["id"], "key": key})
        done = await result
        if "error" in done:
            raise RuntimeError(str(done["error"]))
        return done.get("result")

    reply: dict[str, Any] = {"type": "step", "id": line["id"]}
    try:
        reply["result"] = await turn.step(
            str(line["name"]),
            line.get("args"),
            do,
            scope=str(line.get("scope", "")),
            is_tool=bool(line.get("is_tool", True)),
        )
    except RuntimeError as exc:
        reply["error"] = str(exc)
    await started.write(reply)


class HttpAgent:
    """An agent on an HTTP server: Ekiden posts each turn, and the server returns the parts of the
    turn as lines of JSON.

    A checkpoint is stored when its line arrives. An agent that needs `ForeignTurn.step` must be a
    `ProcessAgent`, because `step` does not work over HTTP. For example::

        foreign_agent(HttpAgent("https://agents.example/billing"), "billing")
    """

    framework = "http"
    durability: Durability = "turn"

    def __init__(
        self, url: str, *, headers: Mapping[str, str] | None = None, timeout_s: float = 600.0
    ) -> None:
        if not isinstance(url, str) or not url.startswith(("http://", "https://")):
            raise UserError(f"`url` must begin with http:// or https://, not {url!r:.80}")
        self._url, self._headers, self._timeout_s = url, dict(headers or {}), timeout_s

    async def take_turn(self, turn: ForeignTurn) -> AsyncGenerator[TurnPart, None]:
        """See `ForeignAdapter.take_turn`."""
        try:
            import httpx2
        except ImportError as exc:
            raise FrameworkMissing("http", exc, "pip install 'ekiden[client]'") from exc
        headers = {**self._headers, "idempotency-key": turn.key}
        if turn.traceparent:
            headers["traceparent"] = turn.traceparent
        async with (
            httpx2.AsyncClient(
                timeout=self._timeout_s,
                trust_env=False,
                verify=tls_context(self._url, httpx2.create_ssl_context),
            ) as client,
            client.stream("POST", self._url, json=turn_to_json(turn), headers=headers) as response,
        ):
            if response.status_code >= 400:
                text = (await response.aread()).decode(errors="replace")[:500]
                raise RuntimeError(f"{self._url} answered {response.status_code}: {text}")
            async for line in response.aiter_lines():
                if line.strip():
                    yield part_from_json(loads(line))
