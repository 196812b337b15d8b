"""A process ends on a signal, whatever code of the team does."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAD = """
import asyncio, sys, threading, time
from ekiden.cli.process import end_for_sure

async def ignores():
    while True:
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            pass

async def tidies():
    try:
        await asyncio.sleep(600)
    finally:
        print("tidied")

async def main():
    {begin}
    await asyncio.sleep(0.05)
    sys.stdout.write("the last line")
    await end_for_sure()
    sys.stdout.write(" and a good end")

asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("begin", "said"),
    [
        ("task = asyncio.create_task(ignores())", "the last line"),
        pytest.param(
            "task = asyncio.create_task(asyncio.to_thread(time.sleep, 600))",
            "the last line",
            marks=pytest.mark.slow,
        ),
        ("threading.Thread(target=time.sleep, args=(600,)).start()", "the last line"),
        (
            "task = asyncio.create_task(tidies()); await asyncio.to_thread(time.sleep, 0)",
            "the last linetidied\n and a good end",
        ),
    ],
    ids=["task", "executor", "thread", "nothing"],
)
def test_a_process_ends_despite_leftover_threads_and_tasks(begin: str, said: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", HEAD.replace("{begin}", begin)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (0, said), ended.stderr
