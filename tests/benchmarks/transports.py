"""`python -m tests.benchmarks.transports`: CPU per request with our free list, beside others.

The same requests over plain http, TLS, a proxy and as a stream, by httpx with our free list, with
its own pool, and over aiohttp if `httpx-aiohttp` is installed. The server is a process of its own.
Contenders take turns; the least of the rounds counts.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from axe_nb.providers.transport import FreeList
from tests.benchmarks.http_server import HttpServer
from tests.providers.conftest import make_ca

REPLY = b'{"text":"%b"}' % (b"x" * 500)
EVENT = b'data: {"text":"word "}\n\n'
EVENTS = 5000
ROUNDS = 5
BODY = b'{"messages":[]}' + b" " * 1000


class Server(HttpServer):
    """Answers every POST, at `/stream` by many events; to a proxied request as its target would."""

    def answer(self, head: bytes, body: bytes) -> None:
        if b"/stream " not in head:
            lines = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b"
            self.transport.write(lines % (len(REPLY), REPLY))
            return
        self.transport.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        chunk = b"%x\r\n%b\r\n" % (len(EVENT), EVENT)
        for _ in range(EVENTS):
            self.transport.write(chunk)
        self.transport.write(b"0\r\n\r\n")


async def serve(certificate: str) -> None:
    """Prints the ports for http and https, and serves until its input is closed."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    loop = asyncio.get_running_loop()
    for kind in (None, context):
        server = await loop.create_server(Server, "127.0.0.1", 0, backlog=4096, ssl=kind)
        print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)


@contextmanager
def server() -> Iterator[tuple[str, str]]:
    """(URL for http, URL for https) of a server that this process trusts."""
    with tempfile.TemporaryDirectory() as folder:
        ca = make_ca(Path(folder) / "ca.pem")
        certificate = Path(folder) / "server.pem"
        ca.ca.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(certificate)
        os.environ["SSL_CERT_FILE"] = str(ca.file)
        words = [sys.executable, "-m", __spec__.name, str(certificate)]
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdin
            assert process.stdout
            plain, secret = (int(process.stdout.readline()) for _ in range(2))
            yield f"http://127.0.0.1:{plain}", f"https://127.0.0.1:{secret}"
            process.stdin.close()


def list_contenders() -> dict[str, Callable[[str], httpx.AsyncBaseTransport]]:
    """Name → what makes a transport, for requests by a proxy unless it is empty."""

    def stock(proxy: str) -> httpx.AsyncBaseTransport:
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=20)
        return httpx.AsyncHTTPTransport(limits=limits, proxy=proxy or None)

    def free(proxy: str) -> httpx.AsyncBaseTransport:
        context = httpx.create_ssl_context()
        limits = httpx.Limits(max_connections=1)
        return FreeList(
            lambda: httpx.AsyncHTTPTransport(context, limits=limits, proxy=proxy or None), [], 1000
        )

    found: dict[str, Callable[[str], httpx.AsyncBaseTransport]] = {
        "ours": free,
        "httpx": stock,
    }
    try:
        from httpx_aiohttp import AiohttpTransport  # type: ignore[import-not-found]
    except ImportError:
        return found

    def over_aiohttp(proxy: str) -> httpx.AsyncBaseTransport:
        limits = httpx.Limits(max_connections=1000, max_keepalive_connections=1000)
        made: httpx.AsyncBaseTransport = AiohttpTransport(
            limits=limits, proxy=httpx.Proxy(proxy) if proxy else None
        )
        return made

    return {**found, "aiohttp": over_aiohttp}


async def ask(transport: httpx.AsyncBaseTransport, url: str) -> int:
    """Sends one request and reads its reply; returns its size."""
    headers = {"host": httpx.URL(url).netloc.decode(), "content-length": str(len(BODY))}
    request = httpx.Request(
        "POST", url, headers=headers, stream=httpx.ByteStream(BODY),
        extensions={"timeout": {"connect": 10.0, "read": 60.0, "pool": None, "write": None}},
    )  # fmt: skip
    reply = await transport.handle_async_request(request)
    stream = reply.stream
    assert isinstance(stream, AsyncIterator | httpx.AsyncByteStream)
    try:
        return sum([len(piece) async for piece in stream])
    finally:
        await reply.aclose()


async def one_by_one(transport: httpx.AsyncBaseTransport, url: str) -> float:
    await ask(transport, url)
    began = time.process_time()
    for _ in range(200):
        await ask(transport, url)
    return (time.process_time() - began) / 200


async def hundred_cold(transport: httpx.AsyncBaseTransport, url: str) -> float:
    began = time.process_time()
    await asyncio.gather(*(ask(transport, url) for _ in range(100)))
    return (time.process_time() - began) / 100


async def hundred_warm(transport: httpx.AsyncBaseTransport, url: str) -> float:
    await hundred_cold(transport, url)
    return await hundred_cold(transport, url)


async def one_stream(transport: httpx.AsyncBaseTransport, url: str) -> float:
    began = time.process_time()
    size = await ask(transport, f"{url}/stream")
    assert size == EVENTS * len(EVENT), size
    return (time.process_time() - began) / EVENTS


async def measure(plain: str, secret: str) -> None:
    contenders = list_contenders()
    print(f"{'CPU, µs':34}" + "".join(f"{name:>10}" for name in contenders))
    for what, work, url, proxy in (
        ("request, one by one", one_by_one, plain, ""),
        ("request, 100 at once, cold", hundred_cold, plain, ""),
        ("request, 100 at once, warm", hundred_warm, plain, ""),
        ("request over TLS, one by one", one_by_one, secret, ""),
        ("request over TLS, 100 cold", hundred_cold, secret, ""),
        ("request over TLS, 100 warm", hundred_warm, secret, ""),
        ("request by a proxy, one by one", one_by_one, "http://model.example", plain),
        ("request by a proxy, 100 warm", hundred_warm, "http://model.example", plain),
        ("event of a stream", one_stream, plain, ""),
        ("event of a stream over TLS", one_stream, secret, ""),
    ):
        os.environ.pop("HTTP_PROXY", None)
        os.environ |= {"HTTP_PROXY": proxy} if proxy else {}
        found: dict[str, list[float]] = {name: [] for name in contenders}
        for _ in range(ROUNDS):
            for name, make in contenders.items():
                transport = make(proxy)
                try:
                    found[name].append(await work(transport, url))
                finally:
                    await transport.aclose()
        shown = (f"{min(times) * 1e6:10.1f}" for times in found.values())
        print(f"{what:34}" + "".join(shown), flush=True)


if __name__ == "__main__":
    match sys.argv[1:]:
        case []:
            with server() as urls:
                asyncio.run(measure(*urls))
        case [certificate]:
            asyncio.run(serve(certificate))
