"""Marks that have Anthropic's API keep the beginning of a request in its prompt cache.

What was read before costs a tenth; writing costs a quarter more, so only what is likely to be
sent again is marked. `prompt_cache = false` under `[params]` turns the marks off.
Source: product.md "Money".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from axe_nb.messages import Request
from axe_nb.provider_table import PROMPT_CACHE

LEAST = 4096
"""Bytes; shorter beginnings have fewer than the 1024 tokens that the API keeps."""

EPHEMERAL = {"type": "ephemeral"}

_MARK = b',"cache_control":{"type":"ephemeral"}'

ROLE = len('{"role":"')
"""Offset of the role in a message as it is written; its first letter is a or u."""


@dataclass(frozen=True, slots=True)
class Prefix:
    """The parts of a request that the next one repeats, in the order of the cache."""

    tools: list[bytes]
    """One object each."""
    system: str | list[dict[str, Any]]
    """Text, or a block of it."""
    turns: list[bytes]
    """Messages with a list of blocks each; the first part may be several, from the user's first to
    one of the user's."""


def mark_prefix(request: Request, prefix: Prefix) -> Prefix:
    """Returns the parts with at most four marks; unchanged if a cache would not pay.

    The marks are at the end of the tools, of the system prompt, of the latest message, which the
    next request finds again, and of the user's before it, which the API may look for in vain
    behind more than 20 blocks of results.
    """
    is_wanted = request.params.get(PROMPT_CACHE) is not False
    is_marked = "cache_control" in request.params
    goes_on = bool(request.tools) or any(m.role == "assistant" for m in request.messages)
    if not (is_wanted and goes_on and _count_bytes(prefix) >= LEAST) or is_marked:
        return prefix
    system = prefix.system
    if isinstance(system, str) and system:
        system = [{"type": "text", "text": system, "cache_control": EPHEMERAL}]
    return Prefix(_mark_tool(prefix.tools), system, _mark_turns(prefix.turns))


def _count_bytes(prefix: Prefix) -> int:
    """Counts the bytes with the commas between turns, which a part of several has too."""
    turns = sum(map(len, prefix.turns)) + len(prefix.turns)
    return len(prefix.system) + sum(map(len, prefix.tools)) + turns


def _mark_tool(tools: Sequence[bytes]) -> list[bytes]:
    return [*tools[:-1], tools[-1][:-1] + _MARK + b"}"] if tools else []


def _mark_turns(turns: Sequence[bytes]) -> list[bytes]:
    """Marks the last block of the last two messages of the user."""
    marked = list(turns)
    latest = range(max(0, len(turns) - 3), len(turns))
    for at in [at for at in latest if turns[at][ROLE] == ord("u")][-2:]:
        marked[at] = marked[at][: -len("}]}")] + _MARK + b"}]}"
    return marked
