"""Replies as bytes: however they are cut, and however they are compressed."""

from __future__ import annotations

import gzip
import random
import zlib

import httpx
import pytest

from axe_nb.providers.http1 import MAX_PIECE, Decompressor, Reply

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


BODY = b'{"text": "hello"}' * 500


def raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


PACKED = {
    "gzip": (b"gzip", gzip.compress(BODY)),
    "x-gzip": (b"X-GZIP", gzip.compress(BODY)),
    "deflate": (b"deflate", zlib.compress(BODY)),
    "deflate without a head": (b"deflate", raw_deflate(BODY)),
    "gzip with rubbish after it": (b"gzip", gzip.compress(BODY) + b"rubbish"),
}


def unpack(coding: bytes, data: bytes, size: int) -> list[bytes]:
    """The parts of a body that arrives in pieces of this size."""
    made = Reply()
    made.headers = [(b"Content-Encoding", coding), (b"Content-Length", b"1")]
    decompressor = Decompressor.of(made)
    assert decompressor is not None
    assert made.headers == [], "httpx is not to do it again"
    parts = []
    for start in range(0, len(data), size):
        part = decompressor.take(data[start : start + size])
        while part:
            parts.append(part)
            part = decompressor.take()
    return parts


@pytest.mark.parametrize(("coding", "data"), PACKED.values(), ids=PACKED)
@pytest.mark.parametrize("size", [1, 10, 1_000_000])
def test_a_compressed_body_is_decompressed(coding: bytes, data: bytes, size: int) -> None:
    assert b"".join(unpack(coding, data, size)) == BODY


@pytest.mark.req("B-5")
@pytest.mark.parametrize("form", [zlib.MAX_WBITS | 16, zlib.MAX_WBITS, -zlib.MAX_WBITS])
def test_what_unpacks_to_300_megabytes_comes_in_bounded_parts(form: int) -> None:
    packer = zlib.compressobj(level=1, wbits=form)
    bomb = b"".join(packer.compress(bytes(1_000_000)) for _ in range(300)) + packer.flush()
    sizes = [len(part) for part in unpack(b"deflate", bomb, len(bomb))]
    assert max(sizes) <= MAX_PIECE
    assert sum(sizes) == 300_000_000


@pytest.mark.req("B-5")
@pytest.mark.parametrize("coding", [b"br", b"zstd", b"gzip, gzip", b"x" * 9])
def test_a_compression_that_was_not_asked_for_is_refused(coding: bytes) -> None:
    made = Reply()
    made.headers = [(b"content-encoding", coding)]
    with pytest.raises(httpx.DecodingError, match="which was not asked for"):
        Decompressor.of(made)


@pytest.mark.req("B-5")
def test_corrupt_compressed_data_is_an_error() -> None:
    data = bytearray(gzip.compress(BODY))
    data[len(data) // 2] ^= 255
    with pytest.raises(httpx.DecodingError, match="corrupt"):
        unpack(b"gzip", bytes(data), 1_000_000)
