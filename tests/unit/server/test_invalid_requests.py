"""The answers to invalid requests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.support.gates import OpenGate
from tests.support.serving import application

ID = "is not a valid id: use letters, digits and _ - . : @"


@pytest.fixture
async def http(tmp_path: Path) -> AsyncIterator[httpx2.AsyncClient]:
    """Asks a server."""
    async with application(tmp_path, store=str(tmp_path / "s.db"), gate=OpenGate()) as app:
        transport = httpx2.ASGITransport(app=app)
        async with httpx2.AsyncClient(
            transport=transport, base_url="http://127.0.0.1/api/v1"
        ) as client:
            yield client


@pytest.mark.parametrize(
    ("method", "path", "body", "detail"),
    [
        ("GET", "/sessions/a%20b", None, f"path.session_id: 'a b' {ID}"),
        ("GET", "/sessions?limit=0", None, "query.limit: must be at least 1"),
        ("GET", "/runs?limit=201", None, "query.limit: must be at most 200"),
        ("POST", "/runs", {"input": ""}, "body.input: is empty"),
        ("POST", "/runs", {"input": " \n\u3000"}, "body.input: ' \\n\\u3000' says nothing"),
        (
            "POST",
            "/runs",
            {"input": "x" * 1_000_001},
            "body.input: is longer than 1,000,000 characters",
        ),
        ("POST", "/runs", {"input": "x", "session_id": "a/b"}, f"body.session_id: 'a/b' {ID}"),
        ("POST", "/runs", {}, "body.input: Field required"),
        ("POST", "/runs", {"input": "x", "max_money": 0}, "body.max_money: must be more than 0"),
    ],
)
async def test_an_invalid_request_names_the_field_in_plain_words(
    http: httpx2.AsyncClient, method: str, path: str, body: Any, detail: str
) -> None:
    answer = await http.request(method, path, json=body)
    told = answer.json()
    assert (answer.status_code, told["code"]) == (422, "request.invalid")
    assert told["detail"] == detail
    assert "constrained" not in answer.text
