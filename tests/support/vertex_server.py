"""A server on loopback that is Vertex AI Sessions, with the place where tokens are had."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from ekiden.testing.servers.loopback import HttpRequest
from tests.support.vendor import Refused, Trouble, VendorServer

PARENT = "projects/desk-1/locations/us-central1/reasoningEngines/4711"
POISON = "POISON"
"""An event that says this is refused."""

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
_SESSION_ID = re.compile(r"[a-z][a-z0-9-]{0,61}[a-z0-9]")
_EVENT = {"author", "invocationId", "timestamp", "content", "actions"}


class VertexServer(VendorServer):
    """One engine with its sessions; it looks at everything that it is sent."""

    def __init__(
        self,
        *,
        ids: bool = True,
        looks: int = 0,
        page: int = 100,
        troubles: Sequence[Trouble] = (),
    ) -> None:
        """`ids`: whether a session's id can be chosen; `looks`: how often one has to look until a
        session is made; `page`: how long a page is at most."""
        super().__init__(troubles)
        self._ids, self._looks, self._page = ids, looks, page
        self.sessions: dict[str, dict[str, Any]] = {}
        """By name."""
        self.events: dict[str, list[dict[str, Any]]] = {}
        """By the session's name, as they came."""
        self.tokens = 0
        """How many tokens were given; only the last one holds."""
        self.spares_tokens = False
        """Whether tokens can be had whatever trouble there is."""
        self._being_made: dict[str, int] = {}

    def error(self, code: int, message: str) -> Any:
        return {"error": {"code": code, "message": message, "status": "SCRIPTED"}}

    def is_spared(self, request: HttpRequest) -> bool:
        return self.spares_tokens and request.path == "/token"

    def said(self) -> list[str]:
        """All texts that came, session after session, in order."""
        return [
            part["text"]
            for events in self.events.values()
            for event in events
            for part in event.get("content", {}).get("parts", ())
            if "text" in part
        ]

    async def answer(self, request: HttpRequest) -> Any:
        if request.path == "/token":
            return self._token(request)
        assert request.headers["accept"] == "application/json"
        scheme, _, token = request.headers["authorization"].partition(" ")
        assert scheme == "Bearer"
        if token not in (f"token-{self.tokens}", "fixed"):
            raise Refused(401, "Request had invalid authentication credentials.")
        assert request.path.startswith("/v1beta1/")
        path = request.path.removeprefix("/v1beta1/")
        query = {name: value for name, [value] in parse_qs(request.query).items()}
        if not path.startswith(f"{PARENT}/sessions"):
            raise Refused(404, "no such engine")
        rest = path.removeprefix(f"{PARENT}/sessions").strip("/")
        if request.method == "POST":
            assert request.headers["content-type"] == "application/json"
            body = json.loads(request.body.decode("utf-8"))
            if not rest:
                return self._create(body, query)
            name, colon, verb = path.rpartition(":")
            assert (colon, verb, query) == (":", "appendEvent", {})
            return self._append(name, body)
        assert request.method == "GET"
        assert not request.body
        if not rest:
            return self._list_sessions(query)
        if rest.endswith("/events"):
            return self._list_events(path.removesuffix("/events"), query)
        assert "/operations/" in rest
        return self._look(path)

    def _token(self, request: HttpRequest) -> Any:
        assert request.method == "POST"
        form = parse_qs(request.body.decode())
        assert form["grant_type"] == ["urn:ietf:params:oauth:grant-type:jwt-bearer"]
        assert form["assertion"][0].count(".") == 2
        self.tokens += 1
        return {
            "access_token": f"token-{self.tokens}",
            "expires_in": 3600,
            "token_type": "Bearer",
        }

    def _create(self, body: Any, query: dict[str, str]) -> Any:
        assert set(body) == {"userId", "displayName"}
        assert body["userId"]
        assert set(query) <= {"sessionId"}
        wanted = query.get("sessionId")
        if wanted is not None and not self._ids:
            raise Refused(400, 'Invalid JSON payload received. Unknown name "sessionId"')
        assert wanted is None or _SESSION_ID.fullmatch(wanted)
        name = f"{PARENT}/sessions/{wanted or len(self.sessions) + 9000}"
        if name in self.sessions:
            raise Refused(409, "Session already exists")
        self.sessions[name] = {"name": name, **body}
        self.events[name] = []
        self._being_made[f"{name}/operations/1"] = self._looks
        return self._look(f"{name}/operations/1")

    def _look(self, path: str) -> Any:
        left = self._being_made[path]
        self._being_made[path] = left - 1
        if left > 0:
            return {"name": path, "metadata": {}}
        session = self.sessions[path.partition("/operations/")[0]]
        return {"name": path, "metadata": {}, "done": True, "response": session}

    def _append(self, name: str, body: Any) -> Any:
        if name not in self.sessions:
            raise Refused(404, "Session not found")
        assert set(body) <= _EVENT
        assert body["author"]
        assert body["invocationId"]
        assert _TIME.fullmatch(body["timestamp"])
        assert {"content", "actions"} & set(body)
        if "content" in body:
            _check_content(body["content"])
        if "actions" in body:
            assert set(body["actions"]) == {"stateDelta"}
            assert isinstance(body["actions"]["stateDelta"], dict)
        json.dumps(body, ensure_ascii=False).encode("utf-8")
        if POISON in json.dumps(body):
            raise Refused(400, "Request contains an invalid argument.")
        self.events[name].append(body)
        return {}

    def _list_sessions(self, query: dict[str, str]) -> Any:
        assert set(query) <= {"filter", "pageSize", "pageToken"}
        wanted = re.fullmatch(r'display_name="(.*)"', query["filter"])
        assert wanted
        found = [each for each in self.sessions.values() if each["displayName"] == wanted[1]]
        return self._paged("sessions", found, query)

    def _list_events(self, name: str, query: dict[str, str]) -> Any:
        if name not in self.sessions:
            raise Refused(404, "Session not found")
        assert set(query) <= {"filter", "pageSize", "pageToken"}
        since = re.fullmatch(r'timestamp>="(.*)"', query["filter"])
        assert since
        assert _TIME.fullmatch(since[1])
        found = [each for each in self.events[name] if each["timestamp"] >= since[1]]
        return self._paged("sessionEvents", found, query)

    def _paged(self, field: str, found: list[Any], query: dict[str, str]) -> Any:
        start = int(query.get("pageToken", "0"))
        end = start + min(int(query["pageSize"]), self._page)
        page: dict[str, Any] = {field: found[start:end]} if found else {}
        return {**page, "nextPageToken": str(end)} if end < len(found) else page


def _check_content(content: Any) -> None:
    assert set(content) == {"role", "parts"}
    assert content["role"] in ("user", "model")
    assert content["parts"]
    for part in content["parts"]:
        [(kind, value)] = part.items()
        match kind:
            case "text":
                assert isinstance(value, str)
                assert value
            case "functionCall":
                assert set(value) == {"id", "name", "args"}
                assert isinstance(value["args"], dict)
            case "functionResponse":
                assert set(value) == {"id", "name", "response"}
                assert isinstance(value["response"], dict)
            case _:
                raise AssertionError(f"no such part: {kind}")


def service_account(folder: Path, server: VertexServer, **more: str) -> Path:
    """A key file of a service account whose tokens come from the server."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    info = {
        "type": "service_account",
        "project_id": "desk-1",
        "private_key_id": "1",
        "private_key": pem.decode(),
        "client_email": "mirror@desk-1.iam.gserviceaccount.com",
        "client_id": "1",
        "token_uri": f"{server.origin}/token",
        **more,
    }
    path = folder / "service-account.json"
    path.write_text(json.dumps(info))
    return path
