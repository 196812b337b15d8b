"""Clients that keep their connections and wait for runs: requests/s and CPU, as JSON.

    python benchmarks/clients.py [--clients 200] [--requests 2000] [--rounds 3] [--agno PYTHON]

Each request is a new session of one agent: a model call, a tool, the answer; the model answers at
once, and both servers store runs in a SQLite file. `--agno` names a Python with agno (see
`peers/agno_server.py`): both servers then run at the same time, and rounds alternate. On a
busy machine agno's SQLite store may fail to store runs ("database is locked"); `--agno-store none`
lets it store nothing, while Ekiden stores every step.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import secrets
import socket
import statistics
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil
from server_load import Server

ANSWER = b"1042 is on its way"


async def _client(port: int, request: bytes, left: list[int]) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**20)
    while left[0] > 0:
        left[0] -= 1
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.split(b" ", 2)[1].startswith(b"2"), head
        [length] = [
            int(line.split(b":")[1])
            for line in head.split(b"\r\n")
            if line.lower().startswith(b"content-length")
        ]
        body = await reader.readexactly(length)
        assert ANSWER in body, body
    writer.close()


async def _round(port: int, request: bytes, clients: int, requests: int) -> float:
    left = [requests]
    began = time.perf_counter()
    await asyncio.gather(*(_client(port, request, left) for _ in range(clients)))
    return requests / (time.perf_counter() - began)


def _request(port: int, path: str, kind: str, body: bytes) -> bytes:
    head = (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: {kind}\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def _agno(python: str, store: str) -> tuple[subprocess.Popen[bytes], int, bytes]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    script = Path(__file__).parent / "peers" / "agno_server.py"
    process = subprocess.Popen([python, script, str(port), store])
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            break
        except OSError:
            time.sleep(0.1)
    mark = secrets.token_hex(8)
    fields = {"message": "Where is order 1042?", "stream": "false"}
    body = "".join(
        f'--{mark}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
        for name, value in fields.items()
    )
    kind = f"multipart/form-data; boundary={mark}"
    return process, port, _request(
        port, "/agents/desk/runs", kind, f"{body}--{mark}--\r\n".encode()
    )  # fmt: skip


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Alternate rounds of the servers; the median of each."""
    with tempfile.TemporaryDirectory() as folder:
        server = Server(f"{folder}/ekiden.db", 0)
        body = json.dumps({"input": "Where is order 1042?", "agent": "desk"}).encode()
        told = _request(server.port, "/api/v1/runs", "application/json", body)
        served = {"ekiden": (server.probe, server.port, told)}
        peer = None
        try:
            if options.agno:
                peer, port, request = _agno(options.agno, options.agno_store or f"{folder}/agno.db")
                served["agno"] = (psutil.Process(peer.pid), port, request)
            found: dict[str, list[tuple[float, float]]] = {name: [] for name in served}
            for number in range(options.rounds + 1):
                for name, (probe, port, request) in served.items():
                    count = options.requests if number else 50
                    before = probe.cpu_times()
                    rate = asyncio.run(_round(port, request, options.clients, count))
                    after = probe.cpu_times()
                    cpu_s = after.user + after.system - before.user - before.system
                    if number:
                        found[name].append((rate, cpu_s / count * 1e3))
        finally:
            if peer is not None:
                peer.terminate()
                peer.wait(30)
            server.stop()
    figures: dict[str, Any] = {"load_1min": os.getloadavg()[0], "clients": options.clients}
    for name, rounds in found.items():
        rate, cpu_ms = (statistics.median(each) for each in zip(*rounds, strict=True))
        figures[name] = {"requests_per_s": round(rate, 1), "cpu_ms": round(cpu_ms, 2)}
    if "agno" in figures:
        for key, best in (("requests_per_s", "ekiden"), ("cpu_ms", "agno")):
            other = "agno" if best == "ekiden" else "ekiden"
            figures[f"{key}_ratio"] = round(figures[best][key] / figures[other][key], 2)
    return figures


def main() -> None:
    """Read the arguments, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--agno", help="a Python with agno")
    parser.add_argument("--agno-store", help="a SQLite file, or none; a new file by default")
    print(json.dumps(measure(parser.parse_args())))


if __name__ == "__main__":
    main()
