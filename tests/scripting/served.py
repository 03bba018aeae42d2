"""Requests to script servers, as plain httpx sends them."""

from __future__ import annotations

from typing import Any

import httpx

from axe_nb.scripting.server import ScriptServer
from axe_nb.scripting.wire import WIRES
from tests.protocols import as_body

PATHS = {protocol: wire.path for protocol, wire in WIRES.items()}


def body(text: str, **more: Any) -> dict[str, Any]:
    return {"model": "lead", "messages": [{"role": "user", "content": text}],
            "stream": False, **more}  # fmt: skip


def post(server: ScriptServer, text: str, **more: Any) -> httpx.Response:
    url = server.base_url + PATHS[server.protocol]
    return httpx.post(url, json=as_body(server.protocol, body(text, **more)), timeout=10)
