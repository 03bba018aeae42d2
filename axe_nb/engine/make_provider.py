"""Makes providers from their descriptions, with API keys and base URLs from the settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from copy import copy
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, TypeAlias

from axe_nb.agents.files import expand_home
from axe_nb.agents.provider_table import PROTOCOLS, ProviderInfo
from axe_nb.agents.user_config import Config, config_dir
from axe_nb.errors import ConfigError
from axe_nb.messages import Request, Response
from axe_nb.providers.protocol import OnDelta, Provider, Server
from axe_nb.scripting.provider import ScriptProvider
from axe_nb.scripting.rules import Script, ScriptFunction

Needed: TypeAlias = Literal["key", "provider", "nothing"]
"""The setting that a plan cannot do without: a dry run needs no key, a replay no provider."""


def make(
    name: str,
    config: Config,
    scripts: tuple[Path, ...] = (),
    *,
    model: str = "",
    needs: Needed = "key",
) -> Provider:
    """Makes the provider of that name, with its key and base URL; raises ConfigError.

    `model` may decide about the API; `scripts` are folders to look script models up in first. What
    is not set up and not needed is an error of the first request that is sent.
    """
    try:
        info = config.provider(name)
    except ConfigError as error:
        if needs != "nothing":
            raise
        return Keyless(None, error)
    if not info.has_server:
        return ScriptProvider(scripts)
    try:
        made: Provider = _load_provider(info, config, config.api_key(info.name), model)
    except ConfigError as error:
        if needs == "key":
            raise
        made = Keyless(_load_provider(info, config, "", model), error)
    return made


class Keyless:
    """A provider without its key, or unknown here, which can play recorded replies only."""

    def __init__(self, provider: Provider | None, problem: ConfigError) -> None:
        self.name = provider.name if provider else "unknown"
        self.base_url = getattr(provider, "base_url", "")
        self.answers_without_tools = getattr(provider, "answers_without_tools", False)
        self._provider = provider
        self.problem = problem
        """The error for a request that is not replayed."""

    async def send(self, request: Request, on_delta: OnDelta | None = None) -> Response:
        """See `Provider.send`; raises ConfigError if the request would have to be sent."""
        if self._provider is None or request.log is None or request.log.recorded is None:
            raise copy(self.problem)
        return await self._provider.send(request, on_delta)


def find_player(provider: Provider, protocol: str) -> Provider:
    """Returns the provider for recorded replies: another one if they came over another protocol."""
    if provider.name in (protocol, "script") or protocol not in PROTOCOLS:
        return provider
    info = PROTOCOLS[protocol]
    player: Provider = import_module(info.module).PROVIDER("http://recorded", "", info)
    return player


def server(name: str, config: Config) -> Server:
    """Makes the server of a provider that has one; raises ConfigError as `make` does."""
    made: Server = _load_provider(config.provider(name), config, config.api_key(name))
    return made


def provider_for(
    config: Config,
    scripts: tuple[Path, ...] = (),
    *,
    needs: Needed = "key",
    sent: Mapping[str, ScriptFunction | Script] | None = None,
) -> Callable[[str, str], Provider]:
    """Returns a function (provider, model) → the provider, one per API; rejects missing scripts.

    `sent` are scripts that came with a job from another process.
    """
    made: dict[tuple[str, str], Provider] = {}
    if sent:
        made["script", ""] = ScriptProvider(scripts, sent)

    def find(name: str, model: str) -> Provider:
        api = ""
        with suppress(ConfigError, ValueError):  # which `make` reports, if it matters
            if (info := config.provider(name)).has_server:
                api = info.choose_api(config.base_url(name), model).module
        key = name, api
        if key not in made:
            made[key] = make(name, config, scripts, model=model, needs=needs)
        provider = made[key]
        if isinstance(provider, ScriptProvider):
            provider.scripts.find(model)
        return provider

    return find


def _load_provider(info: ProviderInfo, config: Config, key: str, model: str = "") -> Any:
    url = config.base_url(info.name)
    info = info.choose_api(url, model)
    base_url, info = info.locate(url)
    if any(info.certificates):
        ca_file, client_cert = (p and str(config_dir() / expand_home(p)) for p in info.certificates)
        info = replace(info, certificates=(ca_file, client_cert))
    if not key:
        info = replace(info, key_command=config.key_commands.get(info.name))
    return import_module(info.module).PROVIDER(base_url, key, info)
