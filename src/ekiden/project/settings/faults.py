"""Why a text cannot be the value of a setting, beyond its type: what would refuse it is asked.

Each function gives the reason, or `None` where the text can be used. Nothing is loaded, called or
looked up outside of this process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from ipaddress import ip_address
from typing import Final, TypeAlias

from ekiden.core.aliases import full_model_name
from ekiden.core.checks.addresses import parse_host, read_hosts, read_origins
from ekiden.core.errors import UserError
from ekiden.core.text import suggestion

Fault: TypeAlias = Callable[[str], str | None]

BUILT_IN_PROVIDERS: Final = ("anthropic", "demo", "google", "local", "openai", "openai-chat")
"""Known without loading any of them, which takes longer than most commands do."""


def model_fault(name: str) -> str | None:
    """Why no model can be called so."""
    provider, colon, model = (full_model_name(name) or name).partition(":")
    if not (provider and colon and (model or provider == "local")):
        return "it does not name a model: write provider:model, such as openai:gpt-5-mini"
    return _url_fault(model)


def _url_fault(model: str) -> str | None:
    """Why nothing can be called at the address in a model's name, if there is one."""
    _, at, address = model.partition("@http")
    if not at:
        return None
    from ekiden.models.registry import check_url

    return _refused(check_url, f"http{address}")


def unknown_provider(name: str) -> str | None:
    """Why nobody provides a model; a team in Python may bring providers of its own."""
    provider = (full_model_name(name) or name).partition(":")[0]
    if provider in BUILT_IN_PROVIDERS:
        return None
    from ekiden.models import known_providers

    known = known_providers()
    if provider in known:
        return None
    return (
        f"no model provider is called {provider[:40]!r}; known: {', '.join(known)}"
        f"{suggestion(provider, known)}"
    )


def store_fault(url: str) -> str | None:
    """Why no store can be there."""
    from ekiden.project.stores import check_store_url

    return _refused(check_store_url, url)


def embedder_fault(name: str) -> str | None:
    """Why no embedder is called so."""
    from ekiden.embeddings.named import check_embedder_name

    return _refused(check_embedder_name, name) or _url_fault(name)


def address_fault(text: str) -> str | None:
    """Why a server cannot listen there."""
    try:
        ip_address(text.strip("[]"))
    except ValueError:
        host = parse_host(text)
        if host is None or host.port is not None:
            return "it is neither an address nor a host name; the port is server.port"
    return None


def host_fault(text: str) -> str | None:
    """Why a server cannot be called so."""
    return _refused(lambda each: read_hosts([each]), text)


def origin_fault(text: str) -> str | None:
    """Why no page comes from there."""
    return _refused(lambda each: read_origins([each]), text)


def site_fault(text: str) -> str | None:
    """Why no host is called so in a list of those that may be asked."""
    host = text.strip().partition("://")[2] or text.strip()
    if host == "*":
        return None
    try:
        plain = host.removeprefix("*.").encode("idna").decode("ascii")
    except UnicodeError:
        plain = ""
    if parse_host(plain) is None:
        return "it is not a host; write example.org, *.example.org or localhost:8080"
    return None


def _refused(check: Callable[[str], object], text: str) -> str | None:
    try:
        check(text)
    except UserError as exc:
        return str(exc).partition(": ")[2] if str(exc).startswith("server.") else str(exc)
    return None


FAULTS: Final[Mapping[str, Fault]] = {
    "model": model_fault,
    "agents.routing.llm.model": model_fault,
    "store": store_fault,
    "memory.embedding_model": embedder_fault,
    "server.host": address_fault,
    "server.hosts": host_fault,
    "server.origins": origin_fault,
    "tools.http_get.allow": site_fault,
}
"""By the setting's name."""
