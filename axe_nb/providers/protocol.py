"""The provider interface, and the server behind a provider."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

from axe_nb.agents.provider_table import ProviderInfo
from axe_nb.messages import Delta, Request, Response

OnDelta: TypeAlias = Callable[[Delta], None]
"""Receives a piece of the reply as it arrives; must not block or raise."""


class Server(Protocol):
    """A server of models: its URL and key."""

    @property
    def info(self) -> ProviderInfo:
        """The provider: a built-in one, or a named endpoint of config.toml."""

    @property
    def base_url(self) -> str:
        """The server's root, without a slash at the end (D-33)."""

    @property
    def key(self) -> str:
        """The API key, never shown; empty if there is none."""


class Provider(Protocol):
    """A model's server. Cancelling the task that awaits `send` aborts the request."""

    name: str
    """Name of the protocol; prefix of the call ids that it generates (D-28)."""

    async def send(self, request: Request, on_delta: OnDelta | None = None) -> Response:
        """Returns the whole answer; a streaming provider first passes the pieces to `on_delta`.

        Raises ProviderError if the server failed, refused the request or sent an invalid reply.
        """
        ...
