"""The one method that a model is behind.

Source: seed 000 C7 (A-C7), D-24.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

from axe_nb.messages import Request, Response

OnText: TypeAlias = Callable[[str], None]
"""Takes a piece of the answer as it arrives; neither blocks nor raises."""


class Provider(Protocol):
    """A model's server. Cancelling the task that awaits `send` aborts the request."""

    name: str
    """anthropic, openai, ollama or script; prefix of the call ids that it makes up (D-28)."""

    async def send(self, request: Request, on_text: OnText | None = None) -> Response:
        """The whole answer; a provider that can stream hands its pieces to `on_text` before.

        Raises:
            ProviderError: the server failed, refused or sent nonsense.
        """
        ...
