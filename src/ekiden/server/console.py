"""The console: a web page at `/`, from files in the package.

The files are read once at startup. So all files are from one build, and no other files can be
requested. They contain no user data, so they are public. The page gets its data from the API, with
the rights of its user.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from ekiden.server.access import ASSETS, keep_login
from ekiden.server.configuration import ServerConfig
from ekiden.server.problems import takes_any_query

INDEX: Final = "index.html"
TOKEN: Final = "token"
"""The query parameter with the token of people in the address that `ekiden serve` prints."""
_ROOT_FILES: Final = ("favicon.ico", "favicon.svg")
_PACKAGED: Final = Path(__file__).parent / "static"

_TEXTS: Final = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}
_IMAGES: Final = {".ico": "image/x-icon", ".png": "image/png", ".webp": "image/webp"}
_MEDIA_TYPES: Final = {**_TEXTS, **_IMAGES}
_HASHED: Final = re.compile(r".+-[A-Za-z0-9_-]{8}\.[a-z0-9]+", re.ASCII)
"""A name with a digest of the content in it, as Vite writes it."""
_LEAST_COMPRESSED: Final = 500
"""The minimum size in bytes for compression."""

POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "font-src 'none'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
"""The content security policy. Only the page's own files can run as scripts, and never text of
agents and users."""
_DENIED: Final = (
    "accelerometer", "camera", "display-capture", "geolocation", "gyroscope", "magnetometer",
    "microphone", "midi", "payment", "usb",
)  # fmt: skip
_HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": ", ".join(f"{name}=()" for name in _DENIED),
    "Vary": "Accept-Encoding",
}
_FOR_EVER: Final = "public, max-age=31536000, immutable"
_ASK_AGAIN: Final = "no-cache"


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticFile:
    """A file and its headers."""

    body: bytes
    media_type: str
    etag: str
    caching: str
    is_text: bool


def install(app: Starlette, config: ServerConfig) -> None:
    """Serve the console, if the configuration enables it and its files exist."""
    files = read_files(config)
    app.state.has_console = bool(files)
    if not files:
        return
    site = _Site(files)

    @takes_any_query
    async def page(request: Request) -> Response:
        return _log_person_in(request, config) or await site.answer(request)

    for path in ("/", *(f"/{name}" for name in _ROOT_FILES)):
        app.add_route(path, page, include_in_schema=False)
    app.add_route(f"{ASSETS}{{name:path}}", page, include_in_schema=False)


def _log_person_in(request: Request, config: ServerConfig) -> Response | None:
    """Keep the token of the page's address in a cookie, and remove it from the address."""
    given, wanted = request.query_params.get(TOKEN), config.person_token
    if given is None or wanted is None:
        return None
    response = RedirectResponse("/", status_code=303, headers=_HEADERS)
    if hmac.compare_digest(given.encode("utf-8", "replace"), wanted.encode()):
        keep_login(response, given, request)
    return response


def has_console(config: ServerConfig) -> bool:
    """Whether a server with this configuration has the console."""
    return config.console and (_folder(config) / INDEX).is_file()


def read_files(config: ServerConfig) -> Mapping[str, StaticFile]:
    """The console's files, by the path at which they are served. Empty if there is no console."""
    if not has_console(config):
        return {}
    folder = _folder(config)
    assets = sorted(path for path in (folder / ASSETS.strip("/")).rglob("*") if path.is_file())
    roots = [folder / name for name in _ROOT_FILES if (folder / name).is_file()]
    found = {
        f"/{path.relative_to(folder).as_posix()}": _read(path)
        for path in (*roots, *assets)
        if path.suffix in _MEDIA_TYPES and not path.name.startswith(".")
    }
    return {"/": _read(folder / INDEX), **found}


class _Site:
    """Answers with files, compressed for clients that accept gzip."""

    def __init__(self, files: Mapping[str, StaticFile]) -> None:
        self._files = files
        self._compressed: dict[str, bytes] = {}
        """By path, after the first request."""

    async def answer(self, request: Request) -> Response:
        """The file of the path; 404 if there is none."""
        path = request.scope["path"]
        file = self._files.get(path)
        if file is None:
            raise HTTPException(404)
        headers = {**_HEADERS, "Cache-Control": file.caching, "ETag": file.etag}
        if _knows(request.headers, file.etag):
            return Response(status_code=304, headers=headers)
        body = file.body
        if file.is_text and len(body) >= _LEAST_COMPRESSED and _takes_gzip(request.headers):
            body = await self._gzip(path, file)
            headers["Content-Encoding"] = "gzip"
        return Response(body, headers=headers, media_type=file.media_type)

    async def _gzip(self, path: str, file: StaticFile) -> bytes:
        if path not in self._compressed:
            self._compressed[path] = await asyncio.to_thread(gzip.compress, file.body, mtime=0)
        return self._compressed[path]


def _folder(config: ServerConfig) -> Path:
    return _PACKAGED if config.static is None else config.static


def _read(path: Path) -> StaticFile:
    body = path.read_bytes()
    return StaticFile(
        body=body,
        media_type=_MEDIA_TYPES[path.suffix],
        # Weak, because the compressed and the plain bytes have the same tag.
        etag=f'W/"{hashlib.sha256(body).hexdigest()[:32]}"',
        caching=_FOR_EVER if _HASHED.fullmatch(path.name) else _ASK_AGAIN,
        is_text=path.suffix in _TEXTS,
    )


def _knows(headers: Headers, etag: str) -> bool:
    """Whether the client already has this version of the file."""
    given = [
        each.strip().removeprefix("W/")
        for value in headers.getlist("if-none-match")
        for each in value.split(",")
    ]
    return "*" in given or etag.removeprefix("W/") in given


def _takes_gzip(headers: Headers) -> bool:
    """Whether the client accepts gzip."""
    weights: dict[str, str] = {}
    for value in headers.getlist("accept-encoding"):
        for each in value.lower().split(","):
            coding, _, weight = each.replace(" ", "").partition(";q=")
            weights[coding] = weight or "1"
    weight = weights.get("gzip", weights.get("*", "0"))
    return weight.strip("0.") != ""
