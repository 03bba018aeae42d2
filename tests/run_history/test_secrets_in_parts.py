"""No part of a run holds a secret, however a server cuts and escapes it."""

from __future__ import annotations

import json
import string
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from axe_nb.events import Event, RunStarted, ToolFinished, TurnFinished
from axe_nb.exchanges import Exchange
from axe_nb.messages import Response, ToolResult, Usage
from axe_nb.redaction import SECRET_HEADERS, find_filter, redact
from axe_nb.run_history.log import read_parts
from axe_nb.run_history.text import spare_words
from axe_nb.run_history.tree import Tree
from axe_nb.wire_log import WireReply, pack
from tests.run_history.rows import inflate

OFTEN = settings(
    max_examples=80, deadline=None, database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)  # fmt: skip

SECRETS = st.text(
    string.ascii_letters + string.digits + "+/=\"\\%&' é\n🏛", min_size=8, max_size=40
).filter(lambda text: len(text.strip()) > 7 and len(set(text.strip())) > 3 and text[0] not in "/ ")

START = RunStarted("0", "", "", "one", "openai/m", 0, "Go", "Go")


def write(said: str, reply: WireReply) -> list[str | bytes]:
    """The rows of a run with one reply."""
    exchange = Exchange(
        turn=1, protocol="openai", sent=1, reply=reply, response=Response(said, (), "stop")
    )
    turn = TurnFinished("0", 1, said, (), "stop", Usage(1, 1), parallel=True, exchanges=(exchange,))
    return write_events(START, turn, ToolFinished("0", ToolResult("c1", said, name="look"), 0.1))


def write_events(*events: Event) -> list[str | bytes]:
    tree, clean = Tree(), find_filter()
    for event in events:
        tree.add(event, 0.1, clean)
    return tree.take(clean)


def read(rows: list[str | bytes]) -> Exchange:
    tree = Tree()
    tree.read(rows)
    return tree.tell().exchanges[0]


def all_texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    for item in value if isinstance(value, list) else ():
        yield from all_texts(item)
    for key, item in value.items() if isinstance(value, dict) else ():
        yield key
        yield from all_texts(item)


def list_texts(rows: list[str | bytes]) -> list[str]:
    """What was kept as it was before it was compressed, and the texts in its data."""
    return [inflate(rows), *(text for part in read_parts(rows) for text in all_texts(part.data))]


def find_kept(rows: list[str | bytes], secret: str) -> list[str]:
    """Texts that were kept and have the secret, the pieces of the reply joined too."""
    exchange = read(rows)
    texts = list_texts(rows)
    if exchange.reply:
        body = exchange.reply.text
        events = [json.loads(line[5:]) for line in body.split("\n") if line.startswith("data:")]
        spelled = "".join(one["choices"][0]["delta"]["content"] for one in events)
        texts += [body, spelled]
    forms = [form for form in find_filter().forms if form in redact_nothing(secret)]
    return [text for text in texts if any(form in text for form in (secret, *forms))]


def redact_nothing(secret: str) -> str:
    """The secret as it is, and as JSON of both kinds."""
    return "\0".join((secret, json.dumps(secret), json.dumps(secret, ensure_ascii=False)))


@pytest.mark.req("D-60")
@OFTEN
@given(
    secret=SECRETS, others=st.text("ab \"\\né", max_size=30), data=st.data(),
    ascii_only=st.booleans(), many=st.booleans(),
)  # fmt: skip
def test_a_secret_in_pieces_is_in_no_part(
    secret: str, others: str, data: st.DataObject, ascii_only: bool, many: bool
) -> None:
    secret = secret.strip()
    said = f"{others}{'It is a word. ' * 20 * many} {secret} {others}"
    cuts = data.draw(st.sets(st.integers(0, len(said)), max_size=40 if many else 5))
    pieces = [said[a:b] for a, b in pairwise(sorted({0, len(said), *cuts}))]
    lines = []
    for piece in pieces:
        event = {"id": "c1", "choices": [{"index": 0, "delta": {"content": piece}}]}
        lines.append(f"data: {json.dumps(event, ensure_ascii=ascii_only)}\n\n".encode())
    reply = WireReply(status=200, headers={"content-type": "text/event-stream"}, pieces=pack(lines))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("THE_KEY", secret)
        assume(secret in spare_words(find_filter()).forms)
        rows = write(said, reply)
        assert find_kept(rows, secret) == []
        assert read(rows).response == Response(redact(said), (), "stop")


@pytest.mark.req("D-60")
@pytest.mark.parametrize("is_stream", [True, False])
def test_a_reply_that_a_secret_cannot_be_taken_out_of_is_not_kept(
    monkeypatch: pytest.MonkeyPatch, is_stream: bool
) -> None:
    secret = '"0000012'  # with the quotation mark of a file of variables: one of JSON's, too
    monkeypatch.setenv("THE_KEY", secret)
    name = "delta" if is_stream else "message"
    event = json.dumps({"id": "c1", "choices": [{name: {"content": "0000012 and more"}}]})
    kind, body = ("event-stream", f"data: {event}\n\n") if is_stream else ("json", event)
    reply = WireReply(status=200, headers={"content-type": f"text/{kind}"}, pieces=(body.encode(),))
    rows = write(f"It is {secret}.", reply)
    assert find_kept(rows, secret) == []
    kept = read(rows)
    assert kept.reply is None
    assert kept.response == Response("It is ***.", (), "stop")


@pytest.mark.req("D-60")
@OFTEN
@given(secret=SECRETS, ascii_only=st.booleans(), start=st.integers(0, 300))
def test_a_secret_beside_what_a_whole_reply_says_is_in_no_part(
    secret: str, ascii_only: bool, start: int
) -> None:
    secret = secret.strip()
    whole = f"{'A long answer that is told. ' * 5}{secret}{' More of it.' * 12}"
    said = whole[start : start + 80]  # the rest of the field is beside it, maybe half a secret
    body = json.dumps({"choices": [{"message": {"content": whole}}]}, ensure_ascii=ascii_only)
    reply = WireReply(
        status=200, headers={"content-type": "application/json"}, pieces=(body.encode(),)
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("THE_KEY", secret)
        assume(secret in spare_words(find_filter()).forms)
        rows = write(said, reply)
        kept = read(rows).reply
        assert kept
        assert json.dumps(secret, ensure_ascii=ascii_only)[1:-1] not in kept.text
        assert all(secret not in text for text in list_texts(rows)[1:])


@pytest.mark.req("D-60")
@pytest.mark.parametrize("is_stream", [True, False])
@pytest.mark.parametrize("before", ["keys:\n", "key\t", "é\n", ""])
def test_a_well_known_key_on_a_line_of_its_own_is_in_no_part(before: str, is_stream: bool) -> None:
    said = f"{before}sk-proj-abcdefgh12345678abcd\n{'and more text ' * 5}"
    event = json.dumps({"choices": [{"index": 0, "delta": {"content": said}}]})
    kind = "text/event-stream" if is_stream else "application/json"
    pieces = [f"data: {event}\n\n".encode() if is_stream else event.encode()]
    rows = write(said, WireReply(status=200, headers={"content-type": kind}, pieces=pieces))
    assert "abcdefgh" not in inflate(rows)
    assert all(b"abcdefgh" not in piece for piece in (read(rows).reply or WireReply()).pieces)


def unpack(rows: list[str | bytes]) -> str:
    """All that the rows hold, also what is not as it was before."""
    reply = read(rows).reply
    return "\n".join([inflate(rows), reply.text if reply else "", str(reply and reply.headers)])


@pytest.mark.req("D-60")
@pytest.mark.parametrize("others", [0, 200], ids=["few events", "folded"])
def test_a_secret_that_a_stream_spells_out_beside_its_answer_is_in_no_part(
    others: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "".join(f"{n:02}kQ" for n in range(max(6, others)))
    monkeypatch.setenv("THE_KEY", secret)
    notes = [secret[at : at + 4] for at in range(0, len(secret), 4)]
    lines = [f"data: {json.dumps({'id': 'c1', 'note': note})}\n\n".encode() for note in notes]
    headers = {"content-type": "text/event-stream"}
    reply = WireReply(status=200, headers=headers, pieces=pack(lines))
    kept = read(write("An answer.", reply)).reply
    assert kept is None or b"kQ" not in kept.body
    monkeypatch.delenv("THE_KEY")
    assert read(write("An answer.", reply)).reply == reply


@pytest.mark.req("D-60")
def test_a_secret_in_a_header_of_a_reply_is_in_no_part(monkeypatch: pytest.MonkeyPatch) -> None:
    headers = {"content-type": "application/json", "location": "https://h/?k=hunter2hunter2xyz"}
    reply = WireReply(status=200, headers=headers, pieces=(b"{}",))
    assert "hunter2" in unpack(write("An answer.", reply)), "nothing is secret yet"
    monkeypatch.setenv("THE_KEY", "hunter2hunter2xyz")
    assert "hunter2" not in unpack(write("An answer.", reply))


KELVIN = "\u212a"


@pytest.mark.req("D-60")
@pytest.mark.parametrize("around", ["", "é", "\ud83d🏛"])
@pytest.mark.parametrize("name", sorted(SECRET_HEADERS))
def test_values_of_headers_are_in_no_part(name: str, around: str) -> None:
    for key in (name, name.title(), name.upper().replace("-", "_"), name.replace("k", KELVIN)):
        body = json.dumps({"echo": {key: ["short"], "x": around}}, ensure_ascii=False)
        for kind in ("application/json", "text/event-stream"):
            data = body.encode("utf-8", "surrogatepass")
            pieces = (b"data: ", data) if kind.startswith("text") else (data,)
            reply = WireReply(status=200, headers={"content-type": kind}, pieces=pack(pieces))
            exchange = Exchange(turn=1, reply=reply, params={key: "short", "x": around})
            turn = TurnFinished("0", 1, "", (), "", Usage(), parallel=True, exchanges=(exchange,))
            _, part = read_parts(write_events(START, turn))
            assert part.data["exchanges"][0]["params"] == {key: "***", "x": around}
