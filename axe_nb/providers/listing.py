"""Listing of a server's models, and suggestions for a missing one."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from axe_nb.errors import ProviderError
from axe_nb.providers import wire
from axe_nb.providers.key_command import fill_in_key
from axe_nb.providers.reply_errors import masked_line
from axe_nb.providers.secrets import Secrets, mask_query
from axe_nb.text import format_seconds, list_some, nearest, quote

if TYPE_CHECKING:
    from axe_nb.agents.provider_table import ProviderInfo
    from axe_nb.providers.protocol import Server

SECONDS = 3.0
"""Time limit for the reply of one server."""

MAX_NAMES = 2000
"""Maximum number of models read from one server."""

MAX_NAME = 120
"""Maximum length of a model name in characters."""

LISTED = 5
"""Number of models that a hint names if none is similar."""


async def models(server: Server) -> tuple[str, ...]:
    """Returns the sorted names of the server's models.

    Raises ProviderError if it is unreachable, refuses, has no listing or takes too long.
    """
    from axe_nb.providers.http import ask_server

    server = await fill_in_key(server)  # which takes as long as its command does
    try:
        async with asyncio.timeout(SECONDS):
            data = await ask_server(server, server.info.models_path)
    except TimeoutError:
        message = f"no answer from {address(server)} within {format_seconds(SECONDS)}s"
        raise ProviderError("timeout", message) from None
    field, key = server.info.models_keys
    entries = wire.tables(data.get(field), field)[:MAX_NAMES]
    secrets = Secrets.of(server)
    found = (masked_line(wire.text(entry.get(key)), secrets, MAX_NAME) for entry in entries)
    return tuple(sorted({name for name in found if name}))


def root(server: Server) -> str:
    """Returns the root of a server for display, without user name and password."""
    from axe_nb.providers.connection_errors import without_login

    return without_login(server.base_url)


def address(server: Server) -> str:
    """Returns the root of the server's API for display, without login and keys."""
    query = mask_query(server.info.query)
    return root(server) + server.info.api_path + (query and f"?{query}")


def has(model: str, names: Sequence[str]) -> bool:
    """True if the model is among the names; Ollama's `:latest` and Gemini's `models/` may lack."""
    return any(name in names for name in (model, f"{model}:latest", f"models/{model}"))


def advice(provider: ProviderInfo, model: str, names: Sequence[str]) -> str:
    """Returns the next step for a missing model: a similar name, or the command to fetch it."""
    near = nearest(model, names) or nearest(f"{model}:latest", names)
    known = f"it has {list_some(names, LISTED)}" if names else ""
    suggested = f"did you mean {quote(near)}?" if near else known
    if not provider.pull:
        return suggested
    pull = f"`{provider.pull.format(model=shlex.quote(model))}`"
    return f"{pull}, or {suggested}" if near else f"{pull}; {known}" if known else pull
