"""A provider's error holds no key: not in its texts, its chain, its traceback or its pickle."""

from __future__ import annotations

import asyncio
import gc
import pickle
import traceback
from collections.abc import Iterator

import pytest

from axe_nb import ProviderError
from axe_nb.providers.openai import OpenAI
from tests.providers.dialects import ask
from tests.providers.raw_server import Peer, always, raw_server, reply

KEY, PASSWORD = "sk-5ecre7-5ecre7", "pa55w0rd-5ecre7"


def chain(error: BaseException | None) -> Iterator[BaseException]:
    """The error and all that can be reached from it."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def send(url: str) -> ProviderError:
    """The error that a request to the server ends with."""
    with pytest.raises(ProviderError) as caught:
        asyncio.run(OpenAI(url, KEY).send(ask()))
    return caught.value


REPLIES = {
    "refuses and repeats the key": reply(
        f'{{"error": {{"message": "bad {KEY} {PASSWORD}"}}}}'.encode(), status="401 No"
    ),
    "fails": reply(b"oh", status="500 No"),
    "breaks off": reply(b"{" + b" " * 500)[:-400],
    "is no JSON": reply(b"<html>"),
    "is no HTTP": b"\0\0\0 no HTTP\r\n\r\n",
}


def with_login(url: str) -> str:
    return url.replace("//", f"//user:{PASSWORD}@")


@pytest.mark.parametrize("data", REPLIES.values(), ids=REPLIES)
def test_no_error_of_a_provider_holds_the_key_or_the_password(data: bytes) -> None:
    def answer(peer: Peer) -> None:
        peer.read()
        peer.send(data)

    with raw_server(answer) as server:
        check(send(with_login(server.url)))


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
        provider = OpenAI(url, KEY)
        with pytest.raises(ProviderError):
            await provider.send(ask())
        mine = (
            o for o in gc.get_objects() if str(type(o).__module__).startswith("axe_nb.providers")
        )
        return [
            shown for shown in map(repr, [*mine, provider]) if KEY in shown or PASSWORD in shown
        ]

    with raw_server(always(reply(b"{}", status="400 No"))) as server:
        assert asyncio.run(look(with_login(server.url))) == []
