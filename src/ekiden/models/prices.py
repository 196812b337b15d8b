"""What calls of known models cost, from the price list that comes with `genai-prices`.

The list is the one of the installed package: nothing is ever fetched. It is loaded with the first
price that is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from importlib.util import find_spec
from typing import Any, Protocol

from ekiden.core.conversation.model import Usage

_PROVIDERS = {"openai-chat": "openai"}
"""Providers that the list knows under another name."""

LOCAL_PROVIDER = "local"


class PriceOf(Protocol):
    """What a model costs."""

    def of(self, usage: Usage) -> float:
        """What `usage` costs."""
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
    """The cost of `usage` of a model that is known by any of `names`; `None` if the price is
    unknown.

    `names` are ``provider:model``, or a model as answers name it, the surest first. `prices` win
    over the list, whose prices are US dollars at `at_us` (microseconds since 1970; by default
    now). A model in this process costs nothing; of one on a server of one's own
    (``provider:model@http://…``) the list knows nothing. `has_list`: whether the list is asked.
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
    """What the model is called in `prices`: as it is, with its provider, or without the date that
    answers have in its name."""
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
    """The provider and the model of the list that `name` means."""
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
