"""Runs a local model: llama.cpp's server in this process, the thread of the server, and one
generation."""

from __future__ import annotations

import asyncio
import atexit
import ctypes
import queue
import secrets
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from ekiden.core.conversation.model import Usage
from ekiden.core.errors import EkidenError, ModelError, ModelTimeout, UserError
from ekiden.models.local.gguf import GgufInfo, check_gguf
from ekiden.models.local.settings import LocalEngineSettings, free_cores

BATCH = 64
"""The number of prompt tokens that are evaluated at once. The number is small, so that a cancelled
request stops soon."""
_CACHE_MIB = 512
"""Memory for the prompts of other conversations, in MiB."""
_SILENT = -1
_CLOSE_S = 10.0

Chunk: TypeAlias = dict[str, Any]

_LARGEST_SIGACTION = 512
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def signals_kept() -> Iterator[None]:
    """Restore the handlers of SIGINT and SIGTERM, which the library replaces in C.

    `signal.signal` cannot restore them, because it works only in the main thread, and Python does
    not notice that the handlers were replaced.
    """
    if sys.platform == "win32":
        yield
        return
    libc = ctypes.CDLL(None)
    saved = [(number, ctypes.create_string_buffer(_LARGEST_SIGACTION)) for number in _SIGNALS]
    for number, buffer in saved:
        libc.sigaction(int(number), None, buffer)
    try:
        yield
    finally:
        for number, buffer in saved:
            libc.sigaction(int(number), buffer, None)


@contextmanager
def private_address() -> Iterator[tuple[str, str]]:
    """An address and a key for the library's HTTP server, which keep the server unreachable from
    outside.

    The library always starts this server. On Unix the server gets a socket in a private folder,
    which is deleted as soon as the server has started. On Windows the server gets a port of the
    loopback interface.
    """
    key = secrets.token_urlsafe(24)
    if sys.platform == "win32":
        yield "127.0.0.1", key
        return
    folder = Path(tempfile.mkdtemp(prefix="ekiden-"))
    try:
        yield str(folder / "llama.sock"), key
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class _Server(Protocol):
    """The part of `xllamacpp.Server` that is used here."""

    def handle_chat_completions(
        self, body: Chunk, callback: Callable[[Chunk], bool], /
    ) -> object: ...

    def handle_completions(self, body: Chunk, callback: Callable[[Chunk], bool], /) -> object: ...


@dataclass(slots=True)
class LocalRequest:
    """One request to the model. Its functions are called in the engine's thread."""

    body: Chunk
    """The request: a conversation in ``messages``, or a text to continue in ``prompt``."""
    on_chunk: Callable[[Chunk], None]
    on_end: Callable[[BaseException | None], None]
    """Called once, with the exception if the request failed."""
    stopped: threading.Event = field(default_factory=threading.Event)
    """Set this event to stop the request. The engine stops at the next token or piece of the
    prompt."""


class Engine:
    """A model in memory. It answers one request after the other, in order of arrival.

    The first request loads the model, in the engine's own thread. If the file cannot be loaded,
    every request fails with a `UserError`.
    """

    def __init__(self, path: Path, settings: LocalEngineSettings) -> None:
        self.path, self.settings = path, settings
        self._info: GgufInfo | None = None
        self._info_lock = threading.Lock()
        self._jobs: queue.Queue[LocalRequest | None] = queue.Queue(settings.max_waiting)
        self._current: LocalRequest | None = None
        self._closed = threading.Event()
        self._start_lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def inspect(self) -> GgufInfo:
        """Check the file, and return facts about it. The call blocks while the file is read."""
        with self._info_lock:
            if self._info is None:
                self._info = check_gguf(self.path)
            return self._info

    def submit(self, job: LocalRequest) -> None:
        """Put `job` into the queue. Raises `ModelError` if the queue is full."""
        with self._start_lock:
            if self._closed.is_set():
                raise ModelError(f"local:{self.path.name} was closed")
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._work, name=f"ekiden-local-{self.path.stem}", daemon=True
                )
                self._thread.start()
        try:
            self._jobs.put_nowait(job)
        except queue.Full as exc:
            raise ModelError(
                f"{self.settings.max_waiting} requests wait for local:{self.path.name} already; "
                "try again later"
            ) from exc

    def close(self) -> None:
        """Stop the generation, end the thread and free the memory. The call blocks until this is
        done."""
        with self._start_lock:
            self._closed.set()
            thread = self._thread
        current = self._current
        if current is not None:
            current.stopped.set()
        while thread is not None and thread.is_alive():
            try:
                self._jobs.put(None, timeout=0.1)
            except queue.Full:
                continue
            thread.join(_CLOSE_S)
            return

    def _work(self) -> None:
        server: _Server | None = None
        while (job := self._jobs.get()) is not None:
            self._current = job
            failure: BaseException | None = None
            try:
                if self._closed.is_set():
                    failure = ModelError(f"local:{self.path.name} was closed")
                elif not job.stopped.is_set():
                    server = server or self._load()
                    self._run(server, job)
            except BaseException as exc:
                failure = exc
            self._current = None
            job.on_end(failure)
            # While the thread waits, the name would keep the request and its callbacks alive.
            del job

    def _load(self) -> _Server:
        trained = self.inspect().context_length
        n_ctx = min(self.settings.n_ctx, trained or self.settings.n_ctx)
        with signals_kept(), private_address() as (address, key):
            return _start(self.path, n_ctx, self.settings, address=address, key=key)

    def _run(self, server: _Server, job: LocalRequest) -> None:
        def pass_on(chunk: Chunk) -> bool:
            if not job.stopped.is_set():
                job.on_chunk(chunk)
            return job.stopped.is_set()

        body = {**job.body, "stream": True, "return_progress": True}
        if "prompt" in body:
            server.handle_completions(body, pass_on)
        else:
            server.handle_chat_completions(body, pass_on)


def _start(
    path: Path, n_ctx: int, settings: LocalEngineSettings, *, address: str, key: str
) -> _Server:
    try:
        xllamacpp: Any = import_module("xllamacpp")
    except ImportError as exc:
        raise UserError(
            f"local:{path.name} needs xllamacpp ({exc}): pip install 'ekiden[local]'"
        ) from exc
    params = xllamacpp.CommonParams()
    params.model.path = str(path)
    params.n_ctx = n_ctx
    params.n_parallel = 1
    params.n_batch = params.n_ubatch = BATCH
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = settings.threads or free_cores()
    params.cache_ram_mib = _CACHE_MIB
    params.warmup = params.fit_params = params.ui = params.endpoint_slots = False
    params.force_pure_content_parser = True
    params.verbosity = _SILENT
    params.n_threads_http = 1
    params.hostnames, params.api_keys = [address], [key]
    try:
        server: _Server = xllamacpp.Server(params)
    except (RuntimeError, ValueError) as exc:
        raise UserError(
            f"{path} cannot be loaded by this version of xllamacpp: it may be of a kind that is "
            "not supported, or need more memory than there is"
        ) from exc
    return server


_engines: dict[tuple[Path, LocalEngineSettings], Engine] = {}
_engines_lock = threading.Lock()


def shared_engine(path: Path, settings: LocalEngineSettings) -> Engine:
    """The engine of this process for a file and settings. A new engine has not loaded the model
    yet."""
    key = (path.resolve(), settings)
    with _engines_lock:
        engine = _engines.get(key)
        if engine is None:
            engine = _engines[key] = Engine(*key)
        return engine


def close_engines() -> None:
    """Unload every local model of this process. The next request loads its model again."""
    with _engines_lock:
        engines = list(_engines.values())
        _engines.clear()
    for engine in engines:
        engine.close()


atexit.register(close_engines)

_TOO_LONG = "exceed_context_size_error"


class Generation:
    """The text that a model is writing. `finish_reason` and `usage` are known at the end.

    `ModelTimeout` is raised if the text is not complete `timeout_s` seconds after `started`, a time
    on the clock of the running event loop.
    """

    def __init__(
        self, engine: Engine, body: Chunk, *, label: str, started: float, timeout_s: float | None
    ) -> None:
        self._engine, self._body, self._label = engine, body, label
        self._started, self._timeout_s = started, timeout_s
        self.text = ""
        self.reasoning = ""
        self.finish_reason: str | None = None
        self.usage = Usage()
        self.first_alternatives: dict[str, float] = {}
        """The alternatives of the first token, with their log-probabilities."""

    async def pieces(self) -> AsyncGenerator[tuple[str, str]]:
        """Yield the pieces of the text as the model writes them, each with its kind: ``text`` or
        ``reasoning``.

        Closing the generator stops the model after the current token or the current batch of the
        prompt.
        """
        loop = asyncio.get_running_loop()
        arrived: asyncio.Queue[Chunk | None] = asyncio.Queue()
        failures: list[BaseException] = []

        def put(chunk: Chunk | None) -> None:
            try:
                loop.call_soon_threadsafe(arrived.put_nowait, chunk)
            except RuntimeError:
                job.stopped.set()  # The loop is closed, so nothing reads the text.

        def end(failure: BaseException | None) -> None:
            if failure is not None:
                failures.append(failure)
            put(None)

        job = LocalRequest(self._body, on_chunk=put, on_end=end)
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
        """The complete text."""
        async for _ in self.pieces():
            pass
        return self.text

    async def _next(self, arrived: asyncio.Queue[Chunk | None]) -> Chunk | None:
        if self._timeout_s is None:
            return await arrived.get()
        try:
            async with asyncio.timeout_at(self._started + self._timeout_s):
                return await arrived.get()
        except TimeoutError as exc:
            raise ModelTimeout(self._label, self._timeout_s) from exc

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
