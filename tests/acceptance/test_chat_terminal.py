"""`ekiden chat` as a person sees it: in a real terminal."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TypeAlias

import pytest

from tests.acceptance.conftest import COMMAND
from tests.support.terminal import TMUX, Terminal, open_terminal

pytestmark = pytest.mark.skipif(TMUX is None, reason="there is no tmux here")

Open: TypeAlias = Callable[..., AbstractContextManager[Terminal]]

ORDER = "Where is my order 1042?"
SHIPPED = "Order 1042 is shipped with Yamato, expected 2026-11-18."
REFUND = "Order 1042 came to ¥4,200; a refund takes three days."

WRITER = '''
import asyncio
from pathlib import Path
from ekiden import Agent, Team
from ekiden.core.conversation.model import assistant_message
from ekiden.core.conversation.model import ModelDelta, ModelResponse

TEXT = """# 标题

Text with **bold**, <b>html</b>, [red]markup[/red] and \\x1b[31mcontrol\\x1b[0m.
A second line: 中文字符 and 🏃.

```python
def f(x):
    return x + 1
```

1. first
2. second

The end."""

class Writer:
    async def respond(self, request):
        for at in range(0, len(TEXT), 5):
            yield ModelDelta(kind="text", text=TEXT[at:at + 5])
            await asyncio.sleep(0)
        if not Path("open").exists():
            await asyncio.Event().wait()
        yield ModelResponse(output=[assistant_message(TEXT)])

team = Team(Agent("writer", model=Writer()))
'''

ASKING = """
from ekiden import Agent, Team, function_tool
from ekiden.core.profile import Confirmation
from ekiden.testing import ScriptedModel, call

@function_tool
def erase(what: str) -> str:
    "Erase something."
    return f"{what} is erased"

erase.confirmation = Confirmation(prompt_template="Erase {tool_args}?", timeout_s=600)

def answer(request):
    last = request.input[-1]
    if last.get("type") == "function_call_output":
        return f"it says: {last['output']}"
    return call("erase", what="every\\x1b[31mthing")

team = Team(Agent("clerk", model=ScriptedModel(respond=answer), tools=[erase]))
"""


LONG = """
import asyncio
from pathlib import Path
from ekiden import Agent, Team, function_tool
from ekiden.core.profile import Confirmation
from ekiden.testing import ScriptedModel, call

@function_tool
def look() -> str:
    "Look."
    return "nothing"

@function_tool
async def wait() -> str:
    "Wait."
    while not Path("open").exists():
        await asyncio.sleep(0.01)
    return "waited"

@function_tool
def save(text: str) -> str:
    "Save a text."
    return "saved"

save.confirmation = Confirmation(timeout_s=600)
TEXT = " ".join(f"word{n}" for n in range(150)) + " THE-END"

def answer(request):
    done = sum(item.get("type") == "function_call_output" for item in request.input)
    if done == 0:
        return [call("look"), call("wait")]
    return [call("look"), call("save", text=TEXT)] if done == 2 else "Well."

team = Team(Agent("clerk", model=ScriptedModel(respond=answer), tools=[look, wait, save]))
"""


OFFERS = """
from ekiden import Agent, Team

async def sales(ctx):
    if ctx.text != "an offer":
        return f"heard: {ctx.text}"
    answer = await ctx.request_approval("15 % discount?", ("yes", "no"))
    return f"{answer.choice}, says {answer.by}"

team = Team(Agent("sales", run=sales))
"""


@pytest.fixture
def chat(tmp_path: Path) -> Open:
    """Opens a chat in the folder `project`, whose person lives in `home`."""
    (tmp_path / "home").mkdir()
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "notes.txt").write_text("An empty folder is offered a team.")
    env = {
        "HOME": str(tmp_path / "home"),
        "TERM": "screen-256color",
        "LC_ALL": "C.UTF-8",
        "NO_COLOR": "1",
        "PYTHONPATH": "",
    }

    def opened(
        *options: str, width: int = 90, height: int = 30, **more: str
    ) -> AbstractContextManager[Terminal]:
        return open_terminal(
            [*COMMAND, "chat", *options],
            folder=tmp_path / "project",
            env={**env, **more},
            width=width,
            height=height,
        )

    return opened


def _child(terminal: Terminal) -> int:
    """The chat's process, below the shell."""
    found = subprocess.run(
        ["ps", "--ppid", str(terminal.pid()), "-o", "pid="],
        capture_output=True,
        text=True,
        check=True,
    )
    return int(found.stdout.split()[0])


@pytest.mark.slow
def test_a_conversation_with_routes_handoffs_and_tools(chat: Open) -> None:
    with chat() as terminal:
        terminal.wait_for("triage ›", "/help")
        terminal.say(ORDER)
        screen = terminal.wait_for(SHIPPED, "orders ›")
        lines = screen.split("\n")
        assert lines[:3] == [
            "ekiden: /help lists the commands",
            f"triage › {ORDER}",
            '⇢ triage → orders: "a question about an order"',
        ]
        assert lines[3].startswith("· lookup_order  ")
        assert lines[4:6] == ["orders", SHIPPED]
        terminal.say("@billing refund 1042")
        assert "named → billing" in terminal.wait_for(REFUND, "billing ›")
        terminal.say("@auto --strategy=rule a refund of 1042, what does it cost to pay the bill?")
        terminal.wait_until(lambda screen: screen.count(REFUND) == 2)
        terminal.press("C-d")
        terminal.wait_for("EXIT=0")


@pytest.mark.slow
def test_agents_and_commands_are_completed(chat: Open) -> None:
    with chat() as terminal:
        terminal.wait_for("triage ›")
        terminal.type("@b")
        terminal.wait_for("Bills, refunds and payments.")
        terminal.press("Tab")
        terminal.type("1042")
        terminal.wait_for("triage › @billing 1042")
        terminal.press("C-c")
        terminal.wait_until(lambda screen: "@billing" not in screen)
        terminal.type("/sess")
        terminal.wait_for("Show the session.")
        terminal.press("Tab")
        terminal.type(" ex")
        terminal.wait_for("Write the session with all its events")
        terminal.press("C-c")
        terminal.press("C-c")
        terminal.wait_for("Ctrl-C again leaves")
        terminal.press("C-c")
        terminal.wait_for("EXIT=0")


@pytest.mark.slow
def test_several_lines_are_one_message(chat: Open) -> None:
    with chat() as terminal:
        terminal.wait_for("triage ›")
        terminal.type("one")
        terminal.press("M-Enter")
        terminal.type("two")
        terminal.press("C-j")
        terminal.say("order 1042")
        terminal.wait_for("… two", "… order 1042", SHIPPED, "orders ›")
        terminal.paste("pasted\n\nlines about 1043")
        terminal.wait_for("… lines about 1043")
        terminal.press("Enter")
        terminal.wait_for("Order 1043 is packing")
        terminal.say("/rewind")
        screen = terminal.wait_for("Rewind to before which message?")
        assert "› 2  pasted lines about 1043" in screen
        terminal.press("Escape")
        terminal.press("C-d")
        terminal.wait_for("EXIT=0")


@pytest.mark.slow
def test_input_history_is_available_in_the_next_chat(chat: Open, tmp_path: Path) -> None:
    with chat() as terminal:
        terminal.wait_for("triage ›")
        terminal.say(ORDER)
        terminal.wait_for(SHIPPED, "orders ›")
        terminal.say(" not this")
        terminal.wait_for("What is the number of your order?")
        terminal.press("C-d")
        terminal.wait_for("EXIT=0")
    history = tmp_path / "home" / ".ekiden" / "chat_history"
    assert stat.S_IMODE(history.stat().st_mode) == 0o600
    with chat() as terminal:
        terminal.wait_for("triage ›")
        terminal.press("Up")
        terminal.wait_for(f"triage › {ORDER}")
        terminal.press("C-c")
        terminal.press("C-r")
        terminal.type("1042")
        terminal.wait_for("1042", ORDER)
        terminal.press("Enter")
        terminal.press("Enter")
        terminal.wait_for(SHIPPED)


def test_ctrl_c_stops_the_turn_and_resume_continues_it(chat: Open, tmp_path: Path) -> None:
    (tmp_path / "project" / "writing.py").write_text(WRITER)
    with chat("--team", "writing:team", height=40) as terminal:
        terminal.wait_for("writer ›")
        terminal.say("write")
        terminal.wait_for("The end.")
        terminal.press("C-c")
        terminal.wait_for("stopped; /resume continues", "(this answer was not kept)")
        terminal.wait_for("writer ›", "/resume continues the stopped turn")
        (tmp_path / "project" / "open").touch()
        terminal.say("/resume")
        screen = terminal.wait_until(lambda screen: screen.rstrip().endswith("/help"))
        assert screen.count("The end.") == 2


@pytest.mark.slow
def test_control_sequences_in_an_answer_are_shown_not_executed(chat: Open, tmp_path: Path) -> None:
    (tmp_path / "project" / "writing.py").write_text(WRITER)
    (tmp_path / "project" / "open").touch()
    with chat("--team", "writing:team", height=40) as terminal:
        terminal.wait_for("writer ›")
        terminal.say("write")
        screen = terminal.wait_until(
            lambda screen: "The end." in screen and screen.count("writer ›") == 2
        )
        shown = screen[screen.index("标题") : screen.index("The end.")]
        assert shown.split("\n", 1)[1] == (
            "\n"
            "Text with bold, <b>html</b>, [red]markup[/red] and \\x1b[31mcontrol\\x1b[0m.\n"
            "A second line: 中文字符 and 🏃.\n"
            "\n"
            " def f(x):\n"
            "     return x + 1\n"
            "\n"
            " 1 first\n"
            " 2 second\n"
            "\n"
        )


@pytest.mark.slow
def test_an_answer_is_redrawn_when_a_narrow_window_becomes_wide(chat: Open, tmp_path: Path) -> None:
    (tmp_path / "project" / "writing.py").write_text(WRITER)
    (tmp_path / "project" / "open").touch()
    with chat("--team", "writing:team", width=30, height=40) as terminal:
        terminal.wait_for("writer ›")
        terminal.say("write")
        terminal.wait_until(lambda screen: "The end." in screen and screen.count("writer ›") == 2)
        terminal.resize(100, 45)
        terminal.say("write")
        long_line = "Text with bold, <b>html</b>, [red]markup[/red] and \\x1b[31mcontrol\\x1b[0m."
        terminal.wait_for(long_line)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ("y", "everything is erased"),
        ("n", "The tool was not run"),
        ("", "The tool was not run"),
    ],
)
def test_a_tool_asks_for_approval_before_it_runs(
    chat: Open, tmp_path: Path, answer: str, told: str
) -> None:
    (tmp_path / "project" / "asking.py").write_text(ASKING)
    with chat("--team", "asking:team") as terminal:
        terminal.wait_for("clerk ›")
        terminal.say("erase it")
        screen = terminal.wait_for("[y]es, [n]o, [a]lways")
        assert "clerk wants to run erase:" in screen
        terminal.say(answer)
        terminal.wait_for("it says:", told.split()[-1], "clerk ›")


@pytest.mark.slow
def test_ctrl_c_at_a_question_stops_the_turn(chat: Open, tmp_path: Path) -> None:
    (tmp_path / "project" / "asking.py").write_text(ASKING)
    with chat("--team", "asking:team") as terminal:
        terminal.wait_for("clerk ›")
        terminal.say("erase it")
        terminal.wait_for("[y]es, [n]o, [a]lways")
        terminal.press("C-c")
        terminal.wait_for("stopped; /resume continues", "clerk ›")


@pytest.mark.slow
def test_a_long_question_is_fully_shown_and_earlier_keys_do_not_answer_it(
    chat: Open, tmp_path: Path
) -> None:
    (tmp_path / "project" / "long.py").write_text(LONG)
    with chat("--team", "long:team", height=50) as terminal:
        terminal.wait_for("clerk ›")
        terminal.say("save it")
        terminal.wait_until(lambda screen: "/help" not in screen.split("\n", 1)[1])
        terminal.say("y")
        terminal.say("a")
        (tmp_path / "project" / "open").touch()
        screen = terminal.wait_for("[y]es, [n]o, [a]lways", "word149 THE-END")
        above, _, quoted = screen.partition("clerk wants to run save:\n")
        assert above.count("· look") == above.count("· wait") == 1
        *rows, rules, last = quoted.split("\n")
        assert rules.startswith("always: equal calls, in this session")
        assert last == "[y]es, [n]o, [a]lways, [s]ession, [e]dit (600 s):"
        assert all(row.startswith("  | ") for row in rows)
        assert [f"word{n}" in quoted for n in range(150)] == [True] * 150
        for width in (40, 100):
            terminal.resize(width, 50)
        terminal.say("y")
        screen = terminal.wait_for("Well.", "· save", "/help")
        assert screen.count("wants to run") == screen.count("[y]es, [n]o") == 1
        assert screen.index("(600 s): y") < screen.index("· save")


@pytest.mark.slow
def test_skipped_agent_files_are_named_above_the_prompt(chat: Open, tmp_path: Path) -> None:
    agents = tmp_path / "project" / ".ekiden" / "agents"
    agents.mkdir(parents=True)
    (agents / "bad.md").write_text("---\nname: bad\nnonsense: 1\n---\n")
    (agents / "good.md").write_text("---\nname: good\ndescription: Good.\n---\nBe good.\n")
    with chat("--keep-going", width=200) as terminal:
        screen = terminal.wait_for("auto ›", "/help", "bad.md:3")
        assert screen.index("bad.md:3") < screen.index("auto ›")


@pytest.mark.slow
def test_an_allowed_tool_does_not_ask(chat: Open, tmp_path: Path) -> None:
    (tmp_path / "project" / "asking.py").write_text(ASKING)
    with chat("--team", "asking:team", "--allow", "er*") as terminal:
        terminal.wait_for("clerk ›")
        terminal.say("erase it")
        assert "[y]es" not in terminal.wait_for("it says:", "is erased")


@pytest.mark.slow
def test_a_session_can_be_picked_and_continued(chat: Open) -> None:
    with chat() as terminal:
        terminal.wait_for("triage ›")
        terminal.say(ORDER)
        terminal.wait_for(SHIPPED, "orders ›")
        terminal.say("/session new")
        terminal.wait_for("is new")
        terminal.say("@billing refund 1042")
        terminal.wait_for(REFUND, "billing ›")
        terminal.press("C-d")
        terminal.wait_for("EXIT=0")
    with chat("--resume") as terminal:
        screen = terminal.wait_for("Which session?", "orders", "billing")
        assert screen.index("refund 1042") < screen.index(ORDER)
        terminal.press("Down")
        terminal.press("Enter")
        terminal.wait_for("you", ORDER, SHIPPED, "orders ›")
        terminal.say("and 1043?")
        terminal.wait_for("Order 1043 is packing")
    with chat("--resume") as terminal:
        terminal.wait_for("Which session?")
        terminal.press("Escape")
        terminal.wait_for("EXIT=0")


@pytest.mark.slow
def test_rewind_in_a_terminal_goes_back_to_an_earlier_message(chat: Open) -> None:
    with chat() as terminal:
        terminal.wait_for("triage ›")
        terminal.say(ORDER)
        terminal.wait_for(SHIPPED, "orders ›")
        terminal.say("@billing refund 1042")
        terminal.wait_for(REFUND, "billing ›")
        terminal.say("/rewind")
        terminal.wait_for("› 2  refund 1042")
        terminal.press("Enter")
        terminal.wait_for("rewound to before message 2 (refund 1042)", "is unchanged", "orders ›")


@pytest.mark.slow
def test_changed_agents_are_reloaded_between_messages(chat: Open, tmp_path: Path) -> None:
    agents = tmp_path / "project" / ".ekiden" / "agents"
    agents.mkdir(parents=True)
    file = agents / "debugger.md"
    good = "---\nname: debugger\ndescription: {about}\nmodel: demo:offline\n---\nFind bugs.\n"
    file.write_text(good.format(about="Finds bugs."))
    with chat() as terminal:
        terminal.wait_for("auto ›")
        file.write_text(good.format(about="Finds all bugs."))
        terminal.say("@debugger hello")
        terminal.wait_for("reloaded: debugger", "debugger ›")
        file.write_text("---\nname: debugger\nnonsense: 1\n---\n")
        terminal.say("hello again")
        screen = terminal.wait_for("debugger.md:3", "nonsense")
        terminal.say("/agents")
        assert "Finds all bugs." in terminal.wait_for("Finds all bugs.")
        assert "EXIT" not in screen


@pytest.mark.slow
def test_invalid_agent_files_are_listed_before_the_chat_starts(chat: Open, tmp_path: Path) -> None:
    agents = tmp_path / "project" / ".ekiden" / "agents"
    agents.mkdir(parents=True)
    (agents / "bad.md").write_text("---\nname: bad\nnonsense: 1\n---\n")
    with chat(width=200) as terminal:
        screen = terminal.wait_for("EXIT=2", "error[agent.invalid]", "bad.md:3")
        assert "›" not in screen


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_at_the_prompt_restores_the_terminal(chat: Open, number: int, code: int) -> None:
    with chat() as terminal:
        terminal.wait_for("triage ›")
        terminal.say(ORDER)
        terminal.wait_for(SHIPPED, "orders ›")
        os.kill(_child(terminal), number)
        terminal.wait_for(f"EXIT={code}")
        terminal.say("is echoed")
        terminal.wait_until(lambda screen: screen.count("is echoed") == 2)


@pytest.mark.slow
def test_chat_works_in_a_dumb_terminal(chat: Open, tmp_path: Path) -> None:
    (tmp_path / "project" / "writing.py").write_text(WRITER)
    with chat("--team", "writing:team", height=50, TERM="dumb") as terminal:
        terminal.wait_for("writer>")
        terminal.say("write")
        screen = terminal.wait_for("The end.")
        assert "**bold**" in screen
        terminal.press("C-c")
        terminal.wait_for("stopped; /resume continues")
        terminal.press("C-c")
        terminal.wait_for("Ctrl-C again leaves")
        terminal.press("C-c")
        terminal.wait_for("EXIT=0")


@pytest.mark.slow
def test_an_answer_from_another_terminal_continues_the_run_and_keeps_the_input(
    chat: Open, tmp_path: Path
) -> None:
    (tmp_path / "project" / "offers.py").write_text(OFFERS)
    with chat("--team", "offers:team", "--session", "s1") as terminal:
        terminal.wait_for("sales ›")
        terminal.say("an offer")
        terminal.wait_for("sales asks operator: 15 % discount?", "waiting for an answer: /inbox")
        terminal.type("and then")
        terminal.wait_for("sales › and then")
        answer = subprocess.run(
            [*COMMAND, "inbox", "answer", "inb_", "yes", "--by", "mira"],
            cwd=tmp_path / "project",
            env={**os.environ, "HOME": str(tmp_path / "home")},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert answer.returncode == 0, answer.stderr
        screen = terminal.wait_for("yes, says mira", "sales › and then")
        assert screen.index("yes, says mira") < screen.index("sales › and then")
        assert screen.count("and then") == 1, "the prompt was wiped"
        terminal.say(" this")
        terminal.wait_for("heard: and then this")
        terminal.press("C-d")
        terminal.wait_for("EXIT=0")


@pytest.mark.slow
def test_a_question_to_people_is_answered_in_the_chat(chat: Open, tmp_path: Path) -> None:
    (tmp_path / "project" / "offers.py").write_text(OFFERS)
    with chat("--team", "offers:team") as terminal:
        terminal.wait_for("sales ›")
        terminal.say("an offer")
        terminal.wait_for("waiting for an answer: /inbox")
        terminal.type("/inbox answer inb_")
        terminal.wait_for("sales asks operator: 15 % discount?")
        terminal.press("Tab")
        terminal.type(" n")
        terminal.press("Tab")
        terminal.press("Enter")
        terminal.press("Enter")
        terminal.wait_for("answered: no", "no, says ")
        terminal.press("C-d")
        terminal.wait_for("EXIT=0")


@pytest.mark.slow
def test_a_run_in_a_dumb_terminal_continues_below_its_prompt(chat: Open, tmp_path: Path) -> None:
    (tmp_path / "project" / "offers.py").write_text(OFFERS)
    with chat("--team", "offers:team", TERM="dumb") as terminal:
        terminal.wait_for("sales>")
        terminal.say("an offer")
        terminal.wait_for("waiting for operator")
        subprocess.run(
            [*COMMAND, "inbox", "answer", "inb_", "no", "--by", "mira"],
            cwd=tmp_path / "project",
            env={**os.environ, "HOME": str(tmp_path / "home")},
            capture_output=True,
            check=True,
            timeout=60,
        )
        terminal.wait_until(lambda screen: "no, says mira\nsales>" in screen)
        terminal.say("bye")
        terminal.wait_for("heard: bye")
        terminal.press("C-d")
        terminal.wait_for("EXIT=0")
