"""Which IP addresses belong to the public internet.

The networks are those of IANA's registries of special-purpose addresses that are not reachable
from everywhere. The standard library's own answer differs between versions of Python, so it is not
asked.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

_NOT_PUBLIC_V4 = tuple(
    IPv4Network(network)
    for network in (
        "0.0.0.0/8",  # this network
        "10.0.0.0/8",
        "100.64.0.0/10",  # shared by the customers of a provider
        "127.0.0.0/8",
        "169.254.0.0/16",  # this link; clouds tell secrets here
        "172.16.0.0/12",
        "192.0.0.0/24",  # protocols
        "192.0.2.0/24",  # documentation
        "192.88.99.0/24",  # relays from IPv4 to IPv6, given up
        "192.168.0.0/16",
        "198.18.0.0/15",  # measurements
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # to many at once
        "240.0.0.0/4",  # reserved, and everybody
    )
)
_GLOBAL_V6 = IPv6Network("2000::/3")
"""All that was ever given out; what lies outside is local, special or for many at once."""
_NOT_PUBLIC_V6 = tuple(
    IPv6Network(network)
    for network in (
        "2001::/23",  # protocols
        "2001:db8::/32",  # documentation
        "3fff::/20",  # documentation
    )
)


def _last(address: int) -> tuple[int, ...]:
    return (address,)


def _sixtofour(address: int) -> tuple[int, ...]:
    return (address >> 80,)


def _teredo(address: int) -> tuple[int, ...]:
    """The server, and the client, whose bits are turned round."""
    return address >> 64, ~address


_WRAPPED: tuple[tuple[IPv6Network, Callable[[int], tuple[int, ...]]], ...] = (
    (IPv6Network("::/96"), _last),  # compatible with IPv4
    (IPv6Network("::ffff:0:0/96"), _last),  # mapped
    (IPv6Network("::ffff:0:0:0/96"), _last),  # translated
    (IPv6Network("64:ff9b::/96"), _last),  # NAT64
    (IPv6Network("2002::/16"), _sixtofour),
    (IPv6Network("2001::/32"), _teredo),
)
"""Networks of IPv6 whose addresses stand for some of IPv4, and where those are in them."""


def is_public(address: str) -> bool:
    """Whether an IP address belongs to the public internet.

    One that stands for another, or leads through it, is what that one is. What is no address is
    not public.
    """
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(parsed, IPv4Address):
        return _is_public_v4(parsed)
    for network, inner in _WRAPPED:
        if parsed in network:
            inside = (IPv4Address(bits & 0xFFFFFFFF) for bits in inner(int(parsed)))
            return all(_is_public_v4(each) for each in inside)
    return _is_public_v6(parsed)


def _is_public_v4(address: IPv4Address) -> bool:
    return not any(address in network for network in _NOT_PUBLIC_V4)


def _is_public_v6(address: IPv6Address) -> bool:
    return address in _GLOBAL_V6 and not any(address in network for network in _NOT_PUBLIC_V6)
