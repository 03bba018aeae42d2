"""The bytes of a reply: they take little memory and room, and come back as they arrived."""

from __future__ import annotations

import pickle
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import axe_nb
from axe_nb.scripting.wire import Protocol
from axe_nb.wire_log import PackedPieces, WireReply, pack
from tests.chains import count_text, run_chain
from tests.protocols import BRIEF


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("protocol", BRIEF)
def test_a_saved_run_takes_little_more_than_its_texts(
    protocol: Protocol, streams: bool, tmp_path: Path
) -> None:
    result = run_chain(protocol, streams=streams)
    result.save(tmp_path / "chain.axe")
    size = (tmp_path / "chain.axe").stat().st_size
    assert size / count_text(result) < (5 if streams else 3)
    assert axe_nb.load(tmp_path / "chain.axe").to_dict(full=True) == result.to_dict(full=True)


@given(st.lists(st.binary(max_size=300), max_size=30), st.integers(1, 40))
def test_packed_pieces_are_the_pieces(pieces: list[bytes], times: int) -> None:
    many = [piece * times for piece in pieces]
    packed = pack(many)
    assert packed == tuple(many)
    assert tuple(packed) == tuple(many)
    assert len(packed) == len(many)
    assert packed[1:] == tuple(many)[1:]
    reply = WireReply(pieces=packed)
    assert reply == WireReply(pieces=tuple(many))
    assert hash(packed) == hash(tuple(many))
    assert pickle.loads(pickle.dumps(reply)) == reply
    assert reply.body == b"".join(many)


@pytest.mark.parametrize("protocol", BRIEF)
def test_the_bytes_of_a_stream_take_no_more_memory_than_its_text(protocol: Protocol) -> None:
    result = run_chain(protocol, streams=True)
    replies = [one.reply for one in result.exchanges if one.reply]
    assert sum(len(reply.body) for reply in replies) > 4 * count_text(result), "it was streamed"
    copies = pickle.dumps([tuple(map(bytes, reply.pieces)) for reply in replies])
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        kept = [pack(read) for read in pickle.loads(copies)]
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert all(isinstance(one, PackedPieces) for one in kept[:-1])
    assert after - before < count_text(result)
    assert [tuple(one) for one in kept] == [tuple(reply.pieces) for reply in replies]
