"""The provider interface, the server behind a provider, and the protocol that it speaks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from axe_nb.agents.provider_table import ProviderInfo
from axe_nb.messages import Delta, Request, Response

if TYPE_CHECKING:
    from axe_nb.providers.streaming import Assembly, Deltas, NDJSONDecoder, SSEDecoder

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
        """Never shown; empty if there is none."""


class Provider(Protocol):
    """A model's server. Cancelling the task that awaits `send` aborts the request."""

    name: str
    """Name of the protocol; prefix of the call ids that it generates (D-28)."""

    async def send(self, request: Request, on_delta: OnDelta | None = None) -> Response:
        """Returns the whole answer; a streaming provider first passes the pieces to `on_delta`.

        Raises ProviderError if the server failed, refused the request or sent an invalid reply.
        """
        ...


@dataclass(frozen=True, kw_only=True)
class WireProtocol:
    """How requests are written, and replies read."""

    path: str
    body: Callable[[Request, Mapping[str, Any]], bytes]
    """(request, fields that ask for a stream) → body."""
    parse: Callable[[Mapping[str, Any]], Response]
    stream_fields: Sequence[Mapping[str, Any]] = ({"stream": True},)
    """Fields that ask for a stream; later ones have less, for servers that refuse some."""
    decoder: Callable[[], SSEDecoder | NDJSONDecoder]
    assembly: Callable[[Deltas], Assembly]
    takes_form: Callable[[Mapping[str, Any]], bool] = lambda form: True
    """True if an answer of this schema can be asked for without a tool."""
    find_prefix: Callable[[Request], str] = lambda request: ""
    """Digest of what the reply's own parts are bound to; empty = to nothing (D-78)."""
