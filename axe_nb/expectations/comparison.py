"""Comparison of a value that was found with the one that is expected.

Source: D-67; D-20 for patterns.
"""

from __future__ import annotations

import dataclasses
import json
import operator
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from axe_nb.errors import ConfigError
from axe_nb.expectations.clause import Step, Test, Value
from axe_nb.text import list_some, one_line, plural, quote

MAX_SECONDS = 1.0
"""Time limit of all patterns of one check, in seconds of CPU time."""

MAX_SHOWN = 60
"""Characters of a found text in messages."""

LARGE = 10**15
"""Integers from here on are not written out in messages."""

MISSING = object()
"""The result of `look_up` if there is nothing."""

_COMPARE: Mapping[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_WORDS = {"true": True, "True": True, "false": False, "False": False, "null": None, "None": None}


class Stopwatch:
    """Limits the time of all patterns of one check."""

    def __init__(self) -> None:
        self._ends = 0.0
        """On the clock of the thread's CPU time; 0 = no pattern has been looked for."""

    def search(self, value: Value, text: str) -> bool:
        """True if the text has the pattern.

        Raises:
            ConfigError: it takes too long.
        """
        assert value.pattern is not None
        now = time.thread_time()
        self._ends = self._ends or now + MAX_SECONDS
        left = self._ends - now
        try:
            if left > 0:
                return value.pattern.search(text, timeout=left) is not None
        except TimeoutError:
            pass
        raise ConfigError(
            f"the pattern {one_line(value.text, MAX_SHOWN)} takes longer than {MAX_SECONDS:g} s",
            hint="use a simpler pattern without nested repeats",
        )


def holds(found: Any, test: Test, watch: Stopwatch) -> bool:
    """True if a value is as expected; without an operator, if it is neither zero nor empty.

    Raises:
        ConfigError: a pattern takes too long.
    """
    match test.operator:
        case "":
            return bool(found)
        case "!=":
            return not _compare(found, "==", test.value, watch)
        case "!~":
            return not _compare(found, "~", test.value, watch)
        case _:
            return _compare(found, test.operator, test.value, watch)


def _compare(found: Any, sign: str, value: Value, watch: Stopwatch) -> bool:
    if isinstance(found, Sequence) and not isinstance(found, str):
        if value.number is not None and sign != "contains":
            return _COMPARE[sign](len(found), value.number)
        return any(_compare(item, sign, value, watch) for item in found)
    if found is None or isinstance(found, bool):
        return sign == "==" and value.is_bare and _WORDS.get(value.text, MISSING) is found
    if isinstance(found, int | float):
        compare = _COMPARE.get("==" if sign == "contains" else sign)  # contained in a list
        return compare is not None and value.number is not None and compare(found, value.number)
    if isinstance(found, Mapping):
        return sign == "contains" and value.text in found
    if not isinstance(found, str):
        return False
    if sign == "~":
        return watch.search(value, found)
    if value.number is not None:
        return sign == "contains" and value.text in found
    return value.text in found if sign == "contains" else _COMPARE[sign](found, value.text)


def look_up(value: Any, path: Sequence[Step]) -> Any:
    """The part of a value at a path, or MISSING."""
    for step in path:
        if isinstance(value, Mapping):
            value = value.get(step, MISSING)
        elif isinstance(step, int):
            is_list = isinstance(value, Sequence) and not isinstance(value, str)
            value = value[step] if is_list and step < len(value) else MISSING
        else:
            value = _fields_of(value).get(step, MISSING)
    return value


def _fields_of(value: Any) -> Mapping[str, Any]:
    """The fields of an object, such as a dataclass or a pydantic model; read without its code."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return getattr(value, "__dict__", {})


def describe(found: Any) -> str:
    """A found value in a few words, on one line."""
    if isinstance(found, str):
        return quote(one_line(found, MAX_SHOWN))
    if isinstance(found, Sequence):
        shown = [one_line(item, MAX_SHOWN) for item in found if isinstance(item, str)]
        items = f" ({list_some(list(dict.fromkeys(shown)), 3)})" if shown else ""
        return f"{plural(len(found), 'item')}{items}"
    if isinstance(found, Mapping):
        return f"an object with {list_some([quote(str(key)) for key in found], 5) or 'no keys'}"
    if found is None or isinstance(found, bool):
        return json.dumps(found)
    if isinstance(found, int) and abs(found) < LARGE:
        return f"{found:,}"
    if isinstance(found, int | float):
        return f"{found:.6g}" if isinstance(found, float) else "a large number"
    return f"a {type(found).__name__}"
