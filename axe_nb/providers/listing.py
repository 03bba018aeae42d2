"""Listing of a server's models, and suggestions for a missing one."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Sequence

from axe_nb.agents.provider_table import ProviderInfo
from axe_nb.errors import ProviderError
from axe_nb.providers import wire
from axe_nb.providers.http import ask_server
from axe_nb.providers.key_command import fill_in_key
from axe_nb.providers.protocol import Server, find_secrets, without_login
from axe_nb.providers.reply_errors import masked_line
from axe_nb.secrets import redact
from axe_nb.text import list_some, nearest, quote


async def models(server: Server) -> tuple[str, ...]:
    """Returns the sorted names of the server's models; raises ProviderError if it cannot tell."""
    server = await fill_in_key(server)  # which takes as long as its command does
    try:
        async with asyncio.timeout(3.0):
            data = await ask_server(server, server.info.models_path)
    except TimeoutError:
        message = f"no answer from {address(server)} within 3s"
        raise ProviderError("timeout", message) from None
    field, key = server.info.models_keys
    entries = wire.tables(data.get(field), field)
    found = (masked_line(wire.text(entry.get(key)), 120) for entry in entries)
    return tuple(sorted({name for name in found if name}))


def address(server: Server) -> str:
    """Returns the root of the server's API for display, without login and keys."""
    find_secrets(server)
    query = server.info.query
    return redact(without_login(server.base_url) + server.info.api_path + (query and f"?{query}"))


def has(model: str, names: Sequence[str]) -> bool:
    """True if the model is among the names, disregarding `:latest` (Ollama), `models/` (Gemini)."""
    return any(name in names for name in (model, f"{model}:latest", f"models/{model}"))


def advice(provider: ProviderInfo, model: str, names: Sequence[str]) -> str:
    """Returns the next step for a missing model: the command to fetch it, or a similar name."""
    if provider.pull:
        return f"`{provider.pull.format(model=shlex.quote(model))}`"
    if near := nearest(model, names):
        return f"did you mean {quote(near)}?"
    return f"it has {list_some(names, 5)}" if names else ""
