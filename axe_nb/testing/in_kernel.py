"""The part that runs inside the kernel of a tested notebook."""

from __future__ import annotations

import ipaddress
import sys
from typing import Any

MAX_MISSED = 3
"""Requests without an answer that are listed."""


def close_network() -> None:
    """Restricts this process to its own machine until it ends."""
    sys.addaudithook(_refuse)


def _refuse(event: str, arguments: tuple[Any, ...]) -> None:
    match event, arguments:
        case "socket.connect" | "socket.sendto", (_, (str(host), *_)):
            pass
        case "socket.getaddrinfo" | "socket.gethostbyname", (str(host), *_):
            pass
        case _:  # a local socket, or no network at all
            return
    if not _is_own(host):
        raise ConnectionRefusedError(
            f"network access is blocked while a notebook is tested, and {host} was requested; "
            "model replies and results of tools with record=True are replayed from a cassette"
        )


def _is_own(host: str) -> bool:
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host in ("", "localhost")
    return address.is_loopback or address.is_unspecified


def end_cassette(own: str) -> tuple[str, int, int, int, list[str]] | None:
    """Removes what a cassette has for earlier versions of its notebook.

    Args:
        own: file name of the cassette that no other notebook uses.

    Returns:
        Its path; the numbers of exchanges played and recorded, and of records removed; what it
        lacked, unless the notebook asked for a replay itself, as to show that. None if no cassette
        was used.
    """
    home = sys.modules.get("axe_nb.session.session")
    used = home.session.cassette if home else None
    if used is None:
        return None
    removed = used.prune() if used.path.name == own else 0
    missed = [] if used.mode else sorted({one.message for one in used.missed})
    return used.shown, used.hits, used.recorded, removed, missed[:MAX_MISSED]
