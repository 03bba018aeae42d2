"""Host names of `allowed_hosts`: their form, and the hosts that they match.

Source: D-50.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from ipaddress import ip_address

LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)")

ANY = "*"
"""Matches every host."""


def is_allowed(host: str, allowed: Iterable[str]) -> bool:
    """True if a host matches one of the patterns; the empty host only `*`.

    `python.org` matches that host alone, `*.python.org` every host below it but not itself.
    """
    host = fold_host(host)
    patterns = {fold_host(pattern) for pattern in allowed}
    above = (f"*.{host[at + 1 :]}" for at, char in enumerate(host) if char == "." and at)
    return ANY in patterns or (bool(host) and not patterns.isdisjoint((host, *above)))


def host_problem(pattern: str) -> str:
    """Returns the reason to reject a pattern; empty if it is valid."""
    if pattern == ANY:
        return ""
    name = fold_host(pattern.strip().removeprefix("*."))
    if is_address(name):
        return "" if "*" not in pattern else "an IP address has no subdomains"
    if "/" in pattern:
        return "write only the host, without https:// and path"
    if ":" in pattern or "@" in pattern:
        return "write only the host, without port and user name"
    if "*" in name:
        return 'use "*" alone for all hosts, or as in "*.python.org" for all subdomains'
    labels = name.split(".")
    if len(name) > 253 or not all(LABEL.fullmatch(label) for label in labels):
        return "not a valid host name"
    return ""


def fold_host(host: str) -> str:
    """Returns a host as it is compared: in lower-case ASCII, without a trailing dot or brackets."""
    folded = host.strip().rstrip(".").removeprefix("[").removesuffix("]").lower()
    if not folded.isascii():
        import idna

        star = "*." if folded.startswith("*.") else ""
        with suppress(idna.IDNAError):
            folded = star + idna.encode(folded.removeprefix("*."), uts46=True).decode()
    with suppress(ValueError):
        folded = str(ip_address(folded))
    return folded


def is_address(host: str) -> bool:
    """True if a host is an IP address."""
    with suppress(ValueError):
        return bool(ip_address(host))
    return False
