"""The server's configuration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ekiden.core.checks.addresses import read_hosts, read_origins
from ekiden.project.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfig:
    """The configuration of a server. All defaults are safe.

    For example::

        app = create_app(service, ServerConfig(host="0.0.0.0", hosts=["desk.example.com"]))
    """

    host: str = "127.0.0.1"
    """The address to listen on. Requests without a key are accepted only on the loopback address,
    and only while no key exists."""
    port: int = 8321
    hosts: Sequence[str] = ()
    """The accepted values of the `Host` header, in addition to the names of the loopback address.
    Values are names, patterns such as ``*.example.com``, and networks such as ``10.0.0.0/8``."""
    origins: Sequence[str] = ()
    """Other origins whose pages may call the server, such as ``https://desk.example.com``."""
    allow_local: bool = True
    """Whether callers on the loopback address may omit the key while no key exists."""
    person_token: str | None = field(default=None, repr=False)
    """The secret that makes a local caller without a key a person with all scopes. Other local
    callers then have only the scopes `read`, `run` and `history`. `None` means that every local
    caller is such a person."""
    max_body: int = 10_000_000
    """The maximum size of a request body, in bytes."""
    rate: float = 50.0
    """The maximum average number of requests per second for one key. With 0 there is no limit, even
    for wrong keys."""
    burst: int = 200
    """The maximum number of requests in a burst from one key."""
    wrong_keys: int = 30
    """The maximum number of wrong keys from one address per minute. 0 means no limit."""
    max_requests: int = 10_000
    """The maximum number of concurrent requests, without streams."""
    max_streams: int = 5000
    """The maximum number of concurrent SSE streams and WebSockets."""
    max_key_requests: int = 0
    """The maximum number of concurrent requests of one key. 0 means a quarter of `max_requests`,
    but at least 50."""
    max_key_streams: int = 0
    """The maximum number of concurrent streams and WebSockets of one key. 0 means a quarter of
    `max_streams`, but at least 50."""
    max_connections: int = 20_000
    """The maximum number of concurrent connections. If the limit of the process is lower, that
    limit applies."""
    heartbeat_s: float = 15.0
    """Seconds without an event after which a stream sends a heartbeat."""
    wait_s: float = 55.0
    """The maximum time that a request waits for the end of a run."""

    console: bool = True
    """Whether the console is served at `/`."""
    static: Path | None = None
    """The folder with the files of the console. `None` means the folder of the package."""

    @property
    def key_requests(self) -> int:
        """The effective `max_key_requests`."""
        return self.max_key_requests or _share(self.max_requests)

    @property
    def key_streams(self) -> int:
        """The effective `max_key_streams`."""
        return self.max_key_streams or _share(self.max_streams)


def _share(of: int) -> int:
    return max(50, of // 4)


def server_config(settings: Settings, **overrides: Any) -> ServerConfig:
    """Create the server's configuration from the settings. Values in `overrides` that are not
    `None` replace settings. Raises `UserError` for invalid hosts and origins.
    """
    wanted = settings.server
    config = ServerConfig(
        host=wanted.host,
        port=wanted.port,
        hosts=wanted.hosts,
        origins=wanted.origins,
        allow_local=wanted.allow_local,
        max_body=wanted.max_body,
        rate=wanted.rate,
        burst=wanted.burst,
        wrong_keys=wanted.wrong_keys,
        max_requests=wanted.max_requests,
        max_streams=wanted.max_streams,
        max_key_requests=wanted.max_key_requests,
        max_key_streams=wanted.max_key_streams,
        max_connections=wanted.max_connections,
        console=wanted.console,
    )
    given = {name: value for name, value in overrides.items() if value is not None}
    config = replace(config, **given)
    read_hosts(config.hosts)
    read_origins(config.origins)
    return config
