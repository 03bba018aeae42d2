"""Calls that the model's server has made of its own tools, and the pages that they found. Pure.

Source: D-76.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

MAX_URL = 2000
"""Characters of a URL; a longer one is not kept as a source."""


@dataclass(frozen=True, slots=True)
class Page:
    """A page of the web that the model's server has found, or that an answer cites."""

    title: str
    """As the server sent it; empty if it sent none."""
    url: str
    """Begins with http:// or https://."""


@dataclass(frozen=True, slots=True)
class ServerCall:
    """A call of a tool that the model's server has run within a reply (D-76)."""

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    sources: tuple[Page, ...] = ()
    """The pages that it has found."""
    error: str = ""
    """The failure in the server's own words; empty if there was none."""


def is_link(url: str) -> bool:
    """True for an address of the web that can be shown and opened as it is."""
    if len(url) > MAX_URL or not url.isprintable() or set(url) & set(' <>"'):
        return False
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        return False
