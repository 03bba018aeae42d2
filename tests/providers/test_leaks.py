"""A provider's error holds no key: not in its texts, its chain, its traceback or its pickle."""

from __future__ import annotations

import asyncio
import gc
import pickle
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any

import pytest

from axe_nb import ProviderError
from axe_nb.agents.provider_table import PROVIDERS
from axe_nb.messages import Message, Request
from axe_nb.providers.openai import PROVIDER as OpenAI

KEY, PASSWORD = "sk-5ecre7-5ecre7", "pa55w0rd-5ecre7"


@contextmanager
def server(reply: Callable[[BaseHTTPRequestHandler], None]) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            reply(self)

        def log_message(self, *_: Any) -> None:
            pass

    made = HTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=made.serve_forever, daemon=True).start()
    try:
        yield f"http://user:{PASSWORD}@127.0.0.1:{made.server_port}"
    finally:
        made.shutdown()
        made.server_close()


def answer(status: int, body: str, *, length: int | None = None) -> Callable[[Any], None]:
    def reply(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        handler.send_header("content-length", str(len(body) if length is None else length))
        handler.end_headers()
        handler.wfile.write(body.encode())
        handler.close_connection = True

    return reply


def nonsense(handler: BaseHTTPRequestHandler) -> None:
    handler.wfile.write(b"\0\0\0 no HTTP\r\n\r\n")
    handler.close_connection = True


def chain(error: BaseException | None) -> Iterator[BaseException]:
    """The error and all that can be reached from it."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def send(url: str) -> ProviderError:
    """The error that a request to the server ends with."""
    request = Request("m", (Message("user", "hi"),))
    with pytest.raises(ProviderError) as caught:
        asyncio.run(OpenAI(url, KEY, PROVIDERS["openai"]).send(request))
    return caught.value


REPLIES = {
    "refuses and repeats the key": answer(
        401, f'{{"error": {{"message": "bad {KEY} {PASSWORD}"}}}}'
    ),
    "fails": answer(500, "oh"),
    "breaks off": answer(200, "{", length=500),
    "is no JSON": answer(200, "<html>"),
    "is no HTTP": nonsense,
}


@pytest.mark.parametrize("reply", REPLIES.values(), ids=REPLIES)
def test_no_error_of_a_provider_holds_the_key_or_the_password(reply: Any) -> None:
    with server(reply) as url:
        check(send(url))


@pytest.mark.parametrize("end", [":1", ":notaport", ""])
def test_no_error_of_a_connection_holds_them_either(end: str) -> None:
    host = f"127.0.0.1{end}" if end else "nohost.invalid"
    check(send(f"http://user:{PASSWORD}@{host}"))


def check(error: ProviderError) -> None:
    found = list(chain(error))
    assert found == [error], "the errors of httpx hold the request"
    texts = [repr(error), str(error), repr(vars(error)), "".join(traceback.format_exception(error))]
    texts += [str(pickle.dumps(error)), str(pickle.loads(pickle.dumps(error)).__dict__)]
    for text in texts:
        assert KEY not in text
        assert PASSWORD not in text


def test_no_object_of_a_connection_shows_a_password() -> None:
    async def look(url: str) -> list[str]:
        provider = OpenAI(url, KEY, PROVIDERS["openai"])
        with pytest.raises(ProviderError):
            await provider.send(Request("m", (Message("user", "x"),)))
        mine = (
            o for o in gc.get_objects() if str(type(o).__module__).startswith("axe_nb.providers")
        )
        return [
            shown for shown in map(repr, [*mine, provider]) if KEY in shown or PASSWORD in shown
        ]

    with server(answer(400, "{}")) as url:
        assert asyncio.run(look(url)) == []
