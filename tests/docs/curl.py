"""`curl` as pages use it: few options, and only to the page's own servers.

It stands in for the real one, which not every machine has.
"""

from __future__ import annotations

import http.client
import shlex
import socket
from argparse import ArgumentParser
from urllib.parse import urlsplit

from tests.docs.serving import is_allowed

_PATIENCE_S = 240


def curl(command: str) -> tuple[int, str]:
    """The exit code, and what is printed."""
    options = _parser().parse_args(shlex.split(command)[1:])
    parts = urlsplit(options.url)
    if parts.hostname != "127.0.0.1" or not is_allowed(parts.port):
        return 7, f"curl: (7) documentation calls its own servers only: {options.url}\n"
    headers = dict(line.split(": ", 1) for line in options.header)
    body = options.data
    if options.json is not None:
        body = options.json
        headers = {"Content-Type": "application/json", "Accept": "application/json", **headers}
    connection = http.client.HTTPConnection("127.0.0.1", parts.port)
    connection.sock = socket.socket()
    connection.sock.settimeout(_PATIENCE_S)
    try:
        connection.sock.connect(("127.0.0.1", parts.port))
        target = parts.path + (f"?{parts.query}" if parts.query else "")
        method = options.request or ("GET" if body is None else "POST")
        connection.request(method, target, None if body is None else body.encode(), headers)
        response = connection.getresponse()
        head = ""
        if options.include:
            lines = [f"{name}: {value}" for name, value in response.getheaders()]
            head = "\n".join([f"HTTP/1.1 {response.status} {response.reason}", *lines, "", ""])
        return 0, head + response.read().decode()
    finally:
        connection.close()


def _parser() -> ArgumentParser:
    parser = ArgumentParser(prog="curl", allow_abbrev=False, exit_on_error=False)
    parser.add_argument("url")
    parser.add_argument("-s", "--silent", action="store_true")
    parser.add_argument("-N", "--no-buffer", action="store_true")
    parser.add_argument("-i", "--include", action="store_true")
    parser.add_argument("-X", "--request")
    parser.add_argument("-H", "--header", action="append", default=[])
    parser.add_argument("-d", "--data")
    parser.add_argument("--json")
    return parser
