"""Which models a server has, and which of them was meant.

Source: issue "Working in the notebook" (doctor, hints at a 404); goals.md "Safety".
"""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from axe_nb.errors import ProviderError
from axe_nb.providers import wire
from axe_nb.providers.reply import masked_line
from axe_nb.text import format_seconds, list_some, nearest, quote

if TYPE_CHECKING:
    from axe_nb.agents.provider_table import ProviderInfo
    from axe_nb.providers.base import Server

SECONDS = 3.0
"""For one server to answer."""

MAX_NAMES = 2000
"""Models of one server that are looked at."""

MAX_NAME = 120
"""Characters; no model's name is longer."""

LISTED = 5
"""Models that a hint names where none is near."""


async def models(server: Server) -> tuple[str, ...]:
    """The names of the server's models, sorted.

    Raises:
        ProviderError: it is not there, refuses, does not list them, or takes too long.
    """
    from axe_nb.providers.http import get

    try:
        async with asyncio.timeout(SECONDS):
            data = await get(server, server.info.models_path)
    except TimeoutError:
        told = f"no answer from {address(server)} within {format_seconds(SECONDS)}s"
        raise ProviderError("timeout", told) from None
    field, key = server.info.models_keys
    entries = wire.tables(data.get(field), field)[:MAX_NAMES]
    found = (masked_line(wire.text(entry.get(key)), server.key, MAX_NAME) for entry in entries)
    return tuple(sorted({name for name in found if name}))


def address(server: Server) -> str:
    """The server's base URL, for people: without name and password."""
    from axe_nb.providers.http import without_login

    return without_login(server.base_url)


def has(model: str, names: Sequence[str]) -> bool:
    """Whether a model is among the names; Ollama's `:latest` may be left out."""
    return model in names or f"{model}:latest" in names


def advice(provider: ProviderInfo, model: str, names: Sequence[str]) -> str:
    """What to do where the server lacks the model: the nearest of its names, a way to get it."""
    near = nearest(model, names) or nearest(f"{model}:latest", names)
    known = f"it has {list_some(names, LISTED)}" if names else ""
    meant = f"did you mean {quote(near)}?" if near else known
    if not provider.pull:
        return meant
    pull = f"`{provider.pull.format(model=shlex.quote(model))}`"
    return f"{pull}, or {meant}" if near else f"{pull}; {known}" if known else pull
