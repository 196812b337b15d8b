"""The console's files."""

from __future__ import annotations

import gzip
import re
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest
from fastapi import FastAPI

from ekiden.server import ServerConfig
from ekiden.server.console import has_console, read_files
from tests.support.serving import application, client_of
from tests.unit.server.keyed import bearer, is_problem, make_key

SCRIPT = "/assets/index-Bf_3x-9Z.js"
LOGO = "assets/logo-12345678.png"
FILES = {
    "index.html": b'<!doctype html><script type="module" src="/assets/index-Bf_3x-9Z.js"></script>',
    "favicon.svg": b'<svg xmlns="http://www.w3.org/2000/svg"/>',
    "assets/index-Bf_3x-9Z.js": b"console.log('ekiden');\n" * 100,
    "assets/index-C0ffee99.css": b"body { margin: 0 }",
    "assets/words/zh.json": '{"inbox": "收件箱"}'.encode() * 50,
    LOGO: b"\x89PNG" + bytes(1000),
    "assets/notes.md": b"not for anybody",
    "assets/.env": b"SECRET=1",
    "assets/.secret.js": b"SECRET=1",
    "secret.json": b"{}",
    "nested/more.js": b"1",
}
EVER = "public, max-age=31536000, immutable"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, body in FILES.items():
        path = tmp_path / "site" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)
    (tmp_path / "outside.js").write_bytes(b"outside")
    return tmp_path / "site"


@pytest.fixture
async def app(tmp_path: Path, folder: Path) -> AsyncIterator[FastAPI]:
    config = ServerConfig(static=folder)
    async with application(tmp_path, workers=0, config=config) as running:
        await make_key(running)
        yield running


@pytest.fixture
async def client(app: FastAPI) -> AsyncIterator[httpx2.AsyncClient]:
    async with client_of(app) as caller:
        yield caller


@pytest.mark.parametrize(
    ("path", "name", "kind", "caching"),
    [
        ("/", "index.html", "text/html; charset=utf-8", "no-cache"),
        ("/favicon.svg", "favicon.svg", "image/svg+xml", "no-cache"),
        (SCRIPT, SCRIPT[1:], "text/javascript; charset=utf-8", EVER),
        (
            "/assets/index-C0ffee99.css",
            "assets/index-C0ffee99.css",
            "text/css; charset=utf-8",
            EVER,
        ),
        ("/assets/words/zh.json", "assets/words/zh.json", "application/json", "no-cache"),
        (f"/{LOGO}", LOGO, "image/png", EVER),
    ],
)
async def test_console_files_need_no_key(
    client: httpx2.AsyncClient, path: str, name: str, kind: str, caching: str
) -> None:
    found = await client.get(path)
    assert (found.status_code, found.content) == (200, FILES[name])
    assert found.headers["content-type"] == kind
    assert found.headers["cache-control"] == caching
    assert found.headers["vary"] == "Accept-Encoding"
    assert "set-cookie" not in found.headers
    head = await client.head(path)
    assert head.status_code == 200
    for each in ("content-type", "content-length", "etag", "cache-control"):
        assert head.headers[each] == found.headers[each]


@pytest.mark.parametrize("path", ["/", SCRIPT, "/assets/words/zh.json", "/favicon.svg"])
async def test_the_content_security_policy_allows_only_the_consoles_own_code(
    client: httpx2.AsyncClient, path: str
) -> None:
    headers = (await client.get(path)).headers
    assert headers.get_list("content-security-policy") == [
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; font-src 'none'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    ]
    assert headers.get_list("x-content-type-options") == ["nosniff"]
    assert headers.get_list("referrer-policy") == ["no-referrer"]
    assert headers.get_list("cross-origin-opener-policy") == ["same-origin"]
    assert headers.get_list("x-frame-options") == ["DENY"]
    for feature in ("camera", "microphone", "geolocation", "usb", "payment"):
        assert f"{feature}=()" in headers["permissions-policy"]


@pytest.mark.parametrize(
    "path",
    [
        "/favicon.ico",
        "/assets/",
        "/assets/nonesuch.js",
        "/assets/words",
        "/assets/notes.md",
        "/assets/.env",
        "/assets/.secret.js",
        "/assets/index.html",
        "/assets/%2e%2e/index.html",
        "/assets/%2e%2e%2fsecret.json",
        "/assets/..%2f..%2foutside.js",
        "/assets/%2fetc%2fpasswd",
        "/assets//index-Bf_3x-9Z.js",
        "/assets/INDEX-Bf_3x-9Z.js",
        "/assets/index-Bf_3x-9Z.js%00",
        "/assets/index-Bf_3x-9Z.js/",
        "/assets/words%5czh.json",
    ],
)
async def test_other_files_of_the_folder_are_not_served(
    client: httpx2.AsyncClient, path: str
) -> None:
    assert is_problem(await client.get(path), 404, "request.not_found")


@pytest.mark.parametrize("path", ["/index.html", "/secret.json", "/nested/more.js", "/assets"])
async def test_other_paths_still_need_a_key(client: httpx2.AsyncClient, path: str) -> None:
    assert is_problem(await client.get(path), 401, "auth.required")


@pytest.mark.parametrize("path", ["/", SCRIPT])
async def test_console_files_can_only_be_read(
    app: FastAPI, client: httpx2.AsyncClient, path: str
) -> None:
    assert is_problem(await client.post(path, json={}), 401, "auth.required")
    made = await make_key(app)
    found = await client.post(path, json={}, headers=bearer(made))
    assert is_problem(found, 405, "request.method_not_allowed")


async def test_a_file_added_later_is_not_served(client: httpx2.AsyncClient, folder: Path) -> None:
    (folder / "assets" / "late-12345678.js").write_bytes(b"1")
    (folder / SCRIPT[1:]).write_bytes(b"another build")
    assert (await client.get("/assets/late-12345678.js")).status_code == 404
    assert (await client.get(SCRIPT)).content == FILES[SCRIPT[1:]]


async def test_a_cached_file_is_answered_with_not_modified(client: httpx2.AsyncClient) -> None:
    for path in ("/", SCRIPT):
        first = await client.get(path)
        etag = first.headers["etag"]
        for given in (etag, etag.removeprefix("W/"), f'"other", {etag}', "*"):
            again = await client.get(path, headers={"If-None-Match": given})
            assert (again.status_code, again.content) == (304, b"")
            assert again.headers["etag"] == etag
            assert again.headers["cache-control"] == first.headers["cache-control"]
        other = await client.get(path, headers={"If-None-Match": '"other"'})
        assert other.status_code == 200
    assert (await client.get("/")).headers["etag"] != (await client.get(SCRIPT)).headers["etag"]


async def received(client: httpx2.AsyncClient, path: str, accept: str) -> tuple[str, bytes]:
    """How the bytes were coded, and these as they came."""
    request = client.build_request("GET", path, headers={"Accept-Encoding": accept})
    response = await client.send(request, stream=True)
    raw = b"".join([piece async for piece in response.aiter_raw()])
    assert response.headers["content-length"] == str(len(raw))
    assert response.headers["vary"] == "Accept-Encoding"
    return response.headers.get("content-encoding", ""), raw


@pytest.mark.parametrize("accept", ["gzip", "br, GZIP;q=0.5", "*", "gzip, deflate, br, zstd"])
async def test_text_files_are_compressed_if_the_client_accepts_it(
    client: httpx2.AsyncClient, accept: str
) -> None:
    whole = FILES[SCRIPT[1:]]
    first = await received(client, SCRIPT, accept)
    assert (first[0], gzip.decompress(first[1])) == ("gzip", whole)
    assert len(first[1]) < len(whole) / 2
    assert await received(client, SCRIPT, accept) == first


@pytest.mark.parametrize(
    "accept", ["", "identity", "br", "gzip;q=0", "gzip;q=0.000", "*;q=0", "gzip;q=0, *"]
)
async def test_files_are_sent_uncompressed_otherwise(
    client: httpx2.AsyncClient, accept: str
) -> None:
    assert await received(client, SCRIPT, accept) == ("", FILES[SCRIPT[1:]])


async def test_files_that_do_not_shrink_are_sent_uncompressed(client: httpx2.AsyncClient) -> None:
    for path, name in (("/", "index.html"), (f"/{LOGO}", LOGO)):
        assert await received(client, path, "gzip") == ("", FILES[name])


@pytest.mark.parametrize("kind", ["off", "missing", "empty"])
async def test_without_a_console_its_paths_are_not_found(
    tmp_path: Path, folder: Path, kind: str
) -> None:
    if kind == "empty":
        (folder / "index.html").unlink()
    static = folder / "nonesuch" if kind == "missing" else folder
    config = ServerConfig(console=kind != "off", static=static)
    assert not has_console(config)
    async with application(tmp_path, workers=0, config=config) as app, client_of(app) as client:
        for path in ("/", SCRIPT, "/favicon.svg"):
            assert is_problem(await client.get(path), 404, "request.not_found")
        assert (await client.get("/api/v1/me")).json()["console"] is False


async def test_the_api_reports_that_a_console_exists(
    app: FastAPI, client: httpx2.AsyncClient
) -> None:
    made = await make_key(app)
    assert (await client.get("/api/v1/me", headers=bearer(made))).json()["console"] is True


async def test_console_files_are_not_in_the_openapi_document(app: FastAPI) -> None:
    assert not [
        path
        for path in app.openapi()["paths"]
        if not path.startswith(("/api/", "/v1/")) and re.match(r"/(assets|favicon|$)", path)
    ]


async def test_foreign_pages_cannot_load_parts_of_the_console(client: httpx2.AsyncClient) -> None:
    headers = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}
    assert is_problem(await client.get(SCRIPT, headers=headers), 403, "auth.origin")
    visit = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    assert (await client.get("/", headers=visit)).status_code == 200


def test_console_files_are_read_by_their_served_path(folder: Path) -> None:
    assert sorted(read_files(ServerConfig(static=folder))) == [
        "/",
        "/assets/index-Bf_3x-9Z.js",
        "/assets/index-C0ffee99.css",
        "/assets/logo-12345678.png",
        "/assets/words/zh.json",
        "/favicon.svg",
    ]
