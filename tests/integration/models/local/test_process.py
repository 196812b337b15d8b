"""What a local model does to the process it lives in: nothing but its work."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

from ekiden.core.errors import UserError
from ekiden.models.local.gguf import check_gguf
from tests.support.tiny_gguf import header, metadata, shapes, write_tiny_gguf

ASK = """
import asyncio, logging, sys
logging.getLogger("asyncio").setLevel(logging.ERROR)  # a busy machine makes any step slow
from pathlib import Path
from ekiden.core.conversation.model import user_message
from ekiden.core.conversation.model import ModelRequest, ModelSettings
from ekiden.models.local import LocalModel, LocalEngineSettings, Weights

def model(path):
    weights = Weights(name="tiny", path=Path(path), size=0)
    return LocalModel(weights, LocalEngineSettings(n_ctx=512, threads=1))

def asking(tokens):
    # Without a seed, untrained weights now and then write control tokens only, which is no answer.
    settings = ModelSettings(max_tokens=tokens, extra={"ignore_eos": True, "seed": 1})
    return ModelRequest(instructions=None, input=[user_message("hello")], settings=settings)

async def ask(path, tokens=4):
    async for _ in model(path).respond(asking(tokens)):
        pass
"""


def run(code: str, *arguments: str, timeout: float = 60) -> subprocess.CompletedProcess[str]:
    """The code in a process of its own."""
    return subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", ASK + code, *arguments],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def test_the_model_prints_nothing_and_the_process_ends_by_itself(tiny_gguf: Path) -> None:
    done = run("asyncio.run(ask(sys.argv[1]))", str(tiny_gguf))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_ctrl_c_and_sigterm_keep_their_handlers(tiny_gguf: Path) -> None:
    code = """
import os, signal
asyncio.run(ask(sys.argv[1]))
seen = []
signal.signal(signal.SIGTERM, lambda number, frame: seen.append(number))
asyncio.run(ask(sys.argv[1]))
try:
    os.kill(os.getpid(), signal.SIGINT)
    for _ in range(1000): pass
except KeyboardInterrupt:
    seen.append("interrupted")
os.kill(os.getpid(), signal.SIGTERM)
print(len(seen), seen[0])
"""
    done = run(code, str(tiny_gguf))
    assert (done.stdout, done.stderr) == ("2 interrupted\n", "")


def test_the_model_opens_no_port_and_leaves_no_file(tiny_gguf: Path, tmp_path: Path) -> None:
    code = """
import os, tempfile
import psutil
tempfile.tempdir = sys.argv[2]
asyncio.run(ask(sys.argv[1]))
open_ones = psutil.Process().net_connections("inet")
print([each for each in open_ones if each.status == psutil.CONN_LISTEN], os.listdir(sys.argv[2]))
"""
    done = run(code, str(tiny_gguf), str(tmp_path))
    assert (done.stdout, done.stderr) == ("[] []\n", "")


def test_a_process_can_exit_in_the_middle_of_an_answer(tiny_gguf: Path) -> None:
    code = """
async def begin():
    events = model(sys.argv[1]).respond(asking(400))
    await anext(events)
    print("begun", flush=True)
    sys.exit(3)

asyncio.run(begin())
"""
    done = run(code, str(tiny_gguf), timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (3, "begun\n", "")


def test_the_same_model_works_in_consecutive_event_loops(tiny_gguf: Path) -> None:
    code = """
for _ in range(3):
    asyncio.run(ask(sys.argv[1]))
print("fine")
"""
    done = run(code, str(tiny_gguf))
    assert (done.stdout, done.stderr) == ("fine\n", "")


def test_an_unsupported_model_file_is_an_error_and_no_crash(tmp_path: Path) -> None:
    unknown = write_tiny_gguf(
        tmp_path / "unknown.gguf",
        general__architecture="nosuchkind",
        nosuchkind__block_count=1,
        nosuchkind__embedding_length=32,
        nosuchkind__context_length=64,
    )
    code = """
from ekiden.core.errors import UserError
for path in sys.argv[1:]:
    try:
        asyncio.run(ask(path))
    except UserError as exc:
        print(exc)
"""
    done = run(code, str(unknown), str(tmp_path / "gone.gguf"))
    assert done.returncode == 0
    first, second = done.stdout.splitlines()
    assert "unknown.gguf cannot be loaded" in first
    assert "gone.gguf" in second
    assert done.stderr == ""


@pytest.mark.slow
def test_mutated_headers_that_pass_the_check_do_not_crash_the_process(tmp_path: Path) -> None:
    whole = write_tiny_gguf(tmp_path / "whole.gguf").read_bytes()
    head = len(header(metadata(), shapes()))
    draw = random.Random(11)
    code = """
from ekiden.core.errors import EkidenError
try:
    asyncio.run(ask(sys.argv[1]))
except EkidenError:
    pass
"""
    ended: list[tuple[int, str]] = []
    tried = 0
    while tried < 40:
        raw = bytearray(whole)
        places = [draw.randrange(24, head) for _ in range(2)]
        for place in places:
            raw[place] = draw.randrange(256)
        path = tmp_path / "mutated.gguf"
        path.write_bytes(raw)
        try:
            check_gguf(path)
        except UserError:
            continue
        tried += 1
        done = run(code, str(path))
        if done.returncode != 0:
            ended.append((done.returncode, f"{places} {done.stderr[-300:]}"))
    assert not ended
