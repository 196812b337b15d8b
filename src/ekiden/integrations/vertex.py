"""Replicates sessions to Vertex AI Sessions, over its REST API, version ``v1beta1``."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from itertools import groupby
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import urlsplit

from ekiden.core.conversation.model import Item, is_message, text_of
from ekiden.core.errors import UserError
from ekiden.core.errors.stored_data import ReplicaRefused, ReplicaUnavailable
from ekiden.core.integrations.lazy import is_installed
from ekiden.core.values import dumps, loads
from ekiden.sessions.replica import NAME, ReplicatedEvent, ReplicatedSession

if TYPE_CHECKING:
    import httpx2
    from google.auth.credentials import Credentials


MISSING = "mirroring to Vertex needs {}: pip install 'ekiden[vertex]'"

_VERSION = "v1beta1"
_PAGE = 100
_REFUSED = frozenset({400, 413, 422})
_FIRST_POLL_S = 0.1
_LAST_POLL_S = 1.0
_TRANSIENT = frozenset({1, 4, 7, 8, 10, 13, 14, 16})
"""Error codes of operations that may succeed when they are repeated."""
_ALREADY_EXISTS = 6
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
_NAME = re.compile(NAME)

_log = logging.getLogger("ekiden.mirror")

_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
_TIMEOUT_S = 10.0


class _GoogleTokens:
    """The authorization headers for the given credentials, or for those of this machine."""

    def __init__(self, credentials: Credentials | None, *, replica: str) -> None:
        self._credentials = credentials
        self._replica = replica
        self._lock = asyncio.Lock()

    async def headers(self, *, fresh: bool = False) -> Mapping[str, str]:
        """The headers with a valid token, or with a new one. Raises `ReplicaUnavailable`."""
        async with self._lock:
            return await asyncio.to_thread(self._headers, fresh)

    def _headers(self, fresh: bool) -> Mapping[str, str]:
        from google.auth import exceptions

        try:
            credentials = self._load()
            if fresh or not credentials.valid:
                credentials.refresh(_request)
        except exceptions.DefaultCredentialsError as exc:
            raise ReplicaUnavailable(
                self._replica,
                "no credentials: set GOOGLE_APPLICATION_CREDENTIALS, or call "
                f"`gcloud auth application-default login` ({exc!s:.200})",
            ) from exc
        except (exceptions.GoogleAuthError, OSError, ValueError) as exc:
            raise ReplicaUnavailable(self._replica, f"no token: {exc!s:.300}") from exc
        headers = {"authorization": f"Bearer {credentials.token}"}
        project = getattr(credentials, "quota_project_id", None)
        if project:
            headers["x-goog-user-project"] = project
        return headers

    def _load(self) -> Any:
        if self._credentials is None:
            import google.auth

            request: Any = _request
            self._credentials, _ = google.auth.default(scopes=[_SCOPE], request=request)
        return self._credentials


class _Response:
    """A ``google.auth.transport.Response``."""

    def __init__(self, status: int, headers: Mapping[str, str], data: bytes) -> None:
        self.status, self.headers, self.data = status, headers, data


def _request(
    url: str,
    method: str = "GET",
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    timeout: float | None = None,
    **_: Any,
) -> _Response:
    """A ``google.auth.transport.Request``."""
    import httpx2
    from google.auth import exceptions

    try:
        answer = httpx2.request(
            method, url, content=body, headers=dict(headers or {}), timeout=timeout or _TIMEOUT_S
        )
    except httpx2.HTTPError as exc:
        failed: Any = exceptions.TransportError
        raise failed(exc) from exc
    return _Response(answer.status_code, answer.headers, answer.content)


class VertexReplica:
    """A `SessionReplica` that copies sessions to an agent engine of Vertex AI.

    For example::

        mirror = VertexReplica(project="my-project", location="us-central1", engine="4711")
        await replicate_sessions(store, mirror, once=True)

    The id of the Vertex AI session is computed from the session's id, so that the session is
    created only once. If Vertex AI does not accept this id, Ekiden stores the name that Vertex AI
    returns. The ``invocationId`` of an event in Vertex AI is the event's id in Ekiden. Before
    Ekiden repeats a request, it checks whether Vertex AI already has an event with this
    ``invocationId``. By default the credentials of this machine are used (``google-auth``).
    `timeout_s` is the timeout of each request.
    """

    def __init__(
        self,
        *,
        project: str,
        engine: str,
        location: str = "us-central1",
        url: str | None = None,
        credentials: Credentials | None = None,
        timeout_s: float = 10.0,
    ) -> None:
        for module in ("google.auth", "httpx2"):
            if not is_installed(module):
                raise UserError(MISSING.format(module))
        for field, value in (("project", project), ("location", location), ("engine", engine)):
            if not isinstance(value, str) or not _NAME.fullmatch(value):
                raise UserError(f"{value!r:.80} cannot be the {field} of a mirror in Vertex")
        self._parent = f"projects/{project}/locations/{location}/reasoningEngines/{engine}"
        self.name = f"vertex:{self._parent}"
        self._url = _checked(url or _endpoint(location))
        self._tokens = _GoogleTokens(credentials, replica=self.name)
        self._timeout_s = timeout_s
        self._client: httpx2.AsyncClient | None = None

    async def send(self, session: ReplicatedSession, event: ReplicatedEvent, *, again: bool) -> Any:
        """See `SessionReplica.send`."""
        try:
            return {"name": await self._send(session, wire_events(event), again=again)}
        except (_NotFoundError, _ExistsError) as exc:
            raise ReplicaUnavailable(self.name, f"{exc}; is there such an engine?") from exc

    async def close(self) -> None:
        """See `SessionReplica.close`."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def _send(
        self, session: ReplicatedSession, wires: Sequence[Mapping[str, Any]], *, again: bool
    ) -> str:
        """Append the events that Vertex AI does not have yet; returns the name of its session."""
        name, is_new = (session.kept or {}).get("name"), False
        if name is None:
            name, is_new = await self._open(session)
        if again and not is_new and wires:
            # The first attempt may have stored some of the events, in order.
            try:
                wires = wires[await self._count(name, wires[0]) :]
            except _NotFoundError:
                name = await self._open_anew(session)
        for wire in wires:
            try:
                await self._append(name, wire)
            except _NotFoundError:
                name = await self._open_anew(session)
                await self._append(name, wire)
        return name

    async def _append(self, name: str, wire: Mapping[str, Any]) -> None:
        await self._call("POST", f"{name}:appendEvent", body=wire)

    async def _count(self, name: str, first: Mapping[str, Any]) -> int:
        """The number of stored parts of the event that begins with `first`."""
        count = 0
        since = {"filter": f'timestamp>="{first["timestamp"]}"'}
        async for each in self._listed(f"{name}/events", "sessionEvents", since):
            count += each.get("invocationId") == first["invocationId"]
        return count

    async def _open_anew(self, session: ReplicatedSession) -> str:
        _log.warning("%s: the session %s is gone there and is created again", self.name, session.id)
        name, _ = await self._open(session)
        return name

    async def _open(self, session: ReplicatedSession) -> tuple[str, bool]:
        """Create the session if needed; returns its name, and whether it is new."""
        session_id = _vertex_session_id(session)
        body = {"userId": _user_of(session), "displayName": _clean(session.id)}
        name = f"{self._parent}/sessions/{session_id}"
        try:
            return await self._create(body, {"sessionId": session_id}) or name, True
        except _ExistsError:
            return name, False
        except ReplicaRefused as exc:
            if "sessionId" not in exc.problem and "session_id" not in exc.problem:
                raise
        return await self._open_by_display_name({**body, "displayName": session_id})

    async def _open_by_display_name(self, body: Mapping[str, Any]) -> tuple[str, bool]:
        """Like `_open`, for a server that does not accept our session ids."""
        wanted = body["displayName"]
        where = {"filter": f"display_name={dumps(wanted)}"}
        async for each in self._listed(f"{self._parent}/sessions", "sessions", where):
            if each.get("displayName") == wanted and isinstance(each.get("name"), str):
                return each["name"], False
        name = await self._create(body, {})
        if name is None:
            raise ReplicaUnavailable(self.name, "a session without a name was created")
        return name, True

    async def _create(self, body: Mapping[str, Any], params: Mapping[str, str]) -> str | None:
        """Create a session and wait for the operation; returns the name if it is known."""
        operation = await self._call("POST", f"{self._parent}/sessions", body=body, params=params)
        pause_s = _FIRST_POLL_S
        try:
            async with asyncio.timeout(2 * self._timeout_s):
                while not operation.get("done"):
                    await asyncio.sleep(pause_s)
                    pause_s = min(2 * pause_s, _LAST_POLL_S)
                    operation = await self._call("GET", _operation(operation, self.name))
        except TimeoutError as exc:
            raise ReplicaUnavailable(self.name, "creating a session takes too long") from exc
        error = operation.get("error")
        if error:
            self._failed_operation(error)
        name = (operation.get("response") or {}).get("name")
        return name if isinstance(name, str) and name.startswith("projects/") else None

    def _failed_operation(self, error: Mapping[str, Any]) -> NoReturn:
        code, problem = error.get("code"), f"no session was made: {error.get('message')!s:.300}"
        if code == _ALREADY_EXISTS:
            raise _ExistsError(problem)
        if code in _TRANSIENT:
            raise ReplicaUnavailable(self.name, problem)
        raise ReplicaRefused(self.name, problem)

    async def _listed(
        self, path: str, field: str, params: Mapping[str, str]
    ) -> AsyncIterator[Mapping[str, Any]]:
        """The items of all pages of a list."""
        token = ""
        while True:
            query = {**params, "pageSize": str(_PAGE), **({"pageToken": token} if token else {})}
            page = await self._call("GET", path, params=query)
            for each in page.get(field) or ():
                yield each
            token = page.get("nextPageToken") or ""
            if not token:
                return

    async def _call(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        answer = await self._request(method, path, params, body, fresh=False)
        if answer.status_code == 401:  # The token may have been revoked before its end.
            answer = await self._request(method, path, params, body, fresh=True)
        if answer.is_success:
            try:
                found = answer.json()
            except ValueError as exc:
                raise ReplicaUnavailable(self.name, "its answer cannot be read") from exc
            return found if isinstance(found, dict) else {}
        problem = f"it answered {answer.status_code}: {_message(answer)}"
        match answer.status_code:
            case 404:
                raise _NotFoundError(problem)
            case 409:
                raise _ExistsError(problem)
            case status if status in _REFUSED:
                raise ReplicaRefused(self.name, problem)
        raise ReplicaUnavailable(self.name, problem, retry_after_s=_retry_after(answer))

    async def _request(
        self,
        method: str,
        path: str,
        params: Mapping[str, str] | None,
        body: Mapping[str, Any] | None,
        *,
        fresh: bool,
    ) -> httpx2.Response:
        import httpx2

        headers = {**await self._tokens.headers(fresh=fresh), "accept": "application/json"}
        if body is not None:
            headers["content-type"] = "application/json"
        if self._client is None:
            self._client = httpx2.AsyncClient(timeout=self._timeout_s)
        try:
            return await self._client.request(
                method,
                f"{self._url}/{_VERSION}/{path}",
                params=dict(params or {}),
                content=None if body is None else dumps(body).encode(),
                headers=headers,
            )
        except httpx2.TimeoutException as exc:
            problem = f"no answer within {self._timeout_s:g} seconds"
            raise ReplicaUnavailable(self.name, problem) from exc
        except httpx2.HTTPError as exc:
            raise ReplicaUnavailable(self.name, f"{type(exc).__name__}: {exc!s:.300}") from exc


class _NotFoundError(Exception):
    """The session or engine does not exist in Vertex AI."""


class _ExistsError(Exception):
    """The session exists already."""


def _endpoint(location: str) -> str:
    host = "aiplatform.googleapis.com"
    return f"https://{host}" if location == "global" else f"https://{location}-{host}"


def _checked(url: str) -> str:
    # Tokens are sent to this address: unencrypted only to this machine.
    try:
        parts = urlsplit(url)
        is_safe = parts.scheme == "https" or (
            parts.scheme == "http" and parts.hostname in _LOOPBACK
        )
        fits = is_safe and parts.hostname and not (parts.query or parts.fragment or parts.username)
    except ValueError:
        fits = False
    if not fits:
        raise UserError("the URL of a mirror in Vertex must look like https://host")
    return url.rstrip("/")


def _operation(operation: Mapping[str, Any], replica: str) -> str:
    name = operation.get("name")
    if not isinstance(name, str) or not name.startswith("projects/"):
        raise ReplicaUnavailable(replica, "the operation that creates a session has no name")
    return name


def _message(answer: httpx2.Response) -> str:
    try:
        return f"{answer.json()['error']['message']!s:.300}"
    except (ValueError, KeyError, TypeError):
        return answer.text[:300]


def _retry_after(answer: httpx2.Response) -> float | None:
    try:
        seconds = float(answer.headers.get("retry-after", ""))
    except ValueError:
        return None
    return seconds if 0 <= seconds < 1e6 else None


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_USER, _MODEL = "user", "model"


def _vertex_session_id(session: ReplicatedSession) -> str:
    # Vertex AI accepts up to 63 characters of a-z0-9-, and the first must be a letter.
    text = f"{session.created_at_us}/{session.id}"
    return f"ekiden-{sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:40]}"


def _user_of(session: ReplicatedSession) -> str:
    """The user of the session. A session without a user gets its own user id."""
    return _clean(session.user_id) if session.user_id else _vertex_session_id(session)


def wire_events(event: ReplicatedEvent) -> list[dict[str, Any]]:
    """Convert the event to ``SessionEvent`` objects. Consecutive items of the same author are in
    one object.

    The ``invocationId`` of all objects is the event's id, so that a repeated request finds them.
    Reasoning is not sent. Images and files are replaced with a placeholder.
    """
    contents = [
        (speaker, {"role": speaker[1], "parts": [part for _, parts in group for part in parts]})
        for speaker, group in groupby(_parts_by_author(event), key=lambda each: each[0])
    ]
    wires: list[dict[str, Any]] = [
        {**_head(event, author, number), "content": content}
        for number, ((author, _), content) in enumerate(contents)
    ]
    if event.state:
        if not wires:
            wires.append(_head(event, event.agent, 0))
        wires[-1]["actions"] = {"stateDelta": dict(event.state)}
    return [_clean(wire) for wire in wires]


def _clean(value: Any) -> Any:
    """`value` without lone surrogates, which are not valid in UTF-8."""
    if isinstance(value, str):
        return (
            value
            if value.isascii()
            else value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        )
    if isinstance(value, Mapping):
        return {_clean(name): _clean(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(each) for each in value]
    return value


def _head(event: ReplicatedEvent, author: str, number: int) -> dict[str, Any]:
    moment = _EPOCH + timedelta(microseconds=event.at_us + number)
    return {
        "author": author,
        "invocationId": event.id,
        "timestamp": moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
    }


def _parts_by_author(
    event: ReplicatedEvent,
) -> Iterator[tuple[tuple[str, str], list[dict[str, Any]]]]:
    """The author and role of each item, with its parts."""
    for item in event.items:
        parts = list(_parts(item, event.tools))
        if not parts:
            continue
        if is_message(item) and item.get("role") == _USER:
            yield (_USER, _USER), parts
        elif item.get("role") == "assistant" or item.get("type") == "function_call":
            yield (event.agent, _MODEL), parts
        else:
            yield (event.agent, _USER), parts


def _parts(item: Item, tools: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    kind = item.get("type")
    if kind == "function_call":
        call = {"id": item.get("call_id"), "name": item.get("name")}
        yield {"functionCall": {**call, "args": _arguments(item.get("arguments"))}}
    elif kind == "function_call_output":
        call_id = str(item.get("call_id"))
        answer = {"id": call_id, "name": tools.get(call_id, "unknown")}
        yield {"functionResponse": {**answer, "response": {"output": item.get("output")}}}
    elif is_message(item):
        yield from _message_parts(item)


def _message_parts(item: Item) -> Iterator[dict[str, Any]]:
    content = item.get("content")
    if not isinstance(content, list):
        if whole := text_of(item):
            yield {"text": whole}
        return
    for part in content:
        kind = part.get("type", "") if isinstance(part, Mapping) else ""
        text = part.get("text") or part.get("refusal") if isinstance(part, Mapping) else part
        if isinstance(text, str) and text:
            yield {"text": text}
        elif kind.startswith("input_") and kind != "input_text":
            yield {"text": f"[{kind.removeprefix('input_')}]"}


def _arguments(text: Any) -> dict[str, Any]:
    """The arguments as an object. Other JSON or invalid JSON becomes the field `arguments`."""
    try:
        value = loads(text) if isinstance(text, str) else text
    except ValueError:
        value = text
    if isinstance(value, dict):
        return value
    return {} if value is None or value == "" else {"arguments": value}
