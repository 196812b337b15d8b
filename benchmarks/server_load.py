"""Many runs, each watched through its own stream, on one server process: prints JSON.

    python benchmarks/server_load.py [--runs 1000] [--thinks 1.0] [--store FILE|memory:]

Starts `ekiden serve` as a process, sends so many `POST /runs` with `stream` at the same time, each
over a connection of its own, and reads every stream to its end. A run is a triage that hands over,
a tool and an answer: three model calls, each of which takes `--thinks` seconds, so that all runs
are under way together. Nothing may be lost: every stream has the events 1, 2, 3 … without a gap,
the deltas of the answer, and the end of a run that is done.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil

_EVENTS = 9


class Server:
    """`ekiden serve` as a process."""

    def __init__(self, store: str, thinks_s: float) -> None:
        here = Path(__file__).parent
        command = [sys.executable, "-m", "ekiden.cli", "serve", "--port", "0", "--json"]
        command += ["--team", "load_team:team", "--store", store, "--workers", "5000"]
        command += ["--log", "none"]
        environment = {**os.environ, "LOAD_THINKS_S": str(thinks_s), "PYTHONPATH": str(here)}
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, env=environment, cwd=tempfile.mkdtemp()
        )
        assert self.process.stdout is not None
        self.url = json.loads(self.process.stdout.readline())["url"]
        self.port = int(self.url.rpartition(":")[2])
        self.probe = psutil.Process(self.process.pid)

    def memory_mb(self) -> float:
        """What it holds now."""
        return float(self.probe.memory_info().rss) / 1e6

    def cpu_s(self) -> float:
        """What it has used."""
        times = self.probe.cpu_times()
        return float(times.user + times.system)

    def stop(self) -> float:
        """End it; how long that took."""
        began = time.perf_counter()
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(timeout=30)
        assert code == 0, code
        return time.perf_counter() - began


async def watched_run(port: int, number: int) -> dict[str, Any]:
    """Start a run and read its stream to the end."""
    began = time.perf_counter()
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**20)
    body = json.dumps({"input": f"Where is order {number}?", "stream": True}).encode()
    head = (
        f"POST /api/v1/runs HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: {len(body)}\r\n"
        "Content-Type: application/json\r\nConnection: close\r\n\r\n"
    )
    writer.write(head.encode() + body)
    await writer.drain()
    first_s = None
    numbers, deltas, status, kind = [], 0, None, ""
    async for raw in reader:
        line = raw.decode().rstrip("\r\n")
        if line.startswith("event: "):
            kind = line[7:]
            if first_s is None:
                first_s = time.perf_counter() - began
        elif line.startswith("id: "):
            numbers.append(int(line[4:]))
        elif line.startswith("data: ") and kind == "delta":
            deltas += 1
        elif line.startswith("data: ") and kind == "end":
            status = json.loads(line[6:])["status"]
            break
    writer.close()
    return {
        "whole": numbers == list(range(1, len(numbers) + 1)) and len(numbers) >= _EVENTS,
        "status": status,
        "deltas": deltas,
        "first_s": first_s,
        "total_s": time.perf_counter() - began,
    }


async def measure(server: Server, runs: int) -> list[dict[str, Any]]:
    """All of them at once."""
    return await asyncio.gather(*(watched_run(server.port, number) for number in range(runs)))


def main() -> None:
    """Read the arguments, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--thinks", type=float, default=1.0)
    parser.add_argument("--store", default="")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        store = options.store or f"{folder}/load.db"
        server = Server(store, options.thinks)
        try:
            asyncio.run(measure(server, 10))
            before_mb, before_cpu = server.memory_mb(), server.cpu_s()
            began = time.perf_counter()
            found = asyncio.run(measure(server, options.runs))
            took_s = time.perf_counter() - began
            after_mb, cpu_s = server.memory_mb(), server.cpu_s() - before_cpu
            asyncio.run(measure(server, options.runs))
            again_mb = server.memory_mb()
        finally:
            stop_s = server.stop()
    totals = sorted(each["total_s"] for each in found)
    print(
        json.dumps(
            {
                "runs": options.runs,
                "model_calls_take_s": options.thinks,
                "done": sum(each["status"] == "done" for each in found),
                "streams_without_gap": sum(each["whole"] for each in found),
                "streams_with_deltas": sum(each["deltas"] == 5 for each in found),
                "took_s": round(took_s, 2),
                "median_s": round(statistics.median(totals), 2),
                "slowest_s": round(totals[-1], 2),
                "first_event_median_s": round(
                    statistics.median(each["first_s"] or 0 for each in found), 3
                ),
                "server_cpu_s": round(cpu_s, 2),
                "memory_before_mb": round(before_mb, 1),
                "memory_after_mb": round(after_mb, 1),
                "memory_after_twice_mb": round(again_mb, 1),
                "kb_each": round((after_mb - before_mb) * 1000 / options.runs, 1),
                "stopped_in_s": round(stop_s, 2),
            }
        )
    )


if __name__ == "__main__":
    main()
