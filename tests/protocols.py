"""The protocols that scripts are served in, and the providers whose models speak them."""

from __future__ import annotations

from typing import Any

from axe_nb.agents.provider_table import PROTOCOLS as INFOS
from axe_nb.scripting.wire import WIRES, Protocol
from tests.files import settings as settings

PROTOCOLS: tuple[Protocol, ...] = tuple(WIRES)


BRIEF: tuple[Protocol, ...] = ("anthropic", "openai", "ollama")
"""Those whose replies say each thing once; the Responses API says a streamed text five times, and
has a long envelope."""


def provider_of(protocol: str) -> str:
    """The part of a model before the slash: `openai` for the Responses API too."""
    return INFOS[protocol].name if protocol in INFOS else protocol


def as_body(protocol: str, body: dict[str, Any]) -> dict[str, Any]:
    """A body with `messages` as the protocol has it: the Responses API calls them `input`."""
    if protocol != "responses":
        return body
    return {{"messages": "input"}.get(key, key): value for key, value in body.items()}


def address_of(protocol: str, url: str, key: str = "sk-canary-0123456789") -> dict[str, str]:
    """The environment in which the models of a protocol are asked at a URL."""
    name = provider_of(protocol).upper()
    path = "/v1/responses" if protocol == "responses" else ""
    return {f"AXE_{name}_BASE_URL": url + path, f"{name}_API_KEY": key}
