"""Replies that a person gives in place of a model's, and the bodies of requests to look at.

Source: D-66; product.md "Runs are recordings" (Fork), "Step by step".
"""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import Any

from axe_nb.exchanges import Exchange, Source
from axe_nb.messages import Request, Response, ToolCall, Usage
from axe_nb.provider_table import PROTOCOLS
from axe_nb.scripting.rules import stop_reason

OF_SCRIPTS = "openai"
"""Protocol in which the requests to models without a server are shown."""


def make_reply(given: Any) -> Response | None:
    """Returns a reply made of a text, of calls or of a `Response`; None = it is none of these."""
    match given:
        case Response():
            return given
        case str():
            return Response(given, (), stop_reason(()))
        case ToolCall():
            return Response("", (given,), stop_reason((given,)))
        case [_, *_] if all(isinstance(one, ToolCall) for one in given):
            return Response("", tuple(given), stop_reason(tuple(given)))
    return None


def make_given(request: Request, turn: int, reply: Response, source: Source = "given") -> Exchange:
    """Returns the exchange of a turn whose reply a person gives: nothing was sent or paid."""
    return Exchange(
        turn=turn, model=request.model, protocol="script",
        sent=len(request.messages), system=request.system, system_ends=request.system_ends,
        tools=request.tools, past_tools=request.past_tools, output=request.output,
        params=request.params, response=replace(reply, usage=Usage()), cost=0.0, source=source,
    )  # fmt: skip


def encode_body(request: Request, protocol: str) -> tuple[bytes, str]:
    """Returns the body of a request, and the protocol that it is encoded for.

    Args:
        request: the request.
        protocol: that of its server; a model without one has its body over another.
    """
    used = protocol if protocol in PROTOCOLS else OF_SCRIPTS
    body: bytes = import_module(PROTOCOLS[used].module).body(request)
    return body, used
