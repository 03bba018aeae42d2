"""Connections: shared per loop and base URL, closed with the loop, aborted with the task."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
import pickle
import threading
import time
import traceback
import zlib
from collections.abc import Iterator
from itertools import pairwise

import pytest

from axe_nb.agents.user_config import Config
from axe_nb.engine.plan import provider_for
from axe_nb.errors import ConfigError, ProviderError
from axe_nb.providers.http import MAX_REPLY
from axe_nb.providers.openai import OpenAI
from tests.providers.dialects import BY_NAME, KEY, ask
from tests.providers.raw_server import Peer, always, raw_server, reply
from tests.wire.replay import Replay

OPENAI = BY_NAME["openai"]
PASSWORD = "pa55w0rd-5ecre7"
HELLO = {"status": 200, "body": OPENAI.reply("hello", (), "stop")}


@pytest.fixture
def server() -> Iterator[Replay]:
    replies = {
        "hello": HELLO,
        "closed": {"network": "close_before_headers"},
        "refused": {"status": 401, "body": {"error": {"message": f"no such key: {KEY}"}}},
        "page": {"status": 200, "body": "<html>"},
        "failed": {"status": 500, "body": "oh"},
        "huge": {"status": 200, "body": b" " * (MAX_REPLY + 1)},
        "short": HELLO | {"network": "short_body"},
        "moved": {"status": 308, "headers": {"location": "/hello/v1/chat/completions"}},
    }
    with Replay(replies) as replay:
        yield replay


def failure(base_url: str, dialect: str = "openai") -> ProviderError:
    with pytest.raises(ProviderError) as raised:
        BY_NAME[dialect].send(base_url)
    return raised.value


@pytest.mark.req("D-5", "D-25")
def test_200_requests_wait_for_their_answers_side_by_side() -> None:
    """A barrier that only opens when all are there: a cap on connections would hang this test."""
    together = threading.Barrier(200)

    def answer(peer: Peer) -> None:
        peer.read()
        together.wait()
        peer.send(reply())

    async def all_at_once(url: str) -> set[str]:
        provider = OpenAI(url, KEY)
        answers = await asyncio.gather(*(provider.send(ask()) for _ in range(200)))
        return {answer.content for answer in answers}

    with raw_server(answer) as server:
        assert asyncio.run(all_at_once(server.url)) == {"hello"}


@pytest.mark.req("B-4", "B-5")
def test_a_redirect_is_not_followed(server: Replay) -> None:
    error = failure(server.url("moved"))
    assert error.category == "server"
    assert "/hello/v1/chat/completions" in error.detail
    assert "not followed" in error.detail
    assert "base_url" in error.hint
    assert server.log("hello") == []


@pytest.mark.req("B-5")
def test_a_reply_without_end_is_given_up() -> None:
    sent = 0

    def answer(peer: Peer) -> None:
        nonlocal sent
        peer.read()
        peer.send(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        while True:
            peer.send(b"100000\r\n" + b" " * 0x100000 + b"\r\n")
            sent += 1

    with raw_server(answer) as server:
        assert failure(server.url).detail == "the reply exceeds 64 MiB"
    assert sent < 2 * (MAX_REPLY >> 20)


def with_login(url: str) -> OpenAI:
    return OpenAI(url.replace("//", f"//me:{PASSWORD}@"), KEY)


def shown_in(error: ProviderError) -> str:
    """All texts of an error: its chain, its traceback with variables, and its pickle."""
    assert (error.__cause__, error.__context__) == (None, None), "errors of httpx hold the request"
    shown = traceback.TracebackException.from_exception(error, capture_locals=True)
    again = pickle.loads(pickle.dumps(error))
    texts = ("".join(shown.format()), repr(vars(error)), error.hint, repr(again), repr(vars(again)))
    return "\n".join(texts)


@pytest.mark.req("B-3")
@pytest.mark.parametrize("name", ["closed", "refused", "short", "huge", "page", "failed"])
def test_key_and_password_are_in_no_traceback_repr_or_log(
    server: Replay, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    caplog.set_level(logging.DEBUG)
    for provider in (OpenAI(server.url(name), KEY), with_login(server.url(name))):
        with pytest.raises(ProviderError) as raised:
            asyncio.run(provider.send(ask()))
        text = shown_in(raised.value)
        assert "provider = OpenAI(base_url=" in text, "variables are shown"
        for place in (text, repr(provider), caplog.text):
            assert KEY not in place
            assert PASSWORD not in place
    key, login = (asked.headers["authorization"] for asked in server.log(name)[-2:])
    assert (key, login[:6]) == (f"Bearer {KEY}", "Basic ")
    assert name == "closed" or "/v1/chat/completions" in caplog.text, "replies are logged"


@pytest.mark.req("B-3")
@pytest.mark.parametrize("host", ["127.0.0.1:1", "127.0.0.1:notaport", "nohost.invalid"])
def test_no_error_of_a_connection_holds_them_either(host: str) -> None:
    with pytest.raises(ProviderError) as raised:
        asyncio.run(with_login(f"http://{host}").send(ask()))
    assert not any(secret in shown_in(raised.value) for secret in (KEY, PASSWORD))


@pytest.mark.req("B-2", "A-X1")
@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("OpenAI", "did you mean openai?"),
        ("xyzzy", 'to use another server, add [providers.xyzzy] with protocol = "openai" and '
                  "base_url to $XDG_CONFIG_HOME/axe/config.toml"),
    ],
)  # fmt: skip
def test_an_unknown_provider_is_refused_with_the_known_ones(name: str, hint: str) -> None:
    with pytest.raises(ConfigError) as raised:
        provider_for(Config())(name, "")
    assert str(raised.value) == (
        f'unsupported provider "{name}": supported providers are anthropic, openai, ollama, script'
    )
    assert raised.value.exit_code == 1
    assert raised.value.hint == hint


def find_error(data: bytes, coding: str, status: str = "200 OK") -> ProviderError:
    with raw_server(always(reply(data, f"Content-Encoding: {coding}", status=status))) as server:
        return failure(server.url)


@pytest.mark.req("B-5")
def test_an_error_keeps_its_status_whatever_its_body_is_compressed_by() -> None:
    said = json.dumps({"error": {"message": "no such key"}}).encode()
    assert find_error(gzip.compress(said), "gzip", "401 No").detail == "no such key"
    unread = find_error(b"abcdef", "br", "401 No")
    assert (unread.status, unread.detail) == (401, "401 Unauthorized")
    assert find_error(b"abcdef", "br").detail.endswith("failed: unsupported compression br")


@pytest.mark.req("B-5")
def test_a_compressed_reply_is_read_but_no_bomb() -> None:
    hello = json.dumps(HELLO["body"]).encode()
    for coding, pack in (("", bytes), ("gzip", gzip.compress), ("deflate", zlib.compress)):
        with raw_server(always(reply(pack(hello), f"Content-Encoding: {coding}"))) as server:
            assert OPENAI.send(server.url).content == "hello"
    packer = zlib.compressobj(level=1, wbits=zlib.MAX_WBITS | 16)
    bomb = b"".join(packer.compress(bytes(1_000_000)) for _ in range(300)) + packer.flush()
    assert find_error(bomb, "gzip").detail == "the reply exceeds 64 MiB"
    assert find_error(gzip.compress(bomb), "gzip, gzip").detail.endswith("compression gzip, gzip")


@pytest.mark.req("B-5")
def test_a_compressed_flood_lets_other_tasks_run() -> None:
    """A few kB on the wire are 600 kB of events, which arrive as one piece."""
    flood = gzip.compress(b"data: {}\n\n" * 60_000)
    head = ("Content-Encoding: gzip", "Content-Type: text/event-stream")

    async def find_longest(url: str) -> float:
        """The longest time for which other tasks had to wait, as a share of the whole."""
        asking = asyncio.create_task(OpenAI(url, KEY).send(ask(), lambda delta: None))
        times = [time.monotonic()]
        while not asking.done():
            await asyncio.sleep(0)
            times.append(time.monotonic())
        assert isinstance(asking.exception(), ProviderError)
        return max(b - a for a, b in pairwise(times)) / (times[-1] - times[0])

    with raw_server(always(reply(flood, *head))) as server:
        assert asyncio.run(find_longest(server.url)) < 0.4
