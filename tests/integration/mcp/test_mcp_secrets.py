"""What an MCP server is given to be let in with does not come back through its tools."""

from __future__ import annotations

import sys
from pathlib import Path

from ekiden import Agent, McpTools, MemoryStore, Runner, Session, parse_mcp_servers
from ekiden.core.privacy.masking import MASK
from ekiden.core.values import dumps
from ekiden.testing import ScriptedModel, call, say
from tests.support.canaries import plain

SERVER = Path(__file__).parents[2] / "support" / "mcp_server.py"


async def test_a_password_repeated_by_a_server_is_masked(tmp_path: Path) -> None:
    secret = plain()
    servers, problems = parse_mcp_servers(
        {
            "leaky": {
                "command": sys.executable,
                "args": [str(SERVER), "stdio"],
                "env": {"SHOP_PASSWORD": secret, "MODE": "verbose"},
            }
        }
    )
    assert not problems
    steps = [
        call("leaky__variable", name="SHOP_PASSWORD"),
        call("leaky__variable", name="MODE"),
        call("leaky__fail", why=f"bad login with {secret}"),
        say("done"),
    ]
    model, store = ScriptedModel(steps), MemoryStore()
    async with McpTools(servers, root=tmp_path, ask=False) as mcp:
        clerk = Agent("clerk", model=model, tools=await mcp.tools_for(["mcp:leaky/*"]))
        session = Session("s", store=store)
        await Runner.run(clerk, "go", session=session)
        events = await session.events()
    told = [event.items[0]["output"] for event in events if event.type == "tool_call"]
    assert MASK in str(told[0])
    assert "verbose" in str(told[1])
    assert secret not in str(told)
    assert secret not in dumps([event.error for event in events])
