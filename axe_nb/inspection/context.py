"""Tokens of a request by their source: what fills the context of a model.

Each source is estimated as UTF-8 bytes / 4. Where the reply says how many tokens the input had, the
estimates are scaled so that they add up to them.
Source: product.md "Runs are recordings"; D-18; library-facts "Tokens for the context bar".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from axe_nb.messages import Message, Request, dump
from axe_nb.text import count_bytes, plural

SYSTEM_PROMPT, SKILL, FILES = "system prompt", "skill", "files"
TOOLS, HISTORY, PROMPT, RESULTS = "tool schemas", "history", "prompt", "results"

SOURCES = (SYSTEM_PROMPT, SKILL, FILES, TOOLS, HISTORY, PROMPT, RESULTS)
"""Every source. The prompt is that of the run, with a closing question; the results are those of
tools; the history is all else that was said, the model's own calls included."""

BYTES = 4
"""UTF-8 bytes of a token, in the middle."""

Encode: TypeAlias = Callable[[Message], Iterable[Mapping[str, Any]]]
"""A message → its objects on the wire."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ContextTokens(Mapping[str, int]):
    """Source → its tokens; every source is there."""

    tokens: Mapping[str, int]
    is_estimate: bool
    """True if the model's server did not say how many there were."""

    @property
    def total(self) -> int:
        """Tokens of all sources together."""
        return sum(self.tokens.values())

    @property
    def size(self) -> str:
        """The total in words: `1,204 tokens`, `about 1,200 tokens`."""
        return f"{'about ' if self.is_estimate else ''}{plural(self.total, 'token')}"

    def __getitem__(self, source: str) -> int:
        return self.tokens[source]

    def __iter__(self) -> Iterator[str]:
        return iter(self.tokens)

    def __len__(self) -> int:
        return len(self.tokens)

    def __repr__(self) -> str:
        shares = ", ".join(f"{source} {count:,}" for source, count in self.items() if count)
        return f"ContextTokens({self.size}: {shares})"


def count_context(
    request: Request, body: Mapping[str, Any], encode: Encode, first: int, reported: int = 0
) -> ContextTokens:
    """Counts the tokens of a request.

    Args:
        request: the request.
        body: the same as it is sent.
        encode: how its protocol encodes a message.
        first: position of the run's own prompt among its messages.
        reported: tokens of the input, as the reply says; 0 = it does not.
    """
    whole = len(request.system)
    end_of_prompt, end_of_skill = (*request.system_ends, whole, whole)[:2]
    size = dict.fromkeys(SOURCES, 0)
    size[SYSTEM_PROMPT] = count_bytes(request.system[:end_of_prompt])
    size[SKILL] = count_bytes(request.system[end_of_prompt:end_of_skill])
    size[FILES] = count_bytes(request.system[end_of_skill:])
    size[TOOLS] = len(dump(body["tools"])) if body.get("tools") else 0
    for number, message in enumerate(request.messages):
        if message.tool_results:
            size[RESULTS] += sum(count_bytes(result.content) for result in message.tool_results)
            size[RESULTS] += _count_pictures(message)
        elif message.role == "user":
            size[PROMPT if number >= first else HISTORY] += count_bytes(message.content)
            size[PROMPT if number >= first else HISTORY] += _count_pictures(message)
        else:
            size[HISTORY] += sum(map(_count_texts, encode(message)))
    if not reported:
        return ContextTokens({source: -(-n // BYTES) for source, n in size.items()}, True)
    return ContextTokens(_share_out(reported, size), False)


def _count_pictures(message: Message) -> int:
    """Counts the bytes of text that cost as much as the pictures."""
    return sum(BYTES * picture.tokens for picture in message.all_pictures())


def _count_texts(value: Any) -> int:
    """Counts the bytes of all values within JSON data."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list):
        return sum(map(_count_texts, value))
    return count_bytes(value if isinstance(value, str) else dump(value).decode())


def _share_out(total: int, size: Mapping[str, int]) -> dict[str, int]:
    """Shares a total out in proportion to sizes; the parts add up to it."""
    if not any(size.values()):
        size = {**size, PROMPT: 1}
    whole = sum(size.values())
    shares = {source: total * n // whole for source, n in size.items()}
    by_rest = sorted(size, key=lambda source: -(total * size[source] % whole))
    for source in by_rest[: total - sum(shares.values())]:
        shares[source] += 1
    return shares
