"""Network addresses that fetch may connect to: public ones in standard notation only.

Source: issue 4.7; X-31; goals "Safety, counted".
"""

from __future__ import annotations

import re
import socket
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network

from axe_nb.agents.hosts import LABEL, fold_host

Address = IPv4Address | IPv6Address

PUBLIC_6 = IPv6Network("2000::/3")
"""The range that contains all public IPv6 addresses."""

SPECIAL = ("192.0.0.0/24", "192.88.99.0/24", "2001::/23", "2002::/16", "3fff::/20")
"""Networks for protocols, tunnels and documentation that `ipaddress` may take for public ones."""

CARRIES_IPV4 = (IPv6Network("::ffff:0:0/96"), IPv6Network("64:ff9b::/96"))
"""Mapped addresses and NAT64, which connect to the IPv4 address in the last 32 bits."""


def refusal_reason(address: Address) -> str:
    """Returns the reason not to connect to an address; empty if the address is public."""
    if any(address in network for network in CARRIES_IPV4):
        return refusal_reason(IPv4Address(int(address) & 0xFFFFFFFF))
    for kind in ("loopback", "link-local", "multicast", "private"):
        if getattr(address, f"is_{kind.replace('-', '_')}"):
            return kind
    is_special = any(address in ip_network(network) for network in SPECIAL)
    if address.version == 6:
        is_special |= address not in PUBLIC_6 or bool(address.scope_id)
    return "reserved" if is_special or not address.is_global else ""


def is_own(address: Address) -> bool:
    """True if it is an address of this machine, which may be a public one: a socket can bind it."""
    family = socket.AF_INET if isinstance(address, IPv4Address) else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as own:
            own.bind((str(address), 0))
    except OSError:
        return False
    return True


def spelling_problem(host: str) -> str:
    """Returns the reason to reject the spelling of an ASCII host; empty if it is acceptable."""
    labels = fold_host(host).split(".")
    is_name = literal(host) is None
    if "%" in host or (is_name and not all(map(LABEL.fullmatch, labels))):
        return "is neither a host name nor an address"
    last = host.rstrip(".").rpartition(".")[2].lower()
    if ":" not in host and re.fullmatch(r"\d+|0x[0-9a-f]*", last) and not literal(host):
        return "is an address in an unusual notation"
    return ""


def literal(host: str) -> Address | None:
    """Returns the address that a host spells out; None if the host is a name."""
    try:
        return ip_address(host)
    except ValueError:
        return None


def resolve(host: str, port: int) -> Sequence[Address]:
    """Returns the addresses that the system resolves a host to; blocks.

    Raises:
        OSError: the host cannot be resolved.
    """
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(ip_address(entry[4][0]) for entry in found))
