"""Planted secrets, and a team that spills them: where do they turn up?

What a program must keep to itself (`canaries.NOWHERE`: its environment and settings, the keys of
callers, what the words of failures repeat) is found nowhere: no log, trace, event, answer, page,
screen, list of processes or database has it.

What somebody said to an agent, and what a tool was given or gave (`canaries.SAID`), is the
conversation: the model needs it as it was said, also after a restart. So it stands in the database,
and whoever may read the conversation reads it there. It is found in no log, trace, audit record,
metric, list of processes, or anything that is sent to a collector.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from ekiden.cli.errors import Exit
from ekiden.project.keys import KeyStore
from ekiden.project.stores import open_store
from ekiden.testing.servers.loopback import HttpReply, HttpRequest, LoopbackServer
from tests.acceptance.conftest import Ekiden, Ran
from tests.support.canaries import NOWHERE, SAID, plant
from tests.support.forked import ForkedPopen
from tests.support.otlp import OtlpServer

ROOT = Path(__file__).parents[2]
API = "/api/v1"


class Echo(LoopbackServer):
    """Refuses every request, and repeats the credentials that came with it."""

    def __init__(self, also: str) -> None:
        super().__init__()
        self.seen: list[HttpRequest] = []
        self._also = also

    async def handle(self, request: HttpRequest, reply: HttpReply) -> None:
        self.seen.append(request)
        given = request.headers.get("authorization", "")
        message = f"Incorrect API key provided: {given}. {self._also} does not work either."
        await reply.json({"error": {"message": message, "code": "invalid_api_key"}}, status=401)


class Evidence:
    """All that was seen, by where it was seen."""

    def __init__(self, canaries: Mapping[str, str]) -> None:
        self.canaries = canaries
        self.texts: list[tuple[str, bytes]] = []

    def add(self, where: str, text: str | bytes) -> None:
        self.texts.append((where, text.encode() if isinstance(text, str) else text))

    def found(self, names: Mapping[str, Any], *, outside: tuple[str, ...] = ()) -> list[str]:
        """Where which of them were found; places that begin with one of `outside` do not count."""
        return sorted(
            {
                f"{name} in {where}"
                for where, text in self.texts
                if not where.startswith(outside or ("\0",))
                for name in names
                if any(form in text for form in _forms(self.canaries[name]))
            }
        )


def _forms(value: str) -> tuple[bytes, ...]:
    """The secret, and what it looks like in base64, at each of the three places it can begin."""
    shapes = [value.encode()]
    for shift in range(3):
        encoded = base64.b64encode(b"\0" * shift + value.encode())
        shapes.append(encoded[4 if shift else 0 : -4])
    return tuple(shapes)


@pytest.fixture
def canaries() -> dict[str, str]:
    return plant()


def environment(folder: Path, canaries: Mapping[str, str], **more: str) -> dict[str, str]:
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("EKIDEN_", "OTEL_", "OPENAI_"))
    }
    return {
        **inherited,
        "HOME": str(folder),
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")]),
        "LEAKY_CANARIES": str(folder / "canaries.json"),
        "EKIDEN_STORE": str(folder / "s.db"),
        "OPENAI_API_KEY": canaries["env_openai"],
        "ANTHROPIC_API_KEY": canaries["env_anthropic"],
        "GEMINI_API_KEY": canaries["env_google"],
        "AWS_ACCESS_KEY_ID": canaries["env_aws_id"],
        "AWS_SECRET_ACCESS_KEY": canaries["env_aws_secret"],
        "GITHUB_TOKEN": canaries["env_github"],
        "SLACK_BOT_TOKEN": canaries["env_slack"],
        "STRIPE_SECRET_KEY": canaries["env_stripe"],
        "NPM_TOKEN": canaries["env_npm"],
        "DATABASE_URL": f"postgresql://app:{canaries['env_database']}@db.example/shop",
        "VAULT_TOKEN": canaries["tool_env_echo"],
        "PARTNER_TOKEN": canaries["env_partner_token"],
        "OTEL_EXPORTER_OTLP_HEADERS": f"x-collector={canaries['env_otlp_header']}",
        "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "true",
        **more,
    }


class Serving:
    """A server process whose output is kept."""

    def __init__(self, folder: Path, env: Mapping[str, str]) -> None:
        command = [sys.executable, "-m", "ekiden.cli", "serve", "--port", "0", "--json"]
        command += ["--team", "tests.support.leaky_team:team", "--log", "json"]
        self.process = ForkedPopen(
            command, cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        self.log: list[bytes] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        assert self.process.stdout is not None
        self.first = self.process.stdout.readline()
        assert self.first, b"".join(self.log).decode()
        self.url: str = json.loads(self.first)["url"]

    def _read(self) -> None:
        assert self.process.stderr is not None
        self.log.extend(self.process.stderr)

    def stop(self) -> bytes:
        """End it; gives all that it wrote."""
        assert self.process.stdout is not None
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(timeout=60)
        rest = self.process.stdout.read()
        self._reader.join(timeout=60)
        for pipe in (self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()
        return bytes(self.first + rest + b"".join(self.log))


async def make_key(folder: Path) -> str:
    async with open_store(str(folder / "s.db")) as store:
        made = await KeyStore(store).create("ada", scopes=("admin",))
    return made.text


class Caller:
    """Calls the server and keeps what it answers."""

    def __init__(self, client: httpx2.AsyncClient, evidence: Evidence) -> None:
        self._client, self._evidence = client, evidence

    async def __call__(
        self, method: str, path: str, *, as_what: str = "answer", **options: Any
    ) -> httpx2.Response:
        answer = await self._client.request(method, path, **options)
        head = "\n".join(f"{name}: {value}" for name, value in answer.headers.items())
        self._evidence.add(f"{as_what} of {method} {path.partition('?')[0]}", head + answer.text)
        assert answer.status_code < 500 or answer.status_code in (501, 503), answer.text
        return answer

    async def say(self, text: str, session: str, **more: Any) -> Any:
        body = {"input": text, "session_id": session, **more}
        answer = await self("POST", f"{API}/runs", json=body, as_what="conversation")
        return answer.json() if not more.get("stream") else answer.text


@asynccontextmanager
async def everything(folder: Path, canaries: dict[str, str]) -> AsyncIterator[Evidence]:
    """A server in front of which all was done; what was seen of it."""
    evidence = Evidence(canaries)
    async with OtlpServer() as collector, Echo(canaries["provider_echo"]) as provider:
        canaries["good_key"] = await make_key(folder)
        (folder / "canaries.json").write_text(json.dumps(canaries))
        env = environment(
            folder,
            canaries,
            OTEL_EXPORTER_OTLP_ENDPOINT=collector.origin,
            OPENAI_BASE_URL=f"{provider.origin}/v1",
            LEAKY_PARTNER=provider.origin,
        )
        server = await asyncio.to_thread(Serving, folder, env)
        try:
            headers = {"Authorization": f"Bearer {canaries['good_key']}"}
            async with httpx2.AsyncClient(
                base_url=server.url, headers=headers, timeout=60
            ) as client:
                call = Caller(client, evidence)
                await spill(call, canaries)
                await knock(call, server.url, canaries, evidence)
                await read(call)
            for each in _family(server.process.pid):
                evidence.add("process list", each)
            for name in ("", "-wal"):
                path = folder / f"s.db{name}"
                if path.exists():
                    evidence.add(f"database s.db{name}", path.read_bytes())
        finally:
            evidence.add("log", await asyncio.to_thread(server.stop))
        evidence.add("database s.db at the end", (folder / "s.db").read_bytes())
        for request in collector.requests:
            evidence.add("collector", request.body)
        assert collector.spans, "nothing was sent to the collector"
        assert len(provider.seen) >= 2, "provider and partner were asked"
        yield evidence


def _family(pid: int) -> Iterator[bytes]:
    """The command lines of a process and of those that it started."""
    yield Path(f"/proc/{pid}/cmdline").read_bytes()
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            yield from _family(int(child))


async def spill(call: Caller, canaries: Mapping[str, str]) -> None:
    """Make the team do all that it can do wrong."""
    await call.say("do:writes_log", "log")
    for number, name in enumerate(
        ("fails", "fails_to_connect", "fails_below", "ends_the_run", "shows_environment", "notes")
    ):
        await call.say(f"do:{name}", f"s{number}")
    await call.say(f"my key is {canaries['said']}", "said")
    for name in ("uses_key", "makes_certificate"):
        await call.say(f"do:{name}", name, stream=True)
    for name in ("desk", "archive", "cloud", "partner"):
        await call.say(f"do:transfer_to_{name}", f"to-{name}")
    await call.say("hello", "direct", agent="cloud")
    await call.say("guard:refuse", "refused")
    await call.say("guard:crash", "crashed")
    asked = await call.say("do:pays", "pays")
    [item] = asked["questions"]
    note = {"choice": "approve", "text": f"use {canaries['answer_note']}"}
    done = await call("POST", f"{API}/inbox/{item}/answer", json=note, as_what="conversation")
    assert done.status_code == 200, done.text
    await call("GET", f"{API}/runs/pays:1?wait_s=10", as_what="conversation")
    memory = {"key": "k", "content": f"the token is {canaries['remembered']}"}
    stored = await call("POST", f"{API}/memory?user=ada", json=memory, as_what="conversation")
    assert stored.status_code == 201, stored.text


async def knock(call: Caller, url: str, canaries: Mapping[str, str], evidence: Evidence) -> None:
    """Call with secrets in all the places where a request can carry one."""
    for headers in (
        {"Authorization": f"Bearer {canaries['bad_key']}"},
        {"Authorization": "", "X-API-Key": canaries["bad_x_api_key"]},
        {"Authorization": f"Bearer {canaries['bearer_jwt']}"},
        {"Authorization": f"Basic {canaries['basic']}"},
    ):
        for path in (f"{API}/sessions", "/v1/models", "/a2a", "/mcp", "/metrics"):
            method = "POST" if path in ("/a2a", "/mcp") else "GET"
            answer = await call(
                method, path, headers=headers, json={} if method == "POST" else None
            )
            assert answer.status_code == 401, (path, answer.text)
    more = {
        "Cookie": f"session={canaries['cookie']}",
        "Proxy-Authorization": f"Basic {canaries['proxy_authorization']}",
        "X-Vendor-Secret": canaries["other_header"],
        "tracestate": f"vendor={canaries['other_header']}",
    }
    token = f"token={canaries['query_token']}&api_key={canaries['query_token']}"
    await call("GET", f"{API}/sessions?{token}", headers=more)
    await call("GET", f"{API}/nothing?{token}", headers=more)
    await call("POST", f"{API}/runs?{token}", headers=more, json={"input": "hello"})
    await call("POST", f"{API}/runs", json={"input": 7, "password": canaries["body_password"]})
    await call("POST", f"{API}/runs", content=f'{{"password": "{canaries["body_password"]}"')
    chat = {"model": "team", "messages": [{"role": "user", "content": "hello"}]}
    chatted = await call("POST", "/v1/chat/completions", json={**chat, "user": "ada"})
    assert chatted.status_code == 200, chatted.text
    agui = {
        "threadId": "t",
        "runId": "r",
        "messages": [{"id": "m", "role": "user", "content": "hello"}],
        "tools": [],
        "context": [],
        "state": {},
        "forwardedProps": {"token": canaries["agui_forwarded"]},
    }
    shown = await call("POST", f"{API}/agui", json=agui)
    assert "RUN_FINISHED" in shown.text
    message = {
        "messageId": "m1",
        "role": "ROLE_USER",
        "parts": [{"text": "hello"}],
        "metadata": {"key": canaries["a2a_metadata"]},
    }
    push = {"url": "https://hooks.example/x", "token": canaries["a2a_push_token"]}
    for method, params in (
        ("SendMessage", {"message": message, "metadata": message["metadata"]}),
        (
            "SendMessage",
            {"message": message, "configuration": {"taskPushNotificationConfig": push}},
        ),
        ("CreateTaskPushNotificationConfig", {"taskId": "s1:1", **push}),
    ):
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        await call("POST", "/a2a", json=body, headers={"A2A-Version": "1.0"})
    begin = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
        "_meta": {"token": canaries["mcp_meta"]},
    }
    body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": begin}
    accept = {"Accept": "application/json, text/event-stream"}
    begun = await call("POST", "/mcp", json=body, headers=accept)
    assert begun.status_code == 200, begun.text
    await watch(url, canaries, evidence)


async def watch(url: str, canaries: Mapping[str, str], evidence: Evidence) -> None:
    """Look at all events over a WebSocket, with good and bad keys."""
    address = f"{url.replace('http', 'ws')}{API}/events"
    protocols: Any = ["ekiden.v1", f"ekiden.bearer.{canaries['bad_socket_key']}"]
    with pytest.raises(InvalidStatus) as refused:
        async with connect(
            f"{address}?token={canaries['socket_query_token']}", subprotocols=protocols
        ):
            pass
    evidence.add("refused socket", f"{refused.value.response.headers}")
    evidence.add("refused socket", refused.value.response.body)
    protocols = ["ekiden.v1", f"ekiden.bearer.{canaries['good_key']}"]
    async with connect(address, subprotocols=protocols) as socket:
        assert socket.response is not None
        evidence.add("socket", str(socket.response.headers))
        await socket.send(
            json.dumps({"type": "subscribe", "id": "a", "after": "", "follow": False})
        )
        while True:
            text = await socket.recv()
            evidence.add("conversation over a socket", text)
            if json.loads(text)["type"] == "done":
                break


async def read(call: Caller) -> None:
    """Read all that there is to read."""

    async def see(path: str, as_what: str = "answer") -> Any:
        answer = await call("GET", path, as_what=as_what)
        assert answer.status_code == 200, (path, answer.text)
        return answer

    listed = (await see(f"{API}/sessions?limit=1000", "conversation")).json()
    for session in [each["session_id"] for each in listed["items"]]:
        base = f"{API}/sessions/{session}"
        for path in (base, f"{base}/events?limit=1000", f"{base}/export"):
            await see(path, "conversation")
        for query in ("format=json", "format=jsonl", "format=openai", "format=events"):
            await see(f"{API}/traces/{session}?{query}&content=true", "trace")
        await see(f"{API}/traces/{session}/spans", "trace")
    for name in ("metrics", "openapi.json", "docs", "readyz", ".well-known/agent-card.json"):
        await see(f"/{name}")
    for name in ("audit/records", "audit/export", "agents", "settings", "keys", "costs"):
        await see(f"{API}/{name}")
    for name in ("handoff?limit=1000", "handoff/history/triage", "agents/ps"):
        await see(f"{API}/{name}")
    await see(f"{API}/inbox?status=answered", "conversation")


@pytest.mark.slow
async def test_planted_secrets_appear_only_in_their_own_conversation(
    tmp_path: Path, canaries: dict[str, str]
) -> None:
    assert len(canaries) >= 40
    async with everything(tmp_path, canaries) as evidence:
        assert evidence.found(NOWHERE) == []
        assert evidence.found(SAID, outside=("conversation", "database")) == []
        seen = {found.partition(" in ")[0] for found in evidence.found(SAID)}
        assert seen == set(SAID), "what was said is there for whoever reads the conversation"


SETTINGS = """{{
  "mcpServers": {{
    "local": {{
      "command": "false",
      "args": ["--token={mcp_argument}"],
      "env": {{"SERVICE_PASSWORD": "{mcp_env}"}}
    }},
    "far": {{
      "url": "http://app:{mcp_address_password}@127.0.0.1:1/mcp?token={mcp_address_token}",
      "headers": {{"X-Access": "{mcp_header}"}}
    }}
  }}
}}"""
AGENT = """---
name: helper
description: Helps.
model: demo:offline
tools: ["mcp:local/*", "mcp:far/*"]
---
Help.
"""


def commands(ekiden: Ekiden, canaries: Mapping[str, str]) -> Iterator[tuple[str, Ran]]:
    """All sorts of commands, one after the other, and how they ended."""
    store = f"postgresql://app:{canaries['store_password']}@127.0.0.1:1/shop"
    leaky = {"EKIDEN_TEAM": "tests.support.leaky_team:team"}
    away = {"EKIDEN_SERVER": "http://127.0.0.1:1", "EKIDEN_API_KEY": canaries["env_client_key"]}
    orders: list[tuple[tuple[str, ...], dict[str, str]]] = [
        (("doctor",), {}),
        (("doctor", "--json"), {"EKIDEN_STORE": store}),
        (("config", "list"), {}),
        (("config", "list", "--json"), {"EKIDEN_STORE": store}),
        (("agents", "validate"), {}),
        (("agents", "show", "helper", "--json"), {}),
        (("run", "@helper hello"), {}),
        (("session", "list", "--store", store), {}),
        (("session", "list"), away),
        *(
            (("run", "--session", name, f"do:{name}"), leaky)
            for name in ("fails", "fails_below", "ends_the_run", "shows_environment")
        ),
        (("run", "--json", "guard:crash"), leaky),
        (("run", "--session", "to", "do:transfer_to_archive"), leaky),
        (("trace", "ends_the_run"), leaky),
        (("trace", "fails", "--format", "jsonl", "--content"), leaky),
        (("chain", "to", "--json"), leaky),
        (("session", "show", "shows_environment", "--json"), leaky),
        (("session", "export", "fails"), leaky),
        (("audit", "export"), leaky),
        (("handoff", "list", "--json"), leaky),
    ]
    for arguments, env in orders:
        yield " ".join(arguments[:2]), ekiden(*arguments, **env)
    with ekiden.start("serve", "--store", store, "--port", "0") as server:
        assert server.stderr is not None
        said = server.stderr.readline()
        server.terminate()
        out, err = server.communicate(timeout=60)
    assert "waiting for the database" in said
    yield "serve", Ran(code=server.returncode, out=out, err=said + err)
    chat = ekiden("chat", input=b"do:fails\ndo:ends_the_run\n/agents trace\n/exit\n", **leaky)
    yield "chat", chat


@pytest.mark.slow
def test_no_command_shows_a_planted_secret(tmp_path: Path, canaries: dict[str, str]) -> None:
    ekiden, evidence = Ekiden(tmp_path), Evidence(canaries)
    (tmp_path / "canaries.json").write_text(json.dumps(canaries))
    agents = tmp_path / ".ekiden" / "agents"
    agents.mkdir(parents=True)
    (agents / "helper.md").write_text(AGENT)
    (agents.parent / "settings.json").write_text(SETTINGS.format(**canaries))
    ekiden.env = environment(tmp_path, canaries, LEAKY_PARTNER="http://127.0.0.1:1")
    for what, ran in commands(ekiden, canaries):
        evidence.add(what, ran.out + ran.err)
        assert ran.code not in (Exit.INTERNAL, Exit.USAGE), (what, ran)
    for path in tmp_path.glob("s.db*"):
        evidence.add(f"database {path.name}", path.read_bytes())
    assert evidence.found(NOWHERE) == []
    assert evidence.found(SAID) == []
