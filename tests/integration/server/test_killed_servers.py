"""A server that is killed in the middle of a request, and the request that is sent again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from tests.support.forked import ForkedPopen

BODY = {"input": "Where is my order 1042?", "background": True}
ONCE = {"Idempotency-Key": "3f1c"}


@contextmanager
def server(folder: Path, **env: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """`ekiden serve` as a process; its address."""
    clean = {name: text for name, text in os.environ.items() if not name.startswith("EKIDEN_")}
    command = [sys.executable, "-m", "ekiden.cli", "serve", "--port", "0", "--log", "none"]
    process = ForkedPopen(
        [*command, "--store", "desk.db", "--json"],
        cwd=folder,
        env={**clean, "HOME": str(folder), **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    try:
        yield json.loads(process.stdout.readline())["url"], process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def said(url: str, session_id: str) -> int:
    """How often something was said to the session."""
    found = httpx2.get(f"{url}/api/v1/sessions/{session_id}/items?limit=1000", timeout=60)
    assert found.status_code == 200, found.text
    return len([item for item in found.json()["items"] if item.get("role") == "user"])


@pytest.mark.parametrize(
    "point",
    [
        # Here the one that was killed has the session until its lease is over.
        pytest.param("run.begin.before_commit", marks=pytest.mark.slow),
        "run.begin.after_commit",
    ],
)
@pytest.mark.parametrize(
    "body",
    [
        pytest.param(BODY, id="new"),
        pytest.param({**BODY, "session_id": "mine"}, id="named", marks=pytest.mark.slow),
    ],
)
def test_a_message_is_stored_once_despite_a_killed_server(
    tmp_path: Path, point: str, body: dict[str, object]
) -> None:
    with server(tmp_path, EKIDEN_TESTING="1", EKIDEN_FAULT=point) as (url, process):
        with pytest.raises(httpx2.TransportError):
            httpx2.post(f"{url}/api/v1/runs", json=body, headers=ONCE, timeout=60)
        assert process.wait(60) == -signal.SIGKILL
    with server(tmp_path) as (url, _):
        first = _sent(url, body)
        again = _sent(url, body)
        assert first["run_id"] == again["run_id"]
        [session] = httpx2.get(f"{url}/api/v1/sessions", timeout=60).json()["items"]
        assert session["session_id"] == first["session_id"]
        assert said(url, first["session_id"]) == 1
        other = httpx2.post(f"{url}/api/v1/runs", json={"input": "x"}, headers=ONCE, timeout=60)
        assert other.status_code == 409


def _sent(url: str, body: dict[str, object]) -> dict[str, str]:
    """Send it as a client that was cut off: again, as long as the answer is to retry later."""
    for _ in range(60):
        found = httpx2.post(f"{url}/api/v1/runs", json={**body}, headers=ONCE, timeout=60)
        if found.status_code != 409:
            assert found.status_code in (200, 202), found.text
            result: dict[str, str] = found.json()
            return result
        time.sleep(float(found.headers["retry-after"]))
    raise AssertionError("the session is never free")
