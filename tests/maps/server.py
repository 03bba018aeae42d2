"""A server of OpenAI's protocol in a thread, which counts its answers."""

from __future__ import annotations

import asyncio
import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.benchmarks.http_server import HttpServer


@dataclass
class CountingModel:
    """Answers `done` to each prompt, up to a number of answers."""

    most: int
    answered: Counter[str] = field(default_factory=Counter)
    port: int = 0

    @property
    def environ(self) -> dict[str, str]:
        url = f"http://127.0.0.1:{self.port}"
        return {"AXE_OPENAI_BASE_URL": url, "OPENAI_API_KEY": "not-needed"}


class _Connection(HttpServer):
    def __init__(self, model: CountingModel) -> None:
        self._model = model

    def answer(self, head: bytes, body: bytes) -> None:
        if self._model.answered.total() >= self._model.most:
            return  # it waits for ever
        self._model.answered[json.loads(body)["messages"][-1]["content"]] += 1
        usage = {"prompt_tokens": 9, "completion_tokens": 9}
        reply = json.dumps({"choices": [{"message": {"content": "done"}}], "usage": usage})
        size = f"content-length: {len(reply)}"
        self.transport.write(f"HTTP/1.1 200 OK\r\n{size}\r\n\r\n{reply}".encode())


@contextmanager
def counting_model(most: int = 10**9) -> Iterator[CountingModel]:
    """The model, as long as the block."""
    model = CountingModel(most)
    loop = asyncio.new_event_loop()
    started = threading.Event()

    async def serve() -> Any:
        server = await loop.create_server(lambda: _Connection(model), "127.0.0.1", 0)
        model.port = server.sockets[0].getsockname()[1]
        started.set()
        return server

    def run() -> None:
        server = loop.run_until_complete(serve())
        loop.run_forever()
        server.close()
        loop.close()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    started.wait()
    try:
        yield model
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
