"""Processors and exporters: to the console, and to OpenAI's trace viewer."""

from __future__ import annotations

import atexit
import os
import queue
import threading
import time
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import httpx2

from ekiden.compat.agents.tracing.logger import logger
from ekiden.compat.agents.tracing.processor_interface import TracingExporter, TracingProcessor
from ekiden.compat.agents.tracing.spans import Span
from ekiden.compat.agents.tracing.traces import Trace

_OPENAI = "https://api.openai.com/"
_THOUGHTS = ("reasoning", "reasoning_content", "thinking", "thinking_blocks")
_THOUGHT_PARTS = ("thinking", "redacted_thinking", "reasoning")


def without_reasoning(data: dict[str, Any]) -> dict[str, Any]:
    """The data of a call of a model without what other providers' models thought."""
    if data.get("type") != "generation":
        return data
    shown = {key: _messages(data.get(key)) for key in ("input", "output")}
    return {**data, **shown}


def _messages(messages: Any) -> Any:
    if isinstance(messages, str | bytes) or not isinstance(messages, Sequence):
        return messages
    return [
        _unthought(dict(each)) if isinstance(each, Mapping) else each
        for each in messages
        if not (isinstance(each, Mapping) and each.get("type") == "reasoning")
    ]


def _unthought(message: dict[str, Any]) -> dict[str, Any]:
    if message.get("role") != "assistant":
        return message
    message = {key: value for key, value in message.items() if key not in _THOUGHTS}
    content = message.get("content")
    if isinstance(content, list):
        message["content"] = [
            part
            for part in content
            if not (isinstance(part, Mapping) and part.get("type") in _THOUGHT_PARTS)
        ]
    return message


class ConsoleSpanExporter(TracingExporter):
    """Prints."""

    def export(self, items: list[Trace | Span[Any]]) -> None:
        for item in items:
            if isinstance(item, Trace):
                print(f"[Exporter] Export trace_id={item.trace_id}, name={item.name}")
            else:
                print(f"[Exporter] Export span: {item.export()}")


class BackendSpanExporter(TracingExporter):
    """Sends to OpenAI; a request that fails for a passing reason is repeated."""

    def __init__(
        self,
        api_key: str | None = None,
        organization: str | None = None,
        project: str | None = None,
        endpoint: str = "https://api.openai.com/v1/traces/ingest",
        max_retries: int = 3,
        base_delay: float = 1.0,
        max_delay: float = 30.0,
    ) -> None:
        self._key = api_key
        self._organization = organization
        self._project = project
        self.endpoint = endpoint
        self.max_retries = max_retries
        self.base_delay = base_delay
        self.max_delay = max_delay
        self._client: Any = None

    def set_api_key(self, api_key: str) -> None:
        """Send with this key from now on."""
        self._key = api_key

    @property
    def api_key(self) -> str | None:
        """The key: given, else ``OPENAI_API_KEY``."""
        return self._key or os.environ.get("OPENAI_API_KEY")

    @property
    def organization(self) -> str | None:
        """Given, else ``OPENAI_ORG_ID``."""
        return self._organization or os.environ.get("OPENAI_ORG_ID")

    @property
    def project(self) -> str | None:
        """Given, else ``OPENAI_PROJECT_ID``."""
        return self._project or os.environ.get("OPENAI_PROJECT_ID")

    def export(self, items: list[Trace | Span[Any]]) -> None:
        by_key: dict[str | None, list[dict[str, Any]]] = {}
        for item in items:
            shown = item.export()
            if shown is not None:
                if self.endpoint.startswith(_OPENAI) and "span_data" in shown:
                    shown = {**shown, "span_data": without_reasoning(shown["span_data"])}
                by_key.setdefault(item.tracing_api_key or self.api_key, []).append(shown)
        for key, data in by_key.items():
            if key is None:
                logger.warning("OPENAI_API_KEY is not set: traces are not sent")
            else:
                self._send(key, data)

    def _send(self, key: str, data: list[dict[str, Any]]) -> None:
        headers = {"Authorization": f"Bearer {key}", "OpenAI-Beta": "traces=v1"}
        if self.organization:
            headers["OpenAI-Organization"] = self.organization
        if self.project:
            headers["OpenAI-Project"] = self.project
        if self._client is None:
            self._client = httpx2.Client(timeout=60)
        problem: object = None
        for attempt in range(self.max_retries + 1):
            try:
                answer = self._client.post(self.endpoint, headers=headers, json={"data": data})
                if answer.status_code < 300:
                    return
                problem = f"{answer.status_code}: {answer.text}"
                if answer.status_code < 500:
                    logger.error("traces were refused, %s", problem)
                    return
            except httpx2.HTTPError as error:
                problem = error
            if attempt < self.max_retries:
                time.sleep(min(self.base_delay * 2**attempt, self.max_delay))
        logger.error("traces were not sent after %d attempts: %s", self.max_retries + 1, problem)

    def close(self) -> None:
        """Close the connection."""
        if self._client is not None:
            self._client.close()
            self._client = None


class BatchTraceProcessor(TracingProcessor):
    """Collects traces and spans that ended, and exports them in batches from a thread."""

    def __init__(
        self,
        exporter: TracingExporter,
        max_queue_size: int = 8192,
        max_batch_size: int = 128,
        schedule_delay: float = 5.0,
        export_trigger_ratio: float = 0.7,
    ) -> None:
        self._exporter = exporter
        self._queue: queue.Queue[Trace | Span[Any]] = queue.Queue(maxsize=max_queue_size)
        self._batch = max_batch_size
        self._delay = schedule_delay
        self._enough = max(1, int(max_queue_size * export_trigger_ratio))
        self._is_stopped = False
        self._wake = threading.Event()
        self._exporting = threading.Lock()
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None

    def on_trace_start(self, trace: Trace) -> None:
        self._put(trace)

    def on_trace_end(self, trace: Trace) -> None:
        """Nothing: the trace was taken when it began."""

    def on_span_start(self, span: Span[Any]) -> None:
        """Nothing: a span is taken when it has ended."""

    def on_span_end(self, span: Span[Any]) -> None:
        self._put(span)

    def _put(self, item: Trace | Span[Any]) -> None:
        if self._is_stopped:
            return
        with self._starting:
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, daemon=True)
                self._thread.start()
        try:
            self._queue.put_nowait(item)
        except queue.Full:
            logger.warning("the queue of traces is full: one was dropped")
        if self._queue.qsize() >= self._enough:
            self._wake.set()

    def _work(self) -> None:
        while not self._is_stopped:
            self._wake.wait(self._delay)
            self._wake.clear()
            self._export()

    def _export(self) -> None:
        with self._exporting:
            while True:
                items: list[Trace | Span[Any]] = []
                while len(items) < self._batch:
                    try:
                        items.append(self._queue.get_nowait())
                    except queue.Empty:
                        break
                if not items:
                    return
                try:
                    self._exporter.export(items)
                except Exception as error:
                    logger.error("traces were not exported: %s", error)

    def shutdown(self, timeout: float | None = None) -> None:
        self._is_stopped = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join(timeout)
        self._export()

    def force_flush(self) -> None:
        self._export()


@cache
def default_exporter() -> BackendSpanExporter:
    """The exporter to OpenAI."""
    return BackendSpanExporter()


@cache
def default_processor() -> BatchTraceProcessor:
    """The processor with that exporter; ``add_trace_processor(default_processor())`` uses it."""
    processor = BatchTraceProcessor(default_exporter())
    atexit.register(processor.shutdown, 5.0)
    return processor
