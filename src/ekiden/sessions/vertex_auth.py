"""Who asks Vertex: tokens from ``google-auth``, refreshed in a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ekiden.core.errors.mirror import MirrorUnavailable

if TYPE_CHECKING:
    from google.auth.credentials import Credentials

_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
_TIMEOUT_S = 10.0


class GoogleTokens:
    """The headers that say who asks, of given credentials or of those of this machine."""

    def __init__(self, credentials: Credentials | None, *, who: str) -> None:
        self._credentials = credentials
        self._who = who
        self._lock = asyncio.Lock()

    async def headers(self, *, fresh: bool = False) -> Mapping[str, str]:
        """With a token that holds, or with a new one; `MirrorUnavailable` if there is none."""
        async with self._lock:
            return await asyncio.to_thread(self._headers, fresh)

    def _headers(self, fresh: bool) -> Mapping[str, str]:
        from google.auth import exceptions

        try:
            credentials = self._found()
            if fresh or not credentials.valid:
                credentials.refresh(_request)
        except exceptions.DefaultCredentialsError as exc:
            raise MirrorUnavailable(
                self._who,
                "no credentials: set GOOGLE_APPLICATION_CREDENTIALS, or call "
                f"`gcloud auth application-default login` ({exc!s:.200})",
            ) from exc
        except (exceptions.GoogleAuthError, OSError, ValueError) as exc:
            raise MirrorUnavailable(self._who, f"no token: {exc!s:.300}") from exc
        headers = {"authorization": f"Bearer {credentials.token}"}
        project = getattr(credentials, "quota_project_id", None)
        if project:
            headers["x-goog-user-project"] = project
        return headers

    def _found(self) -> Any:
        if self._credentials is None:
            import google.auth

            request: Any = _request
            self._credentials, _ = google.auth.default(scopes=[_SCOPE], request=request)
        return self._credentials


class _Answer:
    """What ``google.auth.transport.Response`` asks for."""

    def __init__(self, status: int, headers: Mapping[str, str], data: bytes) -> None:
        self.status, self.headers, self.data = status, headers, data


def _request(
    url: str,
    method: str = "GET",
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    timeout: float | None = None,
    **_: Any,
) -> _Answer:
    """What ``google.auth.transport.Request`` is."""
    import httpx2
    from google.auth import exceptions

    try:
        answer = httpx2.request(
            method, url, content=body, headers=dict(headers or {}), timeout=timeout or _TIMEOUT_S
        )
    except httpx2.HTTPError as exc:
        failed: Any = exceptions.TransportError
        raise failed(exc) from exc
    return _Answer(answer.status_code, answer.headers, answer.content)
