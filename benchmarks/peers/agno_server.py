"""An agent of agno behind AgentOS, for `clients.py`: one tool call and an answer, stored in SQLite.

    python benchmarks/peers/agno_server.py PORT FILE|none

Needs `pip install agno fastapi uvicorn uvloop httptools 'sqlalchemy[asyncio]' aiosqlite
python-multipart` in an environment of its own.
"""

import sys

import uvicorn
from agno.agent import Agent
from agno.db.sqlite import AsyncSqliteDb
from agno.models.base import Model
from agno.models.response import ModelResponse
from agno.os import AgentOS

CALL = {"name": "lookup", "arguments": '{"order":"1042"}'}


def lookup(order: str) -> str:
    """Look an order up."""
    return f"{order} is on its way"


class Scripted(Model):
    """Calls the tool, then answers."""

    def invoke(self, messages, assistant_message, **_):
        if messages[-1].role == "tool":
            return ModelResponse(role="assistant", content="1042 is on its way")
        call = {"id": "c2", "type": "function", "function": CALL}
        return ModelResponse(role="assistant", tool_calls=[call])

    async def ainvoke(self, messages, assistant_message, **_):
        return self.invoke(messages, assistant_message)

    def invoke_stream(self, messages, assistant_message, **_):
        yield self.invoke(messages, assistant_message)

    async def ainvoke_stream(self, messages, assistant_message, **_):
        yield self.invoke(messages, assistant_message)

    def _parse_provider_response(self, response, **_):
        return response

    def _parse_provider_response_delta(self, response):
        return response


port, file = sys.argv[1:]
agent = Agent(
    id="desk",
    name="desk",
    model=Scripted(id="scripted"),
    tools=[lookup],
    db=None if file == "none" else AsyncSqliteDb(db_file=file),
    telemetry=False,
)
app = AgentOS(agents=[agent], telemetry=False).get_app()
uvicorn.run(app, port=int(port), log_level="error", access_log=False)
