"""The messages of a growing conversation: written once, and as they would be written anew."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from axe_nb.messages import Message, Request, ToolCall, ToolResult, WireCache
from axe_nb.providers.history import write_messages
from tests.providers.dialects import CALL_AGENT, DIALECTS, MODULES, Dialect, ask

each = pytest.mark.parametrize("dialect", DIALECTS, ids=str)

LONG = "You lead. " * 500


def exchange(number: object) -> tuple[Message, Message]:
    """A call and its result."""
    call = ToolCall(f"c{number}", "call_agent", {"number": number})
    return Message("assistant", "On it.", (call,)), Message(
        "tool", tool_results=(ToolResult(call.id, f"found {number}", name="call_agent"),)
    )


def odd_conversation(seed: int) -> Iterator[Message]:
    """Turns in any order, some of them empty, several of one role in a row."""
    dice = random.Random(seed)
    yield Message("user", "begin")
    for number in range(60):
        match dice.randrange(8):
            case 0:
                yield Message("user", f"and {number}?")
            case 1:
                yield Message("assistant", f"paused {number}")
            case 2:
                yield Message(dice.choice(["user", "assistant"]), "")
            case _:
                yield from exchange(number)


def check(dialect: Dialect, request: Request) -> None:
    """The body is that of a request that shares nothing with others."""
    body = MODULES[dialect.name].body
    assert body(request) == body(replace(request, wire=WireCache()))


@each
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("system", ["", LONG])
@pytest.mark.req("D-32")
def test_a_conversation_is_the_same_whether_it_grew_or_not(
    dialect: Dialect, seed: int, system: str
) -> None:
    messages = list(odd_conversation(seed))
    wire = WireCache()
    sizes = sorted(random.Random(seed).sample(range(1, len(messages) + 1), 25))
    for size in sizes:
        check(dialect, ask(*messages[:size], tools=(CALL_AGENT,), system=system, wire=wire))


@each
def test_a_branch_of_a_conversation_is_sent_with_its_own_messages(dialect: Dialect) -> None:
    trunk = [Message("user", "begin"), *(m for n in range(30) for m in exchange(n))]
    request = ask(*trunk, tools=(CALL_AGENT,))
    for at in (61, 59, 31, 1, 0, 61):
        branch = [*trunk[:at], Message("user", f"other {at}"), *exchange("x"), *trunk[at:]]
        check(dialect, replace(request, messages=tuple(branch)))


@each
def test_equal_messages_are_not_taken_for_one_another(dialect: Dialect) -> None:
    """1 and 1.0 and True are equal, but not as JSON."""
    rest = [message for n in range(2, 30) for message in exchange(n)]
    wire = WireCache()
    for number in (1, True, 1.0):
        messages = (Message("user", "begin"), *exchange(number), *rest)
        check(dialect, ask(*messages, tools=(CALL_AGENT,), wire=wire))


@pytest.mark.req("A-8.1")
def test_each_message_is_encoded_once() -> None:
    """What keeps turn 1000 as quick as turn 10."""
    encoded: list[Message] = []

    def encode(message: Message) -> Sequence[dict[str, Any]]:
        encoded.append(message)
        return [{"role": message.role}]

    messages = [Message("user", "begin"), *(m for n in range(100) for m in exchange(n))]
    wire = WireCache()
    for size in range(1, len(messages) + 1, 2):
        older, recent = write_messages(ask(*messages[:size], wire=wire), "test", encode)
        assert len(recent) < 20
        assert older.count(b"role") + len(recent) == size
    write_messages(ask(*messages, wire=wire), "another", lambda message: [])
    write_messages(ask(*messages, wire=wire), "test", encode)
    assert encoded == messages
