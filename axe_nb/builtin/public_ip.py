"""Network addresses that fetch may connect to: public ones in standard notation only.

Source: issue 4.7; X-31; goals "Safety, counted".
"""

from __future__ import annotations

import re
import socket
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

from axe_nb.agents.hosts import LABEL, fold_host

Address = IPv4Address | IPv6Address

NOT_PUBLIC_4 = {
    IPv4Network(network): what
    for what, networks in {
        "this network": "0.0.0.0/8",
        "private": "10.0.0.0/8 172.16.0.0/12 192.168.0.0/16",
        "shared by a provider's customers": "100.64.0.0/10",
        "loopback": "127.0.0.0/8",
        "link-local": "169.254.0.0/16",
        "reserved for protocols": "192.0.0.0/24 192.88.99.0/24",
        "for documentation": "192.0.2.0/24 198.51.100.0/24 203.0.113.0/24",
        "for benchmarks": "198.18.0.0/15",
        "multicast": "224.0.0.0/4",
        "reserved": "240.0.0.0/4",
    }.items()
    for network in networks.split()
}
"""Non-public IPv4 network → its purpose, following IANA's special-purpose registry."""

PUBLIC_6 = IPv6Network("2000::/3")
"""The range that contains all public IPv6 addresses."""

NOT_PUBLIC_6 = {
    IPv6Network("::1/128"): "loopback",
    IPv6Network("::/128"): "this network",
    IPv6Network("fe80::/10"): "link-local",
    IPv6Network("fc00::/7"): "private",
    IPv6Network("ff00::/8"): "multicast",
    IPv6Network("2001::/23"): "reserved for protocols",
    IPv6Network("2001:db8::/32"): "for documentation",
    IPv6Network("2002::/16"): "a tunnel to IPv4",
    IPv6Network("3fff::/20"): "for documentation",
}
"""Non-public IPv6 network → its purpose, for networks that have a name."""

CARRIES_IPV4 = (IPv6Network("::ffff:0:0/96"), IPv6Network("64:ff9b::/96"))
"""Mapped addresses and NAT64, which connect to the IPv4 address in the last 32 bits."""


def refusal_reason(address: Address) -> str:
    """Returns the reason not to connect to an address; empty if the address is public."""
    if isinstance(address, IPv6Address):
        if any(address in network for network in CARRIES_IPV4):
            return refusal_reason(IPv4Address(int(address) & 0xFFFFFFFF))
        for network, what in NOT_PUBLIC_6.items():
            if address in network:
                return what
        return "" if address in PUBLIC_6 and not address.scope_id else "reserved"
    return next((what for network, what in NOT_PUBLIC_4.items() if address in network), "")


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
