"""No record of a cassette holds a secret, however a server cuts and escapes it."""

from __future__ import annotations

import json
import string
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from axe_nb.messages import Delta, Response, WireReply
from axe_nb.messages.exchanges import Exchange
from axe_nb.recording.cassette import decode, encode
from axe_nb.secrets import find_filter, redact

OFTEN = settings(
    max_examples=80, deadline=None, database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)  # fmt: skip

SECRETS = (
    st.text(string.ascii_letters + string.digits + "+/=\"\\%&' é\n🏛", min_size=8, max_size=40)
    .map(str.strip)
    .filter(lambda text: len(text) > 7 and len(set(text)) > 3 and text[0] not in "/ ")
    .filter(lambda text: not text.isalpha())  # as the keys of a record are, such as `protocol`
)


def keep(reply: WireReply, said: str = "An answer.") -> dict[str, Any]:
    exchange = Exchange(turn=1, protocol="openai", reply=reply, response=Response(said, (), "stop"))
    return encode(exchange, find_filter())


def stream(*events: object, ascii_only: bool = True) -> WireReply:
    lines = [f"data: {json.dumps(one, ensure_ascii=ascii_only)}\n\n".encode() for one in events]
    headers = {"content-type": "text/event-stream"}
    return WireReply(status=200, headers=headers, pieces=tuple(lines))


def whole(data: object, *, ascii_only: bool = True) -> WireReply:
    body = json.dumps(data, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    return WireReply(status=200, headers={"content-type": "application/json"}, pieces=(body,))


def delta(content: str) -> dict[str, Any]:
    return {"id": "c1", "choices": [{"index": 0, "delta": {"content": content}}]}


def all_texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    for item in value if isinstance(value, list) else ():
        yield from all_texts(item)
    for key, item in value.items() if isinstance(value, dict) else ():
        yield key
        yield from all_texts(item)


def find_kept(kept: dict[str, Any], secret: str) -> list[str]:
    """Texts that were kept and have the secret, the pieces of a stream joined too."""
    texts = [*all_texts(kept)]
    reply = decode(kept, 1, 1).reply
    if reply:
        lines = (line for line in reply.text.split("\n") if line.startswith("data"))
        events = [json.loads(line[5:]) for line in lines]
        texts.append("".join(one["choices"][0]["delta"]["content"] for one in events))
    return [text for text in texts if secret in text]


@pytest.mark.req("D-60")
@OFTEN
@given(
    secret=SECRETS, others=st.text("ab \"\\né", max_size=30), data=st.data(),
    ascii_only=st.booleans(),
)  # fmt: skip
def test_a_secret_in_pieces_of_a_stream_is_in_no_record(
    secret: str, others: str, data: st.DataObject, ascii_only: bool
) -> None:
    said = f"{others} {secret} {others}"
    cuts = data.draw(st.sets(st.integers(0, len(said)), max_size=9))
    pieces = [said[a:b] for a, b in pairwise(sorted({0, len(said), *cuts}))]
    reply = stream(*map(delta, pieces), ascii_only=ascii_only)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("THE_KEY", secret)
        if secret not in find_filter().forms:
            return  # too ordinary
        kept = keep(reply, said)
        assert find_kept(kept, secret) == []
        exchange = decode(kept, 1, 1)
        assert exchange.reply or exchange.response == Response(redact(said), (), "stop")
    assert decode(keep(reply, said), 1, 1).reply == reply, "nothing is secret any more"


@pytest.mark.req("D-60")
@OFTEN
@given(secret=SECRETS, ascii_only=st.booleans())
def test_a_secret_in_a_whole_reply_is_in_no_record(secret: str, ascii_only: bool) -> None:
    text = f"{'A long answer. ' * 5}{secret}{' More of it.' * 12}"
    reply = whole({"choices": [{"message": {"content": text}}]}, ascii_only=ascii_only)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("THE_KEY", secret)
        if secret not in find_filter().forms:
            return
        kept = keep(reply, text)
        assert find_kept(kept, secret) == []
        assert kept["reply"]["json"]["choices"][0]["message"]["content"] == redact(text)


QUOTED = '"0000012'
"""A secret with the quotation mark of a file of variables, which is one of JSON's, too."""

NOTES = [f"{number:02}kQ" for number in range(20)]


@pytest.mark.req("D-60")
@pytest.mark.parametrize(
    ("secret", "reply"),
    [
        (QUOTED, stream(delta("0000012 and more"))),
        ("".join(NOTES), stream(*({"id": "c1", "note": note} for note in NOTES))),
    ],
    ids=["its JSON would be broken", "it spells one out beside its answer"],
)
def test_a_stream_that_a_secret_cannot_be_taken_out_of_is_not_kept(
    secret: str, reply: WireReply, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert decode(keep(reply), 1, 1).reply == reply
    monkeypatch.setenv("THE_KEY", secret)
    kept = decode(keep(reply, f"It is {secret}."), 1, 1)
    assert kept.reply is None
    assert kept.response == Response("It is ***.", (), "stop")


@pytest.mark.req("D-60")
def test_a_secret_that_a_script_spells_out_is_in_no_record(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("THE_KEY", "abcdefgh12345678")
    deltas = tuple(map(Delta, ("It is abcd", "efgh1234", "5678.")))
    exchange = Exchange(turn=1, deltas=deltas, response=Response("It is abcdefgh12345678."))
    kept = decode(encode(exchange, find_filter()), 1, 1)
    assert (kept.deltas, kept.response) == ((), Response("It is ***."))
