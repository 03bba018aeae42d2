"""Compressed bodies, as providers and `fetch` read them: in members, cut, corrupt, and bombs."""

from __future__ import annotations

import asyncio
import gzip
import json
import zlib
from collections.abc import AsyncIterator

import pytest

from axe_nb.errors import ProviderError
from axe_nb.providers.decompression import MAX_PIECE, DecompressionError, decompress
from axe_nb.providers.openai import OpenAI
from tests.providers.dialects import KEY, ask
from tests.providers.raw_server import always, raw_server, reply

BODY = b'{"text": "hello"}' * 500


def in_two(data: bytes) -> bytes:
    return gzip.compress(data[:20]) + gzip.compress(data[20:])


PACKED = {
    "gzip": gzip.compress(BODY),
    "gzip in two members": in_two(BODY),
    "gzip, padded": gzip.compress(BODY) + b"\0" * 700,
    "gzip with rubbish after it": gzip.compress(BODY) + b"rubbish",
    "deflate": zlib.compress(BODY),
}


def unpack(data: bytes, size: int) -> list[bytes]:
    """The parts of a body that arrives in pieces of this size."""

    async def arrive() -> AsyncIterator[bytes]:
        for start in range(0, len(data), size):
            yield data[start : start + size]

    async def read() -> list[bytes]:
        return [part async for part in decompress(arrive())]

    return asyncio.run(read())


@pytest.mark.parametrize("data", PACKED.values(), ids=PACKED)
@pytest.mark.parametrize("size", [1, 10, 1_000_000])
def test_a_compressed_body_is_decompressed(data: bytes, size: int) -> None:
    assert b"".join(unpack(data, size)) == BODY


@pytest.mark.req("B-5")
@pytest.mark.parametrize("form", [zlib.MAX_WBITS | 16, zlib.MAX_WBITS])
def test_what_unpacks_to_300_megabytes_comes_in_bounded_parts(form: int) -> None:
    packer = zlib.compressobj(level=1, wbits=form)
    bomb = b"".join(packer.compress(bytes(1_000_000)) for _ in range(300)) + packer.flush()
    sizes = [len(part) for part in unpack(bomb, len(bomb))]
    assert max(sizes) <= MAX_PIECE
    assert sum(sizes) == 300_000_000


@pytest.mark.req("B-5")
def test_corrupt_data_is_an_error() -> None:
    data = bytearray(gzip.compress(BODY))
    data[len(data) // 2] ^= 255
    with pytest.raises(DecompressionError, match="corrupt"):
        unpack(bytes(data), 1_000_000)


@pytest.mark.parametrize("lost", [1, 8, 30])
@pytest.mark.parametrize("name", ["gzip", "gzip in two members", "deflate"])
def test_data_that_was_cut_is_an_error(name: str, lost: int) -> None:
    data = PACKED[name]
    with pytest.raises(DecompressionError, match="cut off"):
        unpack(data[:-lost], 1_000_000)


def find_error(data: bytes, coding: str, status: str = "200 OK") -> ProviderError:
    with raw_server(always(reply(data, f"Content-Encoding: {coding}", status=status))) as server:
        with pytest.raises(ProviderError) as caught:
            asyncio.run(OpenAI(server.url, KEY).send(ask()))
        return caught.value


@pytest.mark.req("B-5")
def test_an_error_keeps_its_status_whatever_its_body_is_compressed_by() -> None:
    said = json.dumps({"error": {"message": "no such key"}}).encode()
    assert find_error(gzip.compress(said), "gzip", "401 No").detail == "no such key"
    unread = find_error(b"abcdef", "br", "401 No")
    assert (unread.status, unread.detail) == (401, "401 Unauthorized")
    assert find_error(b"abcdef", "br").detail.endswith(
        "failed: the reply is compressed (br), which was not requested"
    )
