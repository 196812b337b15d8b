"""The costs of model calls, from the price list in the package `genai-prices`.

The list is part of the package, so no price comes from the network. The list is loaded when the
first price is needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from importlib.util import find_spec
from typing import Any, Protocol

from ekiden.core.conversation.model import Usage

_PROVIDERS = {"openai-chat": "openai"}
"""Providers that have another name in the list."""

LOCAL_PROVIDER = "local"


class PriceOf(Protocol):
    """The price of a model."""

    def of(self, usage: Usage) -> float:
        """The cost of `usage`."""
        ...


def has_price_list() -> bool:
    """Whether the extra `prices` is installed."""
    return find_spec("genai_prices") is not None


def cost_of(
    names: Sequence[str],
    usage: Usage,
    prices: Mapping[str, PriceOf] | None = None,
    *,
    at_us: int | None = None,
    has_list: bool = True,
) -> float | None:
    """Return the cost of `usage`; `None` if the price is unknown.

    `names` are names of one model, most reliable first: ``provider:model``, or the name in an
    answer. `prices` have precedence over the price list. The list has the prices in US dollars at
    the time `at_us` (microseconds since 1970; the default is now). A local model costs nothing. The
    list has no prices for your own servers (``provider:model@http://…``). Without `has_list` the
    list is not used.
    """
    for name in names:
        for known in _known_as(name, prices or {}):
            return (prices or {})[known].of(usage)
    if not has_list:
        return None
    for name in names:
        provider, colon, _ = name.partition(":")
        if colon and provider == LOCAL_PROVIDER:
            return 0.0
        if "@http" in name:
            return None
    for name in names:
        cost = _listed(name, usage, at_us)
        if cost is not None:
            return cost
    return None


def _known_as(name: str, prices: Mapping[str, PriceOf]) -> Iterator[str]:
    """The model's names in `prices`: the same name, or without the provider or the date."""
    if name in prices:
        yield name
    for known in prices:
        bare = known.partition(":")[2] or known
        if name == bare or (name.startswith(f"{bare}-") and name[len(bare) + 1 :][:4].isdigit()):
            yield known


def _listed(name: str, usage: Usage, at_us: int | None) -> float | None:
    found = _find(name)
    if found is None:
        return None
    from genai_prices.types import Usage as Counted

    provider, model = found
    counted = Counted(
        input_tokens=max(usage.input_tokens, usage.cached_tokens),
        cache_read_tokens=usage.cached_tokens,
        output_tokens=max(usage.output_tokens, usage.total_tokens - usage.input_tokens),
    )
    try:
        at = datetime.now(UTC) if at_us is None else datetime.fromtimestamp(at_us / 1e6, UTC)
        price = model.calc_price(counted, provider, genai_request_timestamp=at)
    except (LookupError, ValueError, ArithmeticError, OSError):
        return None
    return float(price.total_price)


@lru_cache(maxsize=256)
def _find(name: str) -> tuple[Any, Any] | None:
    if not has_price_list():
        return None
    from genai_prices.data_snapshot import get_snapshot

    provider, colon, model = name.partition(":")
    if not colon:
        provider, model = "", name
    try:
        return get_snapshot().find_provider_model(
            model, None, _PROVIDERS.get(provider, provider) or None, None
        )
    except LookupError:
        return None
