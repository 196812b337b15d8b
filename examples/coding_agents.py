"""Two coding agents: `coder` writes a program, and `reviewer` tests it.

    python examples/coding_agents.py

The coder has Ekiden's file tools, which cannot leave their folder. The reviewer runs the tests. The
first version of the program has a bug, so the reviewer hands it back, and the coder fixes the bug.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
from pathlib import Path

from ekiden import Agent, Runner, ToolSettings, builtin_tools, function_tool, handoff
from ekiden.testing import ScriptedModel, call, say, transfer

TEST = "from leap import is_leap\nassert [is_leap(y) for y in (1900, 2000, 2024)] == [0, 1, 1]\n"
WRONG = "def is_leap(year):\n    return year % 4 == 0\n"
RIGHT = "year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)"
MODEL = ScriptedModel(  # With a key: MODEL = "openai:gpt-5-mini"
    [
        call("write_file", path="leap.py", content=WRONG),
        transfer("reviewer", reason="leap.py is ready"),
        call("run_tests"),
        transfer("coder", reason="1900 was no leap year"),
        call(
            "edit_file",
            path="leap.py",
            old_text="year % 4 == 0",
            new_text=RIGHT,
            replace_all=False,
        ),
        transfer("reviewer", reason="the century rule is in"),
        call("run_tests"),
        say("leap.py passes its test."),
    ]
)


async def main(folder: Path) -> None:
    """Have a small program written in a folder."""
    (folder / "test_leap.py").write_text(TEST)

    @function_tool
    def run_tests() -> str:
        """Run test_leap.py."""
        command = [sys.executable, "test_leap.py"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        print("test:", "passed" if done.returncode == 0 else done.stderr.splitlines()[-1])
        return done.stderr or "passed"

    files = builtin_tools(folder, ToolSettings(ask=False))
    coder = Agent(
        "coder",
        instructions="Write leap.py so that test_leap.py passes, then hand it to the reviewer.",
        model=MODEL,
        tools=[files["read_file"], files["write_file"], files["edit_file"]],
    )
    reviewer = Agent(
        "reviewer",
        instructions="Run the tests. Hand failures back to the coder.",
        model=MODEL,
        tools=[run_tests],
        handoffs=[handoff(coder, allow_return=True)],
    )
    coder.handoffs.append(handoff(reviewer, allow_return=True))
    result = await Runner.run(coder, "We need is_leap(year).")
    print(result.final_output)
    print((folder / "leap.py").read_text(), end="")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        asyncio.run(main(Path(place)))
