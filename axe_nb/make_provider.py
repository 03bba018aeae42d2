"""Makes providers from their descriptions, with API keys and base URLs from the settings.

Source: B-2, B-3, D-25, D-33; product.md "Providers".
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from axe_nb.agents.config import Config
from axe_nb.errors import ConfigError
from axe_nb.provider_table import ProviderInfo
from axe_nb.providers.protocol import Provider, Server
from axe_nb.scripting.provider import ScriptProvider
from axe_nb.text import quote


def make(name: str, config: Config, scripts: tuple[Path, ...] = ()) -> Provider:
    """Makes the provider of that name, with its key and base URL.

    Args:
        name: the part of a model before the slash; lower case.
        scripts: folders to look script models up in first.

    Raises:
        ConfigError: the provider is unknown (exit 1), its key is missing (exit 3) or invalid,
            or its base URL is not a valid URL.
    """
    info = config.provider(name)
    if not info.has_server:
        return ScriptProvider(scripts or None)
    made: Provider = _load_provider(info, config)
    return made


def server(name: str, config: Config) -> Server:
    """Makes the server of a provider that has one, with its key and base URL.

    Raises:
        ConfigError: its key is missing or invalid, or its base URL is not a valid URL.
    """
    made: Server = _load_provider(config.provider(name), config)
    return made


def provider_for(config: Config, scripts: tuple[Path, ...] = ()) -> Callable[[str, str], Provider]:
    """Returns (provider, model) → the provider, one per name, which also rejects missing scripts.

    Args:
        scripts: folders to look script models up in first.
    """
    made: dict[str, Provider] = {}

    def find(name: str, model: str) -> Provider:
        if name not in made:
            made[name] = make(name, config, scripts)
        provider = made[name]
        if isinstance(provider, ScriptProvider):
            provider.scripts.check(model)
        return provider

    return find


def _load_provider(info: ProviderInfo, config: Config) -> Any:
    provider = import_module(info.module).PROVIDER
    base_url, info = info.locate(_check_base_url(info, config))
    return provider(base_url, config.api_key(info.name), info)


def _check_base_url(info: ProviderInfo, config: Config) -> str:
    base_url = config.base_url(info.name)
    try:
        parts = urlsplit(base_url)
        is_whole = bool(parts.hostname) and parts.port != 0 and not (parts.query or parts.fragment)
    except ValueError:
        is_whole = False
    if not is_whole or not base_url.isprintable() or " " in base_url:
        raise ConfigError(
            f"base URL of provider {quote(info.name)} is not a valid URL",
            hint=f"set {info.url_variable}, or base_url under [providers.{info.name}] in "
            "config.toml, to something like http://localhost:8000",
        )
    return base_url
