"""One request of a run as it was sent: its exact body, and what fills the context of the model.

Source: product.md "Runs are recordings"; D-59, D-60, D-62.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from axe_nb.engine.conversation import Conversation
from axe_nb.engine.person import OF_SCRIPTS
from axe_nb.engine.plan import Plan
from axe_nb.errors import ConfigError
from axe_nb.inspection.changes import describe_changes
from axe_nb.inspection.context import ContextTokens, count_context
from axe_nb.inspection.page import Page
from axe_nb.messages import Request
from axe_nb.provider_table import PROTOCOLS
from axe_nb.recording.find_exchange import find_exchange
from axe_nb.results import RunResult, name_run
from axe_nb.text import quote


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SentRequest:
    """One request to a model. `body` is not filtered; what is shown of it has no secrets."""

    place: str
    """Turn in the tree: `0.2/3` is the third turn of run `0.2`."""
    attempt: int = 1
    """From 1; the last one of the turn."""
    agent: str
    model: str
    """provider/model."""
    protocol: str
    """Protocol of the body."""
    note: str = ""
    """The reason why this body was not sent as it is; empty if it was."""
    raw: bytes = field(repr=False)
    """The body, byte by byte."""
    changed: tuple[str, ...]
    """The changes since the previous turn, in words, without secrets."""
    context: ContextTokens
    """Source → tokens, with `total`."""

    @property
    def body(self) -> dict[str, Any]:
        """The body, decoded."""
        decoded: dict[str, Any] = json.loads(self.raw)
        return decoded

    def __repr__(self) -> str:
        who = name_run(self.agent, self.model)
        return f"SentRequest({who}, {self.place}, {self.protocol}, {self.context.size})"

    def __str__(self) -> str:
        return self.format()

    def format(self, *, whole: bool = False) -> str:
        """Returns the request as text, without secrets.

        Args:
            whole: if True, long bodies are not cut.
        """
        return self._page(whole=whole).text()

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        page = self._page()
        return {"text/html": page.html(), "text/plain": page.text()}

    def _page(self, *, whole: bool = False) -> Page:
        facts = [self.model, self.place, f"attempt {self.attempt}" if self.attempt > 1 else ""]
        return Page(
            agent=self.agent, facts=tuple(filter(None, facts)), note=self.note,
            is_first=self.place.endswith("/1"),
            changed=self.changed, context=self.context, protocol=self.protocol, body=self.body,
            size=len(self.raw), pointer="" if whole else f'.request("{self.place}").body',
        )  # fmt: skip


def find_request(
    result: RunResult, place: str | int | None, protocol: str | None = None
) -> SentRequest:
    """Returns the request that a run sent at a place.

    Args:
        result: the run, or one above it.
        place: as in `find_exchange`.
        protocol: `anthropic`, `openai`, `responses` or `ollama`: the request as it would be sent
            over that one; None = as it was sent.

    Raises:
        ConfigError: there is none, or no such protocol.
        ProviderError: it could not be encoded.
    """
    if protocol is not None and protocol not in PROTOCOLS:
        raise ConfigError(
            f"unknown protocol {quote(protocol)}", hint=f"one of {', '.join(PROTOCOLS)}"
        )
    found = find_exchange(result, place)
    exchange = found.exchange
    before = found.request(found.before) if found.before else None
    return _make(
        found.request(exchange), found.run.model,
        own=exchange.protocol, wanted=protocol, streaming=exchange.streaming,
        before=before, first=found.first,
        reported=0 if exchange.response is None else exchange.response.usage.input_tokens,
    )  # fmt: skip


def preview_request(plan: Plan) -> SentRequest:
    """Returns the first request of a run that has not begun.

    Raises:
        ProviderError: it cannot be encoded.
    """
    talk = Conversation(plan)
    talk.say(plan.prompt, plan.pictures)
    request = talk.make_request(plan.toolset.offered, output=not plan.asks_at_end)
    own = plan.provider.name
    streaming = {}
    if plan.is_streamed and own in PROTOCOLS:
        streaming = import_module(PROTOCOLS[own].module).STREAMING.fields[0]
    return _make(
        request, plan.agent.model, own=own, streaming=streaming,
        first=len(request.messages) - 1, note="nothing was sent",
    )  # fmt: skip


def _make(
    request: Request,
    model: str,
    *,
    own: str,
    wanted: str | None = None,
    streaming: Mapping[str, Any] | None = None,
    before: Request | None = None,
    first: int,
    reported: int = 0,
    note: str = "",
) -> SentRequest:
    """Encodes a request.

    Args:
        request: the request.
        model: provider/model.
        own: protocol of the model's server, or `script`.
        wanted: protocol to encode it for; None = its own.
        streaming: the fields that ask for a stream over its own protocol.
        before: the request of the turn before.
        first: position of the run's own prompt among its messages.
        reported: tokens of the input, as the reply says.
        note: the reason why it was not sent.
    """
    protocol = wanted or (own if own in PROTOCOLS else OF_SCRIPTS)
    module = import_module(PROTOCOLS[protocol].module)
    if protocol != own:
        sent = f"it was sent over {own}" if own in PROTOCOLS else "a script model is sent no body"
        note = f"as it would be sent over {protocol}; {note or sent}"
        reported = reported if own not in PROTOCOLS else 0
        streaming = module.STREAMING.fields[0] if streaming else {}
    raw = module.body(request, streaming)
    return SentRequest(
        place=request.place, attempt=request.attempt, agent=request.agent, model=model,
        protocol=protocol, note=note, raw=raw, changed=tuple(describe_changes(before, request)),
        context=count_context(request, json.loads(raw), module.encode, first, reported),
    )  # fmt: skip
