"""The texts that a stream spells out are those of all its events, however they are parsed."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from axe_nb.spelled import FEW, MAX_PAIRS, fold, join_texts, unfold

OFTEN = settings(
    max_examples=300, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow]
)

USUAL = [f'{{"i":"j","t":"{n}"}}' for n in range(FEW)]

PIECE = st.text('ab "\\\n{}:,[]é🏛\u2028\0/\ue000', max_size=6)

SHAPES: tuple[Any, ...] = (
    {"id": "x1", "choices": [{"index": 0, "delta": {"content": "?"}, "end": None}], "usage": None},
    {"id": "x1", "choices": [{"index": 0, "delta": {"tool": [{"arguments": "?"}]}}]},
    {"type": "delta", "index": 1, "delta": {"type": "text", "text": "?"}},
    {"message": {"role": "assistant", "content": "?"}, "done": False},
    {"a": "?"},
    {"?": "a", "b": ["?", "c", "?"]},
    {"a": [{"b": "?"}, {"b": "x"}], "c": ["y"]},
    {"a": {"a": "?"}, "b": "\ue000"},
    {"a": "?", "b": "?"},
)
"""Events in which `?` is a piece; in some, texts are at the same place or in keys."""


def fill(shape: Any, piece: str) -> Any:
    if isinstance(shape, dict):
        return {key.replace("?", piece): fill(item, piece) for key, item in shape.items()}
    if isinstance(shape, list):
        return [fill(item, piece) for item in shape]
    return piece if shape == "?" else shape


@st.composite
def streams(draw: st.DrawFn) -> list[str]:
    lines = []
    for _ in range(draw(st.integers(1, 4))):
        shape, ascii_only = draw(st.sampled_from(SHAPES)), draw(st.booleans())
        pieces = draw(st.lists(PIECE, min_size=1, max_size=12))
        lines += [json.dumps(fill(shape, piece), ensure_ascii=ascii_only) for piece in pieces]
    if draw(st.booleans()):
        odd = ("{", '{"a": "b\\"}', "[1]", '{"a": "\x01"}', '{"a": "b", "a": "c"}', '"a"')
        lines.insert(draw(st.integers(0, len(lines))), draw(st.sampled_from(odd)))
    return lines


def walk(value: Any, at: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield at, value
    for item in value if isinstance(value, list) else ():
        yield from walk(item, at)
    for key, item in value.items() if isinstance(value, dict) else ():
        yield from walk(item, f"{at}/{json.dumps(key)}")


def join_one_by_one(lines: list[str]) -> set[str]:
    texts: dict[str, list[str]] = {}
    for line in lines:
        try:
            parsed = json.loads(line)
        except ValueError:
            continue
        for at, text in walk(parsed, "") if isinstance(parsed, dict) else ():
            texts.setdefault(at, []).extend([text] if text else [])
    return {"".join(pieces) for pieces in texts.values() if len(pieces) > 1}


@pytest.mark.req("D-60")
@OFTEN
@given(streams(), st.sampled_from(("data: ", "data:", "", "event: delta\ndata: ")))
@example(['{"a":"x"}'] * FEW, "data: ")  # nothing differs
@example(['{"a":"\\""}', '{"a":"\\"\\""}'] * FEW, "data: ")
@example([*USUAL, '{"i":"j","t":"x","t":"y"}'], "data: ")
@example([*USUAL, '{"i":"j","t":"x\\"}', '{"i":"j","t":"ny"}'], "data: ")
@example([*USUAL, '{"i":"j","t":"}'], "data: ")
def test_what_a_stream_spells_out_is_what_its_events_say_one_by_one(
    lines: list[str], before: str
) -> None:
    body = "".join(f"{before}{line}\n\n" for line in lines)
    assert set(join_texts(body)) == join_one_by_one(lines)
    assert unfold(fold(body), 10**9) == body


@pytest.mark.parametrize("pieces", [("ab", "c"), ('"', "\\"), ("\\\\", '\\"'), ("é", "\n"), ("a",)])
def test_texts_of_many_events_are_joined_in_their_order(pieces: tuple[str, ...]) -> None:
    said = [*pieces] * 20
    lines = [json.dumps({"n": "i", "d": [{"t": piece}]}) for piece in said]
    assert list(join_texts("\n".join(lines))) == ["i" * len(said), "".join(said)]


def test_a_hostile_stream_costs_no_more_than_its_length() -> None:
    kinds = [f'{{"k{n}":"{{}}"}}' for n in range(MAX_PAIRS * 3)]
    for kind in (kinds, kinds[:2], ['{"a":{}}'], ['{"a":"\\"{}"}']):
        lines = [kind[n % len(kind)].replace("{}", f"x{n}", 1) for n in range(20_000)]
        began = time.thread_time()
        list(join_texts("\n".join(lines)))
        assert time.thread_time() - began < 2  # some 0.1 s


@pytest.mark.parametrize("between", ["", '{"type":"ping"}', '{"t":"x","and":"another field"}'])
def test_a_stream_is_folded_to_its_runs(between: str) -> None:
    said = [json.dumps({"id": "i", "t": f"wörd {n}\n"}) for n in range(400)]
    first = '{"start":{"id":"i","t":""}}'
    lines = [first, *said[:200], *([between] if between else []), *said[200:], '{"t":1}', "[DONE]"]
    body = "".join(f"data: {line}\n\n" for line in lines)
    folded = fold(body)
    assert len(folded.runs) == (2 if between else 1)
    assert sum(len(run.sizes) for run in folded.runs) == 400
    assert len(folded.body) < 400
    assert unfold(folded, 10**9) == body
