"""Replies as bytes: however they are cut."""

from __future__ import annotations

import gc
import random
import weakref

import h11
import httpx
import pytest

from axe_nb.providers.http1 import MAX_HEAD, Reply

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
WHOLE = {
    "a length": (b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello", b"hello"),
    "no body": (b"HTTP/1.1 204 No Content\r\n\r\n", b""),
    "chunks": (CHUNKED + b"2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\n\r\n", b"hello"),
    "a trailer": (CHUNKED + b"5\r\nhello\r\n0\r\nx-sum: 1\r\n\r\n", b"hello"),
    "spaces after sizes": (CHUNKED + b"5  \r\nhello\r\n0  \r\n\r\n", b"hello"),
    "interim replies": (
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n"
        b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello",
        b"hello",
    ),
    "no reason": (b"HTTP/1.1 200\r\ncontent-length: 5\r\n\r\nhello", b"hello"),
    "bare line feeds": (b"HTTP/1.1 200 OK\ncontent-length: 5\n\nhello", b"hello"),
}


def receive(data: bytes, cuts: list[int]) -> tuple[Reply, bytes]:
    """The reply made of these bytes, cut at these places; and its body."""
    made, body = Reply(), b""
    for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
        made.receive(data[start:end])
        body += made.take()
    return made, body


@pytest.mark.parametrize("kind", WHOLE)
def test_a_whole_reply_needs_no_garbage_collector(kind: str) -> None:
    """Else each request would leave a dozen objects behind, for a thousand children at once."""
    gc.disable()
    try:
        made, _ = receive(WHOLE[kind][0], [])
        assert made.is_whole
        held = weakref.ref(made)
        del made
        assert held() is None
    finally:
        gc.enable()


@pytest.mark.parametrize(("data", "expected"), WHOLE.values(), ids=WHOLE)
def test_a_reply_is_the_same_however_it_is_cut(data: bytes, expected: bytes) -> None:
    places = list(range(1, len(data)))
    chance = random.Random(7)
    some = [sorted(chance.sample(places, min(5, len(places)))) for _ in range(50)]
    for cuts in ([], places, *some):
        made, body = receive(data, cuts)
        assert (made.is_whole, made.keeps_alive, body) == (True, True, expected)
        assert made.status in (200, 204)
        assert made.reason in (b"OK", b"No Content", b"")
        assert {name.lower() for name, _ in made.headers} <= {
            b"content-length",
            b"transfer-encoding",
        }


LENGTH = b"content-length: 5\r\n"
ODD = {
    "two ends": b"HTTP/1.1 200 OK\r\n" + LENGTH + b"transfer-encoding: chunked\r\n\r\n"
    b"5\r\nhello\r\n0\r\n\r\n",
    "two ends, the other way round": CHUNKED[:-2] + LENGTH + b"\r\n5\r\nhello\r\n0\r\n\r\n",
    "the same length twice": b"HTTP/1.1 200 OK\r\n" + LENGTH + b"x: y\r\n" + LENGTH + b"\r\nhello",
    "a list of the same length": b"HTTP/1.1 200 OK\r\ncontent-length: 5, 5\r\nx: y\r\n\r\nhello",
    "two lengths": b"HTTP/1.1 200 OK\r\n" + LENGTH + b"content-length: 4\r\n\r\nhello",
    "a list of lengths": b"HTTP/1.1 200 OK\r\ncontent-length: 5, 4\r\n\r\nhello",
    "a length that is no number": b"HTTP/1.1 200 OK\r\ncontent-length: +5\r\n\r\nhello",
    "a folded header": b"HTTP/1.1 200 OK\r\nx: a\r\n  b\r\n" + LENGTH + b"\r\nhello",
    "a folded length": b"HTTP/1.1 200 OK\r\n" + LENGTH + LENGTH + b"  3\r\n\r\nhello",
    "a control character": b"HTTP/1.1 200 OK\r\nx: a\x01b\r\n" + LENGTH + b"\r\nhello",
    "a space within a name": b"HTTP/1.1 200 OK\r\nx y: a\r\n" + LENGTH + b"\r\nhello",
    "another version": b"HTTP/1.2 200 OK\r\n" + LENGTH + b"\r\nhello",
    "HTTP/2": b"HTTP/2 200 OK\r\n" + LENGTH + b"\r\nhello",
    "an early hint": b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\nHTTP/1.2 200 OK\r\n"
    + LENGTH
    + b"\r\nhello",
}


def read_by_h11(data: bytes) -> bytes | None:
    """The body as httpx and the vendors' SDKs read it; None if they refuse the reply."""
    connection = h11.Connection(h11.CLIENT)
    connection.send(h11.Request(method="GET", target="/", headers=[("host", "a")]))
    connection.send(h11.EndOfMessage())
    connection.receive_data(data)
    body = b""
    try:
        while not isinstance(event := connection.next_event(), h11.EndOfMessage):
            assert event is not h11.NEED_DATA
            body += event.data if isinstance(event, h11.Data) else b""
    except h11.RemoteProtocolError:
        return None
    return body


@pytest.mark.req("B-5")
@pytest.mark.parametrize("data", [*(d for d, _ in WHOLE.values()), *ODD.values()])
def test_what_httpx_reads_is_read_alike_however_it_is_cut(data: bytes) -> None:
    expected = read_by_h11(data)
    if expected is None:
        return
    for cuts in ([], [20], [len(data) - 7], list(range(1, len(data)))):
        made, body = receive(data, cuts)
        assert (made.status, made.is_whole, body) in ((200, True, expected), (204, True, b""))


@pytest.mark.req("B-5")
@pytest.mark.parametrize("data", ODD.values(), ids=ODD)
def test_an_odd_reply_is_the_last_on_its_connection(data: bytes) -> None:
    try:
        made, body = receive(data, [])
    except httpx.RemoteProtocolError:
        assert read_by_h11(data) is None
    else:
        assert (made.keeps_alive, body) == (False, b"hello")


def test_what_is_no_http_is_refused_before_it_ends() -> None:
    with pytest.raises(httpx.RemoteProtocolError, match="invalid HTTP"):
        Reply().receive(b"SSH-")


@pytest.mark.req("B-5")
@pytest.mark.parametrize(
    "start",
    [b"HTTP/1.1 200 OK\r\nx: ", CHUNKED + b"5\r\nhello\r\n0\r\nx: ", CHUNKED + b"5;x="],
    ids=["headers", "trailers", "a chunk's extension"],
)
@pytest.mark.parametrize("is_odd", [False, True])
def test_what_is_not_the_body_is_bounded(start: bytes, is_odd: bool) -> None:
    made = Reply()
    made.receive(start.replace(b"1.1", b"1.2") if is_odd else start)

    def go_on() -> None:
        for _ in range(2 * MAX_HEAD // 1000):
            made.receive(b"a" * 1000)

    with pytest.raises(httpx.RemoteProtocolError, match="too long"):
        go_on()


def test_a_body_in_tiny_chunks_may_be_of_any_length() -> None:
    made = Reply()
    made.receive(CHUNKED)
    for _ in range(MAX_HEAD // 3):
        made.receive(b"1\r\n")
        made.receive(b"x\r\n")
    made.receive(b"0\r\n\r\n")
    assert (made.is_whole, made.unread) == (True, MAX_HEAD // 3)


def test_a_body_without_a_length_ends_with_the_connection() -> None:
    made, body = receive(b"HTTP/1.1 200 OK\r\n\r\nhel", [3])
    assert (made.is_whole, body) == (False, b"hel")
    made.end()
    assert made.is_whole
    assert not made.keeps_alive


def test_names_and_values_of_headers_are_kept_as_they_came() -> None:
    head = b"HTTP/1.1 200 OK\r\nX-A: \xe9\r\nx-Y:\r\nSet-Cookie: a\r\nSet-Cookie: b\r\n\r\n"
    made, _ = receive(head, [20])
    assert made.headers == [
        (b"X-A", b"\xe9"), (b"x-Y", b""), (b"Set-Cookie", b"a"), (b"Set-Cookie", b"b"),
    ]  # fmt: skip
