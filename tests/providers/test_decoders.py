"""Streams of bytes become events, however they are cut; the cases of the SSE standard."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable

import pytest

from axe_nb.errors import ProviderError
from axe_nb.providers.decoders import MAX_EVENT, Decoder, Event, NDJSONDecoder, SSEDecoder

SSE: dict[str, tuple[bytes, list[Event]]] = {
    "line feeds": (b"data: a\n\ndata: b\n\n", [("", "a"), ("", "b")]),
    "carriage returns and line feeds": (b"data: a\r\n\r\ndata: b\r\n\r\n", [("", "a"), ("", "b")]),
    "carriage returns": (b"data: a\r\rdata: b\r\r", [("", "a"), ("", "b")]),
    "a mixture": (b"data: a\r\n\ndata: b\n\r\ndata: c\r\r\n", [("", "a"), ("", "b"), ("", "c")]),
    "a byte order mark": (b"\xef\xbb\xbfdata: a\n\ndata: b\n\n", [("", "a"), ("", "b")]),
    "a byte order mark before a blank line": (b"\xef\xbb\xbf\ndata: a\n\n", [("", "a")]),
    "a second byte order mark": (b"\xef\xbb\xbf\xef\xbb\xbfdata: a\n\n", []),
    "comments": (b": ping\n\n:\n\n:data: no\ndata: a\n\n", [("", "a")]),
    "several lines of data": (b"data: a\ndata:\ndata:  b\n\n", [("", "a\n\n b")]),
    "data without a blank": (b"data:a\n\n", [("", "a")]),
    "data without a colon": (b"data\n\ndata\ndata\n\n", [("", ""), ("", "\n")]),
    "colons in data": (b"data: a: b:c\n\n", [("", "a: b:c")]),
    "a name": (b"event: delta\ndata: a\n\ndata: b\n\n", [("delta", "a"), ("", "b")]),
    "a name after its data": (b"data: a\nevent: delta\n\n", [("delta", "a")]),
    "a name without data": (b"event: ping\n\ndata: a\n\n", [("", "a")]),
    "a failure in a field of its own": (
        b'data: a\n\nerror: {"code": 500}\n\ndata: b\n\n',
        [("", "a"), ("error", '{"code": 500}'), ("", "b")],
    ),
    "other fields": (b"id: 1\nretry: 10\nwhat: ever\nDATA: no\ndata: a\n\n", [("", "a")]),
    "blank lines": (b"\n\n\ndata: a\n\n\n\n", [("", "a")]),
    "an object that is no field": (
        b': ping\n\n{"a":\n{"b": 1},\n"data": 2\n}\n\ndata: c\n{"d"\n\n',
        [("", '{"a":\n{"b": 1},\n"data": 2\n}'), ("", "c")],
    ),
    "an object in place of a stream": (b'\n{"a":\n{"b": 1},\n{}}\n\n{}\n\n', []),
    "line separators in data": (
        "data: a\u2028b\u2029c\u0085d\x0be\x0cf\x1cg\n\n".encode(),
        [("", "a\u2028b\u2029c\u0085d\x0be\x0cf\x1cg")],
    ),
    "characters of several bytes": ("data: grüße 😀 北京\n\n".encode(), [("", "grüße 😀 北京")]),
    "invalid UTF-8": (b"data: a\xff\xf0\x9fb\n\n", [("", "a\ufffd\ufffdb")]),
    "no last blank line": (b"data: a\n\ndata: b\n", [("", "a")]),
    "no last line end": (b"data: a\n\ndata: b", [("", "a")]),
    "nothing": (b"", []),
}

NDJSON: dict[str, tuple[bytes, list[Event]]] = {
    "lines": (b'{"a": 1}\n{"b": 2}\n', [("", '{"a": 1}'), ("", '{"b": 2}')]),
    "carriage returns": (b"1\r\n2\r\n", [("", "1\r"), ("", "2\r")]),
    "blank lines": (b"\n \n1\n\r\n\n2\n", [("", "1"), ("", "2")]),
    "a byte order mark": (b"\xef\xbb\xbf1\n2\n", [("", "1"), ("", "2")]),
    "line separators": ('"\u2028\u0085\x1c"\n'.encode(), [("", '"\u2028\u0085\x1c"')]),
    "characters of several bytes": ('"😀"\n'.encode(), [("", '"😀"')]),
    "no last line end": (b"1\n2", [("", "1")]),
}

CASES = [
    *((SSEDecoder, f"sse: {name}", *case) for name, case in SSE.items()),
    *((NDJSONDecoder, f"ndjson: {name}", *case) for name, case in NDJSON.items()),
]


def decode(decoder: Decoder, pieces: Iterable[bytes]) -> list[Event]:
    return [event for piece in pieces for event in decoder.feed(piece)]


@pytest.mark.parametrize(
    ("kind", "stream", "events"),
    [(kind, stream, events) for kind, _, stream, events in CASES],
    ids=[name for _, name, _, _ in CASES],
)
def test_a_stream_is_decoded_whole_byte_by_byte_and_in_random_pieces(
    kind: Callable[[], Decoder], stream: bytes, events: list[Event]
) -> None:
    assert decode(kind(), [stream]) == events
    assert decode(kind(), [stream[i : i + 1] for i in range(len(stream))]) == events
    for cut in range(len(stream)):
        assert decode(kind(), [stream[:cut], stream[cut:]]) == events
    for seed in range(20):
        assert decode(kind(), cut_at_random(stream, seed)) == events


def cut_at_random(stream: bytes, seed: int) -> list[bytes]:
    dice = random.Random(seed)
    cuts = sorted(dice.randint(0, len(stream)) for _ in range(5))
    return [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]


@pytest.mark.parametrize(
    ("kind", "stream", "rest"),
    [
        (SSEDecoder, b"data: a\n\nevent: e\ndata: b\n", ("e", "b")),
        (SSEDecoder, b"data: a\n\ndata: b", ("", "b")),
        (SSEDecoder, b"data: a\n\n: comment", None),
        (SSEDecoder, b"data: a\n\n", None),
        (NDJSONDecoder, b'1\n{"a', ("", '{"a')),
        (NDJSONDecoder, b"1\n", None),
    ],
)
def test_an_unfinished_last_event_can_be_had(
    kind: Callable[[], Decoder], stream: bytes, rest: Event | None
) -> None:
    decoder = kind()
    decode(decoder, [stream])
    assert decoder.rest() == rest


@pytest.mark.parametrize("stream", [b"data: ", b""])
@pytest.mark.parametrize("kind", [SSEDecoder, NDJSONDecoder])
def test_an_event_that_never_ends_is_an_error(kind: Callable[[], Decoder], stream: bytes) -> None:
    decoder = kind()
    piece = b"x" * (MAX_EVENT // 8)
    decode(decoder, [stream])
    with pytest.raises(ProviderError, match="an event of the reply exceeds 32 MiB"):
        decode(decoder, [piece] * 9)


def test_an_event_of_endless_lines_is_an_error() -> None:
    line = b"data: " + b"x" * (MAX_EVENT // 8) + b"\n"
    with pytest.raises(ProviderError, match="an event of the reply exceeds 32 MiB"):
        decode(SSEDecoder(), [line] * 8)
