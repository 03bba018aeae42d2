"""The least of an HTTP server that a benchmark needs: whole requests in, bytes out."""

from __future__ import annotations

import asyncio


class HttpServer(asyncio.Protocol):
    """One connection; a subclass answers its requests, one after the other."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self._read = b""

    def data_received(self, data: bytes) -> None:
        self._read += data
        head, blank, body = self._read.partition(b"\r\n\r\n")
        if not blank:
            return
        size = int(head.lower().partition(b"content-length:")[2].split(b"\r\n", 1)[0])
        if len(body) < size:
            return
        self._read = body[size:]
        self.answer(head, body)

    def answer(self, head: bytes, body: bytes) -> None:
        """Writes the reply to `transport`, now or later."""
        raise NotImplementedError
