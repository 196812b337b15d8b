"""The collector for tests, itself."""

from __future__ import annotations

import asyncio

import httpx2
import pytest

from ekiden.tracing.otel_exporter import export_otlp
from tests.support.otlp import OtlpServer
from tests.unit.tracing.otel_team import a_span, clean_environment

__all__ = ["clean_environment"]


@pytest.mark.parametrize("compression", ["none", "gzip", "deflate"])
async def test_the_test_server_reads_spans_of_a_real_exporter(
    monkeypatch: pytest.MonkeyPatch, compression: str
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", compression)
    async with OtlpServer() as collector:
        span = a_span(kind="task", details={"names": ["a", "b"], "done": True, "score": 0.5})
        await asyncio.to_thread(export_otlp, [span], collector.endpoint)
        (got,) = collector.spans
        assert got.attributes["ekiden.names"] == ["a", "b"]
        assert got.attributes["ekiden.done"] is True
        assert got.attributes["ekiden.score"] == 0.5
        assert collector.names == ["task"]
        with pytest.raises(AssertionError, match="0 spans are called 'other'"):
            collector.named("other")


@pytest.mark.parametrize(
    ("method", "path", "headers"),
    [
        ("GET", "/v1/traces", {}),
        ("POST", "/v1/logs", {"content-type": "application/x-protobuf"}),
        ("POST", "/v1/traces", {"content-type": "application/json"}),
        (
            "POST",
            "/v1/traces",
            {"content-type": "application/x-protobuf", "content-encoding": "br"},
        ),
    ],
)
async def test_a_request_that_is_not_otlp_is_refused(
    method: str, path: str, headers: dict[str, str]
) -> None:
    async with (
        OtlpServer() as collector,
        httpx2.AsyncClient(trust_env=False, timeout=60) as client,
    ):
        answer = await client.request(method, collector.origin + path, headers=headers, content=b"")
        assert answer.status_code == 400
        assert not collector.requests
