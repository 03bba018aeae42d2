"""The text of a run is kept compressed: chunks that are damaged, bombs, and what bytes may hold."""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from pydoc_data.topics import topics

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import axe_nb
from axe_nb import Agent, ConfigError, Response, RunResult, Usage, call, script, script_server
from axe_nb.events import Event, RunStarted, TurnFinished
from axe_nb.exchanges import Exchange
from axe_nb.redaction import find_filter
from axe_nb.run_history import log, writer
from axe_nb.run_history.root_log import RootLog
from axe_nb.run_history.tree import Tree
from axe_nb.run_history.writer import Writer, find_writer
from axe_nb.scripting.wire import Protocol
from axe_nb.wire_log import WireReply, pack
from tests.chains import count_text
from tests.protocols import PROTOCOLS, provider_of
from tests.run_history.rows import inflate, read_rows

HEADER = "axe_nb history 3.0\n"
LATER = "axe_nb history 4.0\n"


def keep_run(path: Path) -> RunResult:
    """Keeps a run of a stream, a call and a whole reply, in a transaction for each."""

    @axe_nb.tool
    def look(what: str) -> str:
        find_writer(path).flush(5)
        return f"{what} was looked at"

    @script("talker")
    def talker(request: axe_nb.Request) -> Iterator[object]:
        if request.turn == 1:
            yield from (f"{number} words " for number in range(40))
            yield call("look", what="It")
        else:
            yield "That is all."
            find_writer(path).flush(5)

    agent = Agent(name="talker", model="openai/talker", tools=("look",))
    with script_server("openai"):
        result = axe_nb.run(agent, "Talk", stream=True)
    find_writer(path).close()
    return result


@pytest.mark.req("D-61")
def test_a_run_is_kept_in_chunks_of_one_stream(kept: Path) -> None:
    result = keep_run(kept)
    assert axe_nb.load(1).to_dict(full=True) == result.to_dict(full=True)
    header, *chunks = read_rows(kept, 1)
    assert header == HEADER
    assert len(chunks) > 2
    assert {type(chunk) for chunk in chunks} == {bytes}
    assert inflate([header, *chunks]).count('{"at":') == 5


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ("UPDATE parts SET content = substr(content, 1, 40) WHERE id = 3", "part of it is damaged"),
        ("UPDATE parts SET content = substr(content, 1, 3) WHERE id = 3", "checksum"),
        ("UPDATE parts SET content = x'' WHERE id = 3", "checksum"),
        ("UPDATE parts SET content = zeroblob(40) WHERE id = 3", "damaged"),
        ("UPDATE parts SET content = 'text' WHERE id = 3", "has no header"),
        ("UPDATE parts SET content = 7 WHERE id = 3", "has no header"),
        ("DELETE FROM parts WHERE id = 1", "has no header"),
        ("DELETE FROM parts WHERE id = 2", "damaged"),
        ("DELETE FROM parts WHERE id = 3", "damaged"),
        ("DELETE FROM parts WHERE id > 1", "is missing"),
        ("UPDATE parts SET id = -id WHERE id = 3", "has no header"),
        (f"UPDATE parts SET content = '{HEADER}' WHERE id = 3", "damaged"),
    ],
)
def test_a_damaged_run_is_an_error_that_names_it(change: str, why: str, kept: Path) -> None:
    keep_run(kept)
    with closing(sqlite3.connect(kept)) as connection:
        connection.executescript(change)
    with pytest.raises(ConfigError, match=f"run 1 of the history cannot be read: .*{why}"):
        axe_nb.load(1)


@pytest.mark.req("D-61")
def test_a_run_of_a_later_version_says_what_to_do(kept: Path) -> None:
    keep_run(kept)
    with closing(sqlite3.connect(kept)) as connection:
        connection.executescript(f"UPDATE parts SET content = '{LATER}' WHERE id = 1")
    with pytest.raises(ConfigError, match="part of it has version 4") as refused:
        axe_nb.load(1)
    assert refused.value.hint == "update axe-nb"


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_short_streams_take_less_than_twice_their_texts(protocol: Protocol, kept: Path) -> None:
    prose = " ".join(" ".join(topics.values()).split())

    @axe_nb.tool
    def look(what: str) -> str:
        find_writer(kept).flush(5)
        return prose[-220 * int(what) :][:20]

    @script("talker")
    def talker(request: axe_nb.Request) -> Iterator[object]:
        yield from re.findall(r"\s*\S+", prose[200 * request.turn :][:200])
        if request.turn < 12:
            yield call("look", what=str(request.turn))

    agent = Agent(name="talker", model=f"{provider_of(protocol)}/talker", tools=("look",))
    with script_server(protocol):
        result = axe_nb.run(agent, "Talk", stream=True)
    assert axe_nb.load(1).to_dict(full=True) == result.to_dict(full=True)
    size = sum(len(row) for row in read_rows(kept, 1)[1:])
    assert size < 2 * count_text(result)


def test_a_byte_that_is_wrong_changes_no_text(kept: Path) -> None:
    keep_run(kept)
    header, first, *_ = read_rows(kept, 1)
    assert isinstance(first, bytes)
    known, refused = tell([header, first]), 0
    for at in range(len(first)):
        wrong = first[:at] + bytes([first[at] ^ 1]) + first[at + 1 :]
        try:
            assert tell([header, wrong]) == known, "some bits mean nothing, or name an equal text"
        except ConfigError:
            refused += 1
    assert refused > 0.9 * len(first)


def tell(rows: list[str | bytes]) -> RunResult:
    tree = Tree()
    tree.read(rows)
    return tree.tell()


def pack_rows(text: bytes) -> list[str | bytes]:
    return list(log.Log().write(text))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"", "is missing"),
        (b"{}", "not valid JSON"),
        (b"{}\n", "damaged"),
        (b"[]\n", "not an object"),
        (b'{"at":\xff}\n', "damaged"),
        (b'{"at":0,"exchanges":7}\n', "damaged"),
        (b'{"at":0,"exchanges":[7]}\n', "damaged"),
        (b'{"at":0,"exchanges":[{"reply":{"beside":-30}}]}\n', "damaged"),
        (b'{"at":0,"exchanges":[{"reply":{"beside":30}}]}\n', "damaged"),
        (b'{"at":0,"exchanges":[{"reply":{"beside":"x"}}]}\n', "damaged"),
        (b'{"at":0,"exchanges":[{"reply":{"beside":null}}]}\n', "damaged"),
        (b'{"at":0,"exchanges":[{"reply":{"beside":2}}]}\n[]', "damaged"),
        (b'{"at":0,"exchanges":[{"reply":{"beside":3}}]}\n{}\n', "damaged"),
    ],
)
def test_a_text_that_is_none_of_a_run_is_damaged(text: bytes, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        tell(pack_rows(text))


def test_a_chunk_that_grows_without_end_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "MAX_SIZE", 1_000_000)
    packed = pack_rows(bytes(50_000_000))
    assert len(packed[1]) < 500_000
    began = time.process_time()
    with pytest.raises(ConfigError, match="it is larger than 1000000 bytes"):
        Tree().read(packed)
    assert time.process_time() - began < 0.05
    start = f'{{"at":0,"picture_bytes":{{}},"x":"{"y" * 400_000}"}}\n'
    rows = [row for _ in range(2) for row in pack_rows(start.encode())]
    with pytest.raises(ConfigError, match="is missing"):
        tell(rows)
    with pytest.raises(ConfigError, match="larger than"):
        tell([*rows, *rows])


START = RunStarted("0", "", "", "one", "openai/m", 0, "Go", "Go")


def turn(number: int, said: str, reply: WireReply) -> TurnFinished:
    exchange = Exchange(turn=number, sent=1, reply=reply, response=Response(said, (), "stop"))
    return TurnFinished(
        "0", number, said, (), "stop", Usage(1, 1), parallel=True, exchanges=(exchange,)
    )


@settings(max_examples=100, deadline=None, database=None)
@given(
    bodies=st.lists(st.binary(max_size=60) | st.text(max_size=60).map(str.encode), max_size=5),
    said=st.text(max_size=20), cut=st.integers(0, 30), streams=st.booleans(), rests=st.booleans(),
)  # fmt: skip
def test_replies_of_any_bytes_are_read_as_they_were(
    bodies: list[bytes], said: str, cut: int, streams: bool, rests: bool
) -> None:
    tree, rows, replies = Tree(), list[str | bytes](), []
    kind = "text/event-stream" if streams else "application/json"
    events: list[Event] = [START]
    for number, body in enumerate(bodies, start=1):
        pieces = (body[:cut], body[cut:]) if cut < len(body) else (body,)
        replies.append(WireReply(status=200, headers={"content-type": kind}, pieces=pieces))
        events.append(turn(number, said, replies[-1]))
    for number, event in enumerate(events):
        tree.add(event, 0.5, find_filter())
        if number % 2:
            rows += tree.take(find_filter())
        if rests:
            tree.log.rest()
    rows += tree.take(find_filter())
    assert [one.reply for one in tell(rows).exchanges] == replies


def test_a_character_that_is_cut_in_two_events_stays_so() -> None:
    halves = ["é".encode()[:1], "é".encode()[1:]] * 40
    pieces = [b'data: {"i":"j","t":"%b"}\n\n' % half for half in halves]
    headers = {"content-type": "text/event-stream"}
    reply = WireReply(status=200, headers=headers, pieces=pack(pieces))
    tree = Tree()
    for event in (START, turn(1, "é" * 40, reply)):
        tree.add(event, 0, find_filter())
    assert tell(tree.take(find_filter())).exchanges[0].reply == reply


def test_many_runs_at_once_keep_few_streams(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "MAX_STREAMS", 2)
    one = Writer(kept)
    roots = [RootLog(Tree(), 0.0) for _ in range(4)]
    for event in (START, turn(1, "One", WireReply()), turn(2, "Two", WireReply())):
        for root in roots:
            one.put((root, 0.0, event))
            one.flush(5)
        assert [root.tree.log._stream is None for root in roots] == [True, True, False, False]
    one.close()
    for number in range(1, 5):
        rows = read_rows(kept, number)
        assert rows.count(HEADER) == 3
        assert tell(rows).text == "Two"


def test_what_was_written_before_a_kill_is_read_up_to_each_chunk(kept: Path) -> None:
    result = keep_run(kept)
    header, *chunks = read_rows(kept, 1)
    turns = [tell([header, *chunks[: n + 1]]).turns for n in range(len(chunks))]
    assert turns == sorted(turns)
    assert turns[0] < turns[-1] == result.turns == 2
