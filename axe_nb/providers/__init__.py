"""The models' servers, one module each, and `make`, which finds the right one.

Source: B-2, B-3, D-33; product.md "Providers".
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from axe_nb.agents.config import Config
from axe_nb.errors import ConfigError
from axe_nb.providers.base import Provider
from axe_nb.text import nearest, quote

if TYPE_CHECKING:
    from axe_nb.providers.http import Server

SUPPORTED = ("anthropic", "openai", "ollama", "script")


def make(name: str, config: Config, scripts: tuple[Path, ...] = ()) -> Provider:
    """The provider of that name, with its key and base URL.

    Args:
        name: the part of a model before the slash; lower case.
        scripts: folders to look script models up in first.

    Raises:
        ConfigError: there is no such provider (exit 1), its key is missing (exit 3) or no key,
            or its base URL is no address.
    """
    if name not in SUPPORTED:
        near = nearest(name.lower(), SUPPORTED)
        raise ConfigError(
            f"unsupported provider {quote(name)}: supported providers are {', '.join(SUPPORTED)}",
            hint=f"did you mean {near}?" if near else "",
            exit_code=1,
        )
    if name == "script":
        from axe_nb.scripting.provider import ScriptProvider

        return ScriptProvider(scripts or None)
    made: Provider = _connected(name, config)
    return made


def server(name: str, config: Config) -> Server:
    """The server behind a provider that has one, with its key and base URL.

    Raises:
        ConfigError: its key is missing or no key, or its base URL is no address.
    """
    made: Server = _connected(name, config)
    return made


def _connected(name: str, config: Config) -> Any:
    provider = import_module(f"axe_nb.providers.{name}").PROVIDER
    return provider(_address(name, config), config.api_key(name))


def _address(name: str, config: Config) -> str:
    base_url = config.base_url(name)
    try:
        parts = urlsplit(base_url)
        is_whole = bool(parts.hostname) and parts.port != 0 and not (parts.query or parts.fragment)
    except ValueError:
        is_whole = False
    if not is_whole or not base_url.isprintable() or " " in base_url:
        raise ConfigError(
            f"base URL of provider {quote(name)} is no address of a server",
            hint=f"set AXE_{name.upper()}_BASE_URL, or base_url under [providers.{name}] in "
            "config.toml, to something like http://localhost:8000",
        )
    return base_url
