"""The protocols that scripts are served in, and the providers whose models speak them."""

from __future__ import annotations

from typing import Any

from axe_nb.provider_table import PROTOCOLS as INFOS
from axe_nb.scripting.wire import WIRES, Protocol

PROTOCOLS: tuple[Protocol, ...] = tuple(WIRES)


def provider_of(protocol: str) -> str:
    """The part of a model before the slash: `openai` for the Responses API too."""
    return INFOS[protocol].name if protocol in INFOS else protocol


def as_body(protocol: str, body: dict[str, Any]) -> dict[str, Any]:
    """A body with `messages` as the protocol has it: the Responses API calls them `input`."""
    if protocol != "responses":
        return body
    return {{"messages": "input"}.get(key, key): value for key, value in body.items()}
