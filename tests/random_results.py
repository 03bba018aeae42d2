"""Random results of runs, trees of them, for tests of what is kept of a run."""

from __future__ import annotations

import math
import re
from dataclasses import fields
from typing import Any, get_args

from hypothesis import strategies as st

from axe_nb.errors import AxeError, Category, ConfigError, ProviderError, RunError
from axe_nb.messages import CallTraits, Message, Role, ToolCall, ToolResult, Usage
from axe_nb.results import RunResult, Status, Turn

PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")

WORDS = st.sampled_from([
    "", "a", "two\nlines", "\n", "|", "é語😀\u202e", "\ud83d", "\udc80", "\0\x7f\u2028", '"\\/',
    "***",
])  # fmt: skip

TEXTS = WORDS | st.text(max_size=8, alphabet=st.characters()).filter(lambda t: not PAIR.search(t))
"""Half characters too, but no two halves of one: JSON cannot tell them from the whole."""

NUMBERS = st.integers(0, 2**40)

JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXTS, inner, max_size=2),
    max_leaves=4,
)

OBJECTS = st.dictionaries(TEXTS, JSON, max_size=2)

SMALL = st.sampled_from([{}, {"|": "x"}, {"||": ["a", "b"]}, {"a": {"|": ["x\ny"]}}]) | OBJECTS


def some(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(strategy, max_size=2).map(tuple)


KINDS: dict[str, st.SearchStrategy[Any]] = {
    "str": TEXTS, "str | None": st.none() | TEXTS, "tuple[str, ...]": some(TEXTS),
    "int": NUMBERS, "bool": st.booleans(), "Mapping[str, str]": st.dictionaries(TEXTS, TEXTS),
    "Mapping[str, Any]": SMALL, "Mapping[str, Any] | None": st.none() | SMALL,
    "Role": st.sampled_from(get_args(Role)), "Status": st.sampled_from(get_args(Status)),
}  # fmt: skip
"""Annotation of a field → its values; fields of other types have their defaults."""


def build(kind: Any, **given: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    known = {f.name: KINDS[str(f.type)] for f in fields(kind) if str(f.type) in KINDS}
    return st.builds(kind, **(known | given))


for kind in (CallTraits, ToolCall, ToolResult, Message, Usage, Turn):
    KINDS[kind.__name__] = build(kind)
    KINDS[f"tuple[{kind.__name__}, ...]"] = some(KINDS[kind.__name__])

CAUSES = st.one_of(
    st.none(),
    st.builds(AxeError, TEXTS, hint=TEXTS),
    st.builds(ConfigError, TEXTS, hint=TEXTS, exit_code=st.sampled_from([1, 2, 3])),
    st.builds(RunError, TEXTS, exit_code=st.integers(0, 255)),
    st.builds(
        ProviderError, st.sampled_from(get_args(Category)), TEXTS, hint=TEXTS,
        status=st.none() | st.integers(100, 599), retry_after=st.none() | st.just(2.5),
        partial_text=TEXTS, retryable=st.none() | st.booleans(),
    ),
)  # fmt: skip


def results(depth: int = 3) -> st.SearchStrategy[RunResult]:
    """Results whose trees are at most so deep."""
    children = some(results(depth - 1)) if depth > 1 else st.just(())
    return build(RunResult, children=children, cause=CAUSES)


def facts(result: RunResult) -> list[Any]:
    """What `==` leaves out: errors, and the traits of calls."""
    found: list[Any] = []
    for one in result.walk():
        found.append((type(one.cause), vars(one.cause), one.cause.args) if one.cause else None)
        found += [call.traits for turn in one.log for call in turn.calls]
        found += [call.traits for message in one.messages for call in message.tool_calls]
    assert not any(isinstance(fact, float) and math.isnan(fact) for fact in found)
    return found
