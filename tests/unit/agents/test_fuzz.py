"""Whatever is in a file: no exception, no hang, no flood."""

from __future__ import annotations

import random
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from ekiden.agents import AgentFile, Origin, read_agent_text
from tests.support.examples import examples

ORIGINS: tuple[Origin, ...] = ("ekiden", "ekiden", "ekiden", "claude", "gemini", "agents")
SECONDS = 5.0
"""Processor time for one file; a hostile one of the largest size takes about one."""

FULL = """---
# everything
name: debugger
title: "De\\"bugger"
description: >-
  Finds out why
  programs fail.
handoffDescription: |
  Give it
    a traceback.
model: openai:gpt-5
tools:
  allow: [read_file, 'shell', "shop:refund"]
  confirmation:
    require_confirmation: [shell]
    prompt_template: 'Run {tool_name} with {tool_args}?'
    timeout: 60
triggers:
  keywords: [error, 报错, "can't"]
  patterns: ['Traceback \\(most', '^\\d+(\\.\\d+)*$']
  priority: 80
  examples:
    - Why does it crash?
capabilities:
  - name: debugging
    proficiency: 0.9
    tags: [python]
handoffs:
  - to: fixer
    when: auto
    trigger: {type: event, event: cause_found}
    confirm: {timeout: 5}
    policy: conditional
    condition: >-
      error_count > 3
      and text != 'x'
    filters: [keep_last(20)]
guardrails:
  output_schema: {type: object, properties: {a: {type: string}}}
memory: {enabled: false}
---
You find the cause. 😀
"""
CLAUDE = """---
name: code-reviewer
description: Use this agent when… Examples: <example>Context: x. user: "y" # z</example>
tools: Read, Grep, Bash(git diff:*), mcp__a__b
model: sonnet
color: red
---

Review the code.
"""
SHORT = "---\nname: x\n---\nHi\n"
CORPUS = (FULL, CLAUDE, SHORT)
INSERTS = (
    *("&a ", "*a", "!!python/object:os.system ", "!t ", "<<: *a\n", "? ", "- ", ": ", "\t", "|\n"),
    *(
        "---\n",
        "...\n",
        "%YAML 1.1\n",
        "\ufeff",
        "\0",
        "\x1b[31m",
        "\u2028",
        "\x85",
        "\r",
        "{",
        "[",
    ),
    *(
        "'",
        '"',
        "\\",
        "\\x",
        "#",
        "@",
        "`",
        "~",
        ".inf",
        "-0x",
        "9" * 60,
        "é",
        "𝔘",
        "\u202e",
        "(?=a)",
    ),
    *("[[[[[[[[", "{a: {a: {a: ", "- - - - - ", "name: x\n", "(a{99}){99}", "\ud800", "  ", "\n\n"),
)
HUGE: tuple[Callable[[], str], ...] = (
    lambda: "[" * 60_000,
    lambda: "{a: " * 15_000,
    lambda: "- " * 30_000,
    lambda: "\n" + "".join(" " * depth + "a:\n" for depth in range(340)),
    lambda: "x" * 60_000,
    lambda: "x: " * 20_000,
    lambda: "[" + "1," * 30_000 + "]",
    lambda: "'" + "''" * 30_000,
    lambda: '"' + "\\n" * 30_000,
    lambda: "\n" + "a: b\n" * 12_000,
    lambda: "\n" + "".join(f"k{each}: v\n" for each in range(6_000)),
    lambda: "\n- &a x\n" + "- *a\n" * 10_000,
    lambda: "|\n" + "  x\n" * 15_000,
    lambda: " " * 60_000,
    lambda: "\n" * 60_000,
    lambda: "#" * 60_000,
    lambda: "9" * 60_000,
    lambda: "\n  patterns: [" + ", ".join(f"'x{{{each}}}'" for each in range(900, 1000)) + "]",
    lambda: "(" * 60_000,
    lambda: "报" * 60_000,
)


def mutated(random_: random.Random) -> bytes:
    """One of the files, changed in a few places."""
    text = random_.choice(CORPUS)
    for _ in range(random_.randint(1, 4)):
        at = random_.randint(0, len(text))
        kind = random_.random()
        if kind < 0.45:
            text = text[:at] + random_.choice(INSERTS) + text[at:]
        elif kind < 0.65:
            text = text[:at] + text[at + random_.randint(1, 12) :]
        elif kind < 0.75:
            lines = text.split("\n")
            one, other = random_.randrange(len(lines)), random_.randrange(len(lines))
            lines[one], lines[other] = lines[other], " " * random_.randint(0, 5) + lines[one]
            text = "\n".join(lines)
        elif kind < 0.85:
            text = text[:at] + text[at:].replace(":", random_.choice([":", " :", "::", ": :"]), 3)
        else:
            text = text[:at] if random_.random() < 0.3 else text[:at] + text[at - 20 :]
    data = bytearray(text.encode("utf-8", "surrogatepass"))
    if data and random_.random() < 0.3:
        for _ in range(random_.randint(1, 3)):
            data[random_.randrange(len(data))] ^= 1 << random_.randrange(8)
    if random_.random() < 0.1:
        data = bytearray(bytes(data).replace(b"\n", b"\r\n"))
    return bytes(data)


def huge() -> Iterator[bytes]:
    """Files of the largest size that is read, each hostile in its own way."""
    for make in HUGE:
        for key in ("name", "description", "triggers", "handoffs"):
            yield f"---\nname: x\n{key}: {make()[:60_000]}\n---\nHi\n".encode()


def check(data: bytes, origin: Origin) -> None:
    begin = time.process_time()
    file: AgentFile = read_agent_text(data, path="fuzzed.md", origin=origin)
    took = time.process_time() - begin
    assert took < SECONDS, (took, data[:200])
    lines = data.count(b"\n") + data.count(b"\r") + 1
    for problem in file.problems:
        assert problem.code.startswith("agent.")
        assert problem.message.isprintable(), problem
        assert len(problem.message) < 1000
        assert 1 <= problem.line <= lines + 1
        assert 1 <= problem.column <= len(data) + 1
        str(problem).encode()
    errors = [problem for problem in file.problems if problem.severity == "error"]
    assert file.definition is None or not errors
    assert file.definition is not None or file.problems
    if file.definition is not None:
        repr(file.definition).encode()


def run(count: int, seed: int) -> None:
    random_ = random.Random(seed)
    for _ in range(count):
        check(mutated(random_), random_.choice(ORIGINS))


def test_several_hundred_mutated_files_raise_no_exception() -> None:
    run(300, seed=7)


@settings(deadline=None, max_examples=examples(200))
@given(st.binary(max_size=60), st.sampled_from(ORIGINS))
def test_arbitrary_bytes_raise_no_exception(data: bytes, origin: Origin) -> None:
    check(data, origin)
    check(b"---\nname: x\n" + data + b"\n---\n", origin)


@settings(deadline=None, max_examples=examples(200))
@given(st.text(max_size=40), st.sampled_from(["name", "description", "tools", "triggers", "zzz"]))
def test_an_arbitrary_text_value_raises_no_exception(text: str, key: str) -> None:
    check(f"---\nname: x\n{key}: {text}\n---\n".encode("utf-8", "surrogatepass"), "ekiden")


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_ten_thousand_mutations_stay_within_time_and_memory(tmp_path: Path) -> None:
    """In a process of its own, so that its memory is that of the reading."""
    code = "from tests.unit.agents.test_fuzz import measure; measure()"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        timeout=1100,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    print(done.stdout)
    grown_mb = float(done.stdout.split()[-2])
    assert 0 < grown_mb <= 50


def peak_mb() -> float:
    """The most memory that this process had so far.

    What the operating system tells of a child begins, on Linux, with the parent's peak: so there
    the process's own figure is read.
    """
    status = Path("/proc/self/status")
    if status.exists():
        (line,) = [each for each in status.read_text().splitlines() if each.startswith("VmHWM:")]
        return int(line.split()[1]) / 1024
    per_mb = 1024 * 1024 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / per_mb


def measure() -> None:
    """Ten thousand mutations and all huge files; prints what they took."""
    run(20, seed=1)
    before = peak_mb()
    begin = time.process_time()
    run(10_000, seed=2)
    mutations = time.process_time() - begin
    slowest = 0.0
    for data in huge():
        begin = time.process_time()
        check(data, "ekiden")
        slowest = max(slowest, time.process_time() - begin)
    grown = peak_mb() - before
    print(f"10,000 mutations took {mutations:.1f} s, the slowest huge file {slowest:.2f} s,")
    print(f"memory grew by {grown:.1f} MB")
