"""`python -m tests.providers.fuzz [COUNT]`: mutated replies of every protocol, whole and streamed.

Each gives an answer or a provider error, in bounded time. The seeds are fixed: a number names a
reply. Without sockets, so that 10,000 replies of each kind take a minute or two.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, get_args

from axe_nb.errors import Category
from axe_nb.messages import CallIds, Message, ToolResult
from tests.providers import openai_2026
from tests.providers.dialects import MODULES, ask, make_reasoning, make_response
from tests.providers.streams import FORMS, Answer, Outcome, chunk, cut, read_stream, read_whole, sse
from tests.wire.replay import FIXTURES, bytes_of

FULL = 10_000

SECONDS = 5.0
"""CPU time within which a reply of some kilobytes is surely read."""

ANSWERS = (
    Answer(text=["Hello ", "é😀", "\u2028"], stop="end_turn"),
    Answer(
        text=["On ", "it."],
        reasoning=["let ", "me \ud83d", "\ude00 think"],
        calls=[("c1", "look", ['{"a": [1, ', '{"b": "c"}]}']), ("c2", "stop", [])],
        stop="tool_calls",
    ),
    Answer(calls=[("", "f", ['{"x": 1}'])] * 3, stop="length"),
)

PARTS: Sequence[Mapping[str, Any]] = (
    {"reasoning_details": [{"type": "reasoning.text", "index": 0, "text": "let me "}]},
    {"reasoning_details": [{"type": "reasoning.text", "index": 0, "text": "think"}]},
    {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "so"}]}]},
    {"content": [{"type": "text", "text": "Hello "}, {"type": "image", "id": "x"}]},
    {"content": [{"type": "text", "text": "you"}]},
)
"""Deltas of OpenAI's protocol with texts in parts."""

SEARCH = make_response(
    [
        make_reasoning("First.", "Then."),
        openai_2026.make_search([{"type": "url", "url": openai_2026.SOURCE}]),
        openai_2026.make_cited("The tallest is the Burj."),
    ],
    "stop",
)
"""A reply of the Responses API with a search and what it cites."""

VALUES: Sequence[Any] = (
    None, True, False, 0, -1, 1.5, 2**70, "", " ", "x", "\ud83d", "[DONE]", "error", "text",
    "tool_use", "stop", [], {}, [[]], [None], [1], ["x"], [{}], {"": {}}, {"error": "x"},
    {"type": "text", "text": "x"}, {"type": "error"}, [{"index": 0}], {"index": "x"},
    {"function": None}, {"text": ["x"]}, json.loads("[" * 90 + "]" * 90), "x" * 2000,
)  # fmt: skip

PIECES: Sequence[bytes] = (
    b"", b"\n", b"\n\n", b"\r", b"\r\n\r\n", b"\xef\xbb\xbf", b"\xff", b"\x00", b"\xf0\x9f",
    b": ping\n\n", b"data: [DONE]\n\n", b"data:\n\n", b"data: {}\n\n", b"data: null\n\n", b"{}\n",
    b"event: error\n", b"event: message_stop\ndata: {}\n\n", b'data: {"error": {"code": 429}}\n\n',
    b'{"error": "x"}\n', b'{"done": true}\n', b"data: {", b"null", b"NaN", b"1e999", b"[" * 300,
    b'{"a":' * 1500, b'"\\ud83d"', b"9" * 5000, b"<html>", b"\xe2\x80\xa8", b"}", b"]", b'"',
    b'data: {"type":"content_block_start","index":0,"content_block":{"type":"tool_use"}}\n\n',
    b'data: {"type":"response.output_item.done","item":{"type":"function_call"}}\n\n',
    b'data: {"type":"response.completed","response":{"output":[]}}\n\n',
    b'data: {"type":"response.output_text.delta","delta":"x"}\n\n',
    b'data: {"choices":[{"delta":{"tool_calls":[{"function":{"arguments":"{"}}]}}]}\n\n',
)  # fmt: skip


@cache
def find_replies(protocol: str, kind: str) -> list[bytes]:
    is_stream = kind == "stream"
    stream, whole = FORMS[protocol]
    made = [stream(one) if is_stream else json.dumps(whole(one)).encode() for one in ANSWERS]
    if protocol == "openai" and is_stream:
        made.append(sse(*(chunk(delta) for delta in PARTS), chunk(finish_reason="stop"), "[DONE]"))
    if protocol == "responses":
        events = sse(*openai_2026.stream(SEARCH), named=True)
        made.append(events if is_stream else json.dumps(SEARCH).encode())
    wanted = (protocol, "stream" if is_stream else "json")
    fixtures = (one for one in FIXTURES.values() if (one["protocol"], one["mode"]) == wanted)
    return [*made, *map(bytes_of, fixtures)]


def mutate(reply: bytes, kind: str, dice: random.Random) -> bytes:
    ways: dict[str, Sequence[Callable[[bytes, random.Random], bytes]]] = {
        "body": (mutate_json, mutate_json, mutate_bytes),
        "stream": (mutate_bytes, mutate_events, mutate_event, mutate_event),
    }
    for _ in range(dice.randint(1, 3)):
        reply = dice.choice(ways[kind])(reply, dice)
    if kind == "stream" and dice.random() < 0.2:
        reply = reply.replace(b"\n", dice.choice([b"\r\n", b"\r", b"\n\n"]))
    return reply


def mutate_bytes(raw: bytes, dice: random.Random) -> bytes:
    at = dice.randint(0, len(raw))
    to = min(len(raw), at + dice.randint(0, 20))
    others = (b"", raw[to:], raw[at:to] + raw[at:])
    noise = (dice.randbytes(dice.randint(1, 4)) + raw[to:], dice.choice(PIECES) + raw[at:])
    return raw[:at] + dice.choice((*others, *noise))


def mutate_events(stream: bytes, dice: random.Random) -> bytes:
    end = b"\n\n" if b"data:" in stream else b"\n"
    events = stream.split(end)
    at, other = dice.randrange(len(events)), dice.randrange(len(events))
    match dice.randrange(4):
        case 0:
            del events[at]
        case 1:
            events.insert(at, events[other])
        case 2:
            events[at], events[other] = events[other], events[at]
        case _:
            events.insert(at, dice.choice(PIECES))
    return end.join(events)


def mutate_event(stream: bytes, dice: random.Random) -> bytes:
    lines = stream.split(b"\n")
    at = dice.randrange(len(lines))
    head, brace, data = lines[at].partition(b"{")
    if brace:
        lines[at] = head + mutate_json(brace + data, dice)
    return b"\n".join(lines)


def mutate_json(raw: bytes, dice: random.Random) -> bytes:
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError):
        return mutate_bytes(raw, dice)
    if not (found := list(places(body))):
        return raw
    *parents, key = dice.choice(found)
    parent = body
    for step in parents:
        parent = parent[step]
    match dice.randrange(4):
        case 0:
            del parent[key]
        case 1 if isinstance(parent, dict):
            parent[dice.choice(["index", "error", "type", "text", "id", "done"])] = parent.pop(key)
        case _:
            parent[key] = dice.choice(VALUES)
    text = json.dumps(body, ensure_ascii=dice.random() < 0.5)
    return text.encode("utf-8", "surrogatepass")


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths to all values within."""
    is_table = isinstance(value, dict)
    entries = enumerate(value) if isinstance(value, list) else value.items() if is_table else ()
    for key, entry in entries:
        yield (*path, key)
        yield from places(entry, (*path, key))


KINDS = ("body", "stream")


def read_mutated(protocol: str, kind: str, number: int) -> Outcome:
    dice = random.Random(f"{protocol} {kind} {number}")
    reply = mutate(dice.choice(find_replies(protocol, kind)), kind, dice)
    if kind == "body":
        return read_whole(protocol, reply)
    return read_stream(protocol, cut(reply, number, dice.choice([1, 7, 100, 10_000])))


def check(protocol: str, outcome: Outcome) -> None:
    """That it is an answer that can be sent back, or an error with a category."""
    for delta in outcome.deltas:
        delta.text.encode()
        delta.name.encode()
    if outcome.error:
        assert outcome.error.category in get_args(Category)
        assert len(outcome.error.message.splitlines()) == 1
        assert "the connection to" not in outcome.error.message, "no connection has failed"
        outcome.error.message.encode()
        outcome.error.partial_text.encode()
        return
    assert outcome.response
    response = outcome.response
    response.content.encode()
    calls = CallIds().settle(protocol, response.tool_calls)
    said = Message("assistant", response.content, calls, echo=response.echo)
    results = tuple(ToolResult(call.id, "ok", name=call.name) for call in calls)
    again = ask(Message("user", "hi"), said, Message("tool", "", (), results))
    json.loads(MODULES[protocol].body(again))


def run(protocol: str, kind: str, count: int) -> tuple[int, float]:
    """Reads so many replies; returns how many were answers, and the longest CPU time of one."""
    answers, longest = 0, 0.0
    for number in range(count):
        started = time.thread_time()
        try:
            outcome = read_mutated(protocol, kind, number)
            check(protocol, outcome)
        except BaseException as error:
            error.add_note(f"{protocol} {kind} {number}")
            raise
        longest = max(longest, time.thread_time() - started)
        answers += outcome.response is not None
    assert longest < SECONDS
    return answers, longest


def main(arguments: Sequence[str]) -> None:
    count = int(arguments[0]) if arguments else FULL
    for protocol in FORMS:
        for kind in KINDS:
            answers, longest = run(protocol, kind, count)
            print(
                f"{protocol} {kind}: {count} replies, {answers} answers, "
                f"{count - answers} errors, {longest * 1000:.1f} ms at most"
            )


if __name__ == "__main__":
    main(sys.argv[1:])
