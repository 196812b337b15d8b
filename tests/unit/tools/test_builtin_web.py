"""`http_get`: text, from hosts that are allowed, and from nowhere else."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest

from ekiden.core.errors import ToolError
from ekiden.tools.builtin import builtin_tools
from ekiden.tools.builtin.web import AllowList, WebPages, WebSearch, is_public, read_url
from ekiden.tools.settings import HttpToolSettings, ToolSettings, WebSearchSettings
from tests.unit.tools.conftest import Run

Answer = Callable[[BaseHTTPRequestHandler], None]


class Site:
    """A web server on loopback; what it answers is up to each test."""

    def __init__(self) -> None:
        self.pages: dict[str, Answer] = {}
        self.asked: list[tuple[str, dict[str, str]]] = []
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                site.asked.append((self.path, dict(self.headers.items())))
                site.pages[self.path](self)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.block_on_close = False
        self.port: int = self.server.server_address[1]
        self.here = f"127.0.0.1:{self.port}"

    def get(self, path: str = "/", **settings: Any) -> Any:
        allowed = HttpToolSettings(**{"allow": (self.here,), "timeout": 10.0, **settings})
        return WebPages(allowed).http_get(f"http://{self.here}{path}")


@contextmanager
def serving(site: Site) -> Iterator[Site]:
    thread = threading.Thread(target=site.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield site
    finally:
        site.server.shutdown()
        site.server.server_close()
        thread.join()


@pytest.fixture
def site() -> Iterator[Site]:
    with serving(Site()) as site:
        yield site


def page(
    body: bytes, kind: str | None = "text/plain; charset=utf-8", status: int = 200, **headers: str
) -> Answer:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        if kind is not None:
            handler.send_header("Content-Type", kind)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        try:
            handler.wfile.write(body)
        except OSError:
            handler.close_connection = True

    return answer


class TestGetting:
    async def test_a_text_is_returned_with_status_and_content_type(self, site: Site) -> None:
        site.pages["/"] = page("für 🙂".encode())
        assert await site.get() == "HTTP 200 OK, text/plain\n\nfür 🙂"

    async def test_no_personal_data_is_sent(self, site: Site) -> None:
        site.pages["/a?b=%20%C3%BC"] = page(b"ok")
        await site.get("/a?b=%20ü#part")
        [(path, headers)] = site.asked
        assert path == "/a?b=%20%C3%BC"
        assert set(headers) == {
            "Host", "User-Agent", "Accept", "Accept-Encoding", "Connection"
        }  # fmt: skip
        assert headers["Host"] == site.here

    async def test_an_error_page_is_returned(self, site: Site) -> None:
        site.pages["/"] = page(b'{"error": "gone"}', "application/problem+json", 404)
        shown = await site.get()
        assert shown == 'HTTP 404 Not Found, application/problem+json\n\n{"error": "gone"}'

    @pytest.mark.parametrize(
        ("kind", "body", "text"),
        [
            ("text/html; charset=shift_jis", "日本".encode("shift_jis"), "日本"),
            ("text/html; charset=latin-1", b"\xfc", "ü"),
            ("text/html; charset=GB2312", "中文".encode("gb2312"), "中文"),
            ("text/html; charset=no-such", "ü".encode(), "ü"),
            ("text/html; charset=idna", b"xn--tda", "xn--tda"),
            ("text/html; charset=zip", b"ok", "ok"),
            ("text/html", b"\xef\xbb\xbfok", "ok"),
            ("text/html", b"\xffok", "\ufffdok"),
            (None, b"ok", "ok"),
        ],
    )
    async def test_the_charset_of_the_server_is_used_if_valid(
        self, site: Site, kind: str | None, body: bytes, text: str
    ) -> None:
        site.pages["/"] = page(body, kind)
        assert (await site.get()).endswith(f"\n\n{text}")

    async def test_a_long_text_is_truncated(self, site: Site) -> None:
        site.pages["/"] = page(b"x" * 1_000_000)
        shown = await site.get(max_bytes=1000)
        assert shown.endswith("x\n[cut off after 1,000 bytes]")
        assert shown.count("x") == 1000 + "text/plain".count("x")

    async def test_an_endless_text_is_truncated(self, site: Site) -> None:
        def endless(handler: BaseHTTPRequestHandler) -> None:
            handler.send_response(200)
            handler.send_header("Content-Type", "text/plain")
            handler.end_headers()
            try:
                while True:
                    handler.wfile.write(b"x" * 10_000)
            except OSError:
                handler.close_connection = True

        site.pages["/"] = endless
        assert "cut off after 50,000 bytes" in await site.get(max_bytes=50_000)

    @pytest.mark.parametrize(
        ("kind", "headers", "problem"),
        [
            ("image/png", {}, "is image/png, not text"),
            ("application/octet-stream", {}, "is application/octet-stream, not text"),
            (None, {}, "is not text"),
            ("text/plain", {"Content_Encoding": "gzip"}, "compressed answer"),
        ],
    )
    async def test_content_that_is_not_text_is_refused(
        self, site: Site, kind: str | None, headers: dict[str, str], problem: str
    ) -> None:
        site.pages["/"] = page(b"\x89PNG\0", kind, **headers)
        with pytest.raises(ToolError, match=problem):
            await site.get()

    async def test_an_invalid_http_response_is_reported(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:

            def talk() -> None:
                connection, _ = server.accept()
                with connection:
                    connection.recv(1000)
                    connection.sendall(b"\x1b[2J what?\r\n\r\n")

            thread = threading.Thread(target=talk)
            thread.start()
            here = f"127.0.0.1:{server.getsockname()[1]}"
            with pytest.raises(ToolError, match="cannot be fetched") as told:
                await WebPages(HttpToolSettings(allow=(here,))).http_get(f"http://{here}/")
            thread.join()
        assert "\x1b" not in str(told.value)

    async def test_an_unreachable_server_is_reported(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            here = f"127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(ToolError, match="cannot be fetched: .*refused"):
            await WebPages(HttpToolSettings(allow=(here,))).http_get(f"http://{here}/")


class TestWaiting:
    @pytest.fixture
    def silent(self, site: Site) -> Iterator[threading.Event]:
        """The page drips single bytes until the event is set."""
        over, asked = threading.Event(), threading.Event()

        def drip(handler: BaseHTTPRequestHandler) -> None:
            handler.send_response(200)
            handler.end_headers()
            asked.set()
            try:
                while not over.wait(0.02):
                    handler.wfile.write(b"x")
                    handler.wfile.flush()
            except OSError:
                over.set()

        site.pages["/"] = drip
        self.asked = asked
        yield over
        over.set()

    async def test_a_slow_server_times_out(self, site: Site, silent: threading.Event) -> None:
        with pytest.raises(ToolError, match="did not finish its answer within 0.3 s"):
            await site.get(timeout=0.3)
        assert await asyncio.to_thread(silent.wait, 60), "the connection stayed open"

    async def test_cancelling_the_call_closes_the_connection(
        self, site: Site, silent: threading.Event
    ) -> None:
        task = asyncio.create_task(site.get(timeout=60.0))
        assert await asyncio.to_thread(self.asked.wait, 10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(silent.wait, 60), "the connection stayed open"


class TestRedirects:
    async def test_redirects_inside_the_allow_list_are_followed(self, site: Site) -> None:
        site.pages["/"] = page(b"", status=302, Location="/there?x=ü")
        site.pages["/there?x=%C3%BC"] = page(b"here", status=200)
        shown = await site.get()
        there = f"http://{site.here}/there?x=%C3%BC"
        assert shown == f"HTTP 200 OK, from {there}, text/plain\n\nhere"

    @pytest.mark.parametrize(
        ("location", "problem"),
        [
            ("http://elsewhere.example/", "elsewhere.example is not among the hosts"),
            ("http://localhost:{port}/", "localhost:{port} is not among the hosts"),
            ("http://127.0.0.1:1/", "127.0.0.1:1 is not among the hosts"),
            ("file:///etc/passwd", "does not begin with http"),
            ("http://me:pw@127.0.0.1:{port}/", "name or password"),
            ("gopher://127.0.0.1:{port}/", "does not begin with http"),
        ],
    )
    async def test_redirects_outside_the_allow_list_are_refused(
        self, site: Site, location: str, problem: str
    ) -> None:
        site.pages["/"] = page(b"", status=301, Location=location.format(port=site.port))
        with pytest.raises(ToolError) as refused:
            await site.get()
        assert problem.format(port=site.port) in str(refused.value)
        assert len(site.asked) == 1

    async def test_endless_redirects_are_refused(self, site: Site) -> None:
        site.pages["/"] = page(b"", status=302, Location="/")
        with pytest.raises(ToolError, match="redirected more than 5 times"):
            await site.get()
        assert len(site.asked) == 6

    async def test_a_redirect_without_a_location_is_returned(self, site: Site) -> None:
        site.pages["/"] = page(b"moved", status=302)
        assert await site.get() == "HTTP 302 Found, text/plain\n\nmoved"


class TestAllowing:
    async def test_an_empty_allow_list_allows_nothing_and_the_error_has_advice(
        self, tmp_path: Path, run: Run
    ) -> None:
        tools = builtin_tools(tmp_path, ToolSettings())
        result = await run(tools["http_get"], url="https://example.org/x")
        assert result.output == (
            "Error: example.org is not among the hosts that may be called (none so far); a person "
            "can add it: ekiden config set tools.http_get.allow '[\"example.org\"]'"
        )

    @pytest.mark.parametrize(
        ("entry", "url", "is_allowed"),
        [
            ("example.org", "https://example.org/", True),
            ("example.org", "http://EXAMPLE.ORG./", True),
            ("EXAMPLE.org", "https://example.org:443/", True),
            ("example.org", "https://example.org:8443/", False),
            ("example.org", "https://www.example.org/", False),
            ("example.org", "https://example.org.evil.net/", False),
            ("example.org", "https://evilexample.org/", False),
            ("*.example.org", "https://a.b.example.org/", True),
            ("*.example.org", "https://example.org/", False),
            ("*.example.org", "https://evilexample.org/", False),
            ("example.org:8443", "https://example.org:8443/", True),
            ("example.org:8443", "https://example.org/", False),
            ("https://example.org", "https://example.org/x", True),
            ("bücher.example", "https://xn--bcher-kva.example/", True),
            ("xn--bcher-kva.example", "https://bücher.example/", True),
            ("[::1]:80", "http://[::1]/", True),
            ("*", "https://anything.example/", True),
            ("*", "https://anything.example:8080/", False),
        ],
    )
    def test_an_allow_list_entry_allows_its_hosts_only(
        self, entry: str, url: str, is_allowed: bool
    ) -> None:
        allow = AllowList([entry])
        if is_allowed:
            allow.check(read_url(url))
        else:
            with pytest.raises(ToolError, match="is not among the hosts"):
                allow.check(read_url(url))

    @pytest.mark.parametrize(
        ("entries", "is_private_too"),
        [
            (("localhost:8080",), True),
            (("localhost",), False),
            (("*:8080",), False),
            (("*.localhost:8080", "*:8080"), False),
        ],
    )
    def test_only_an_exact_host_and_port_allows_a_private_address(
        self, entries: tuple[str, ...], is_private_too: bool
    ) -> None:
        url = "http://localhost:8080/" if entries != ("localhost",) else "http://localhost/"
        assert AllowList(entries).check(read_url(url)) is is_private_too

    @pytest.mark.parametrize(
        "url",
        [
            "example.org", "ftp://example.org/", "http://", "http:///x", "http://a b/",
            "http://x:99999/", "http://[::1/", "http://ex\nample.org/", "http://me@x.org/",
            "", "file:///etc/passwd", "http://x/" + "y" * 9000, "http://" + "ü" * 70 + ".org/",
        ],
    )  # fmt: skip
    def test_an_invalid_url_is_refused(self, url: str) -> None:
        with pytest.raises(ToolError):
            read_url(url)

    @pytest.mark.parametrize(
        "address",
        [
            "127.0.0.1", "10.1.2.3", "192.168.0.1", "172.16.0.1", "169.254.169.254", "0.0.0.0",
            "100.64.0.1", "224.0.0.1", "255.255.255.255", "::1", "::", "fe80::1%eth0", "fc00::1",
            "ff02::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::",
            "2001:0:4136:e378:8000:63bf:80ff:fffe", "nonsense", "",
            "::127.0.0.1", "::ffff:0:127.0.0.1", "64:ff9b:1::7f00:1", "64:ff9b:1::101:101",
            "64:ff9b::10.0.0.1", "2002:a00:1::", "fec0::1", "fd00::1", "100::1", "5f00::1",
            "2001:0:7f00:1:8000:63bf:fefe:fefe", "2001:2::1", "2001:10::1", "2001:db8::1",
            "3fff::1", "4000::1", "192.0.0.8", "192.0.0.9", "192.0.2.1", "192.88.99.1",
            "198.18.0.1", "198.51.100.1", "203.0.113.1", "240.0.0.1", "0.1.2.3",
        ],
    )  # fmt: skip
    def test_private_addresses_are_not_public(self, address: str) -> None:
        assert not is_public(address)

    @pytest.mark.parametrize(
        "address",
        [
            "1.1.1.1", "100.128.0.1", "172.32.0.1", "192.0.1.1", "223.255.255.255",
            "2606:4700::1111", "2001:4860::8888", "::ffff:1.1.1.1", "::1.1.1.1",
            "64:ff9b::1.1.1.1", "2002:101:101::", "2001:0:101:101:8000:63bf:fefe:fefe",
        ],
    )  # fmt: skip
    def test_other_addresses_are_public(self, address: str) -> None:
        assert is_public(address)


def resolving(*answers: list[str]) -> Callable[..., Any]:
    """A name service that gives one answer after the other."""
    left = list(answers)

    def resolve(host: str, port: int, **_: Any) -> list[Any]:
        return [(0, 0, 0, "", (address, port)) for address in left.pop(0)]

    return resolve


class TestNamesThatLeadInside:
    @pytest.mark.parametrize(
        "inside", [["127.0.0.1"], ["10.0.0.1", "::1"], ["169.254.169.254"], ["::ffff:127.0.0.1"]]
    )
    async def test_an_allowed_name_with_a_private_address_is_refused(
        self, inside: list[str]
    ) -> None:
        pages = WebPages(HttpToolSettings(allow=("example.org",)), resolve=resolving(inside))
        with pytest.raises(ToolError, match="which is not a public address"):
            await pages.http_get("http://example.org/")

    async def test_a_name_is_resolved_once_and_the_checked_address_is_used(
        self, site: Site
    ) -> None:
        site.pages["/"] = page(b"ok")
        allow = (f"rebind.example:{site.port}",)
        pages = WebPages(HttpToolSettings(allow=allow), resolve=resolving(["127.0.0.1"]))
        shown = await pages.http_get(f"http://rebind.example:{site.port}/")
        assert shown.endswith("ok")
        assert site.asked[0][1]["Host"] == f"rebind.example:{site.port}"

    async def test_the_next_address_is_tried_when_one_does_not_answer(self, site: Site) -> None:
        site.pages["/"] = page(b"ok")
        allow = (f"two.example:{site.port}",)
        found = resolving(["127.0.0.2", "127.0.0.1"])
        pages = WebPages(HttpToolSettings(allow=allow), resolve=found)
        assert (await pages.http_get(f"http://two.example:{site.port}/")).endswith("ok")

    async def test_an_unresolvable_name_is_reported(self) -> None:
        def resolve(*_: Any, **__: Any) -> Any:
            raise socket.gaierror(-2, "Name or service not known")

        pages = WebPages(HttpToolSettings(allow=("nowhere.example",)), resolve=resolve)
        with pytest.raises(ToolError, match="'nowhere.example' is not found: Name or service"):
            await pages.http_get("https://nowhere.example/")


class TestEncrypted:
    @pytest.fixture
    def certificate(self, tmp_path: Path) -> Path:
        """A certificate of 127.0.0.1 with its key, signed by itself."""
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec

        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test")])
        now = datetime.now(UTC)
        made = (
            x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(
                x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), False
            )
            .sign(key, hashes.SHA256())
        )
        path = tmp_path / "made.crt"
        path.write_bytes(
            made.public_bytes(serialization.Encoding.PEM)
            + key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return path

    @pytest.fixture
    def secure(self, certificate: Path) -> Iterator[Site]:
        site = Site()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        site.server.socket = context.wrap_socket(site.server.socket, server_side=True)
        site.pages["/"] = page(b"secret")
        with serving(site):
            yield site

    async def test_a_trusted_certificate_is_accepted(
        self, secure: Site, certificate: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        pages = WebPages(HttpToolSettings(allow=(secure.here,)))
        shown = await pages.http_get(f"https://{secure.here}/")
        assert shown == "HTTP 200 OK, text/plain\n\nsecret"
        assert secure.asked[0][1]["Host"] == secure.here

    async def test_an_untrusted_certificate_is_refused(self, secure: Site) -> None:
        pages = WebPages(HttpToolSettings(allow=(secure.here,)))
        with pytest.raises(ToolError, match="cannot be fetched: .*CERTIFICATE_VERIFY_FAILED"):
            await pages.http_get(f"https://{secure.here}/")
        assert secure.asked == []


class TestSearching:
    def search(self, site: Site, path: str = "/s?q={query}", **settings: Any) -> WebSearch:
        asked = WebSearchSettings(url=f"http://{site.here}{path}", **settings)
        return WebSearch(asked, HttpToolSettings(timeout=10.0))

    async def test_the_configured_search_service_gets_its_key(
        self, site: Site, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("SEARCH_KEY", "k-1")
        found = b'{"results": [{"title": "Tea", "url": "https://tea.example", "content": "Hot."}]}'
        site.pages["/s?q=green%20tea%26x%3D1"] = page(found, "application/json")
        search = self.search(site, key_env="SEARCH_KEY", header="X-Key")
        assert await search.web_search("green tea&x=1") == "Tea\nhttps://tea.example\nHot."
        assert site.asked[0][1]["X-Key"] == "k-1"

    async def test_web_search_contacts_no_other_host(self, site: Site) -> None:
        site.pages["/s?q=tea"] = page(b"", status=302, Location="http://localhost:1/")
        with pytest.raises(ToolError, match="is not among the hosts"):
            await self.search(site).web_search("tea")

    @pytest.mark.parametrize(
        ("settings", "words"),
        [
            (WebSearchSettings(), "ekiden config set tools.web_search.url"),
            (WebSearchSettings(url="https://s.example/{query}", key_env="NOT_SET"), "NOT_SET"),
        ],
    )
    async def test_a_missing_search_setting_is_reported(
        self, settings: WebSearchSettings, words: str
    ) -> None:
        with pytest.raises(ToolError, match=words):
            await WebSearch(settings, HttpToolSettings()).web_search("tea")
