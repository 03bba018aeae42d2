"""Parses and validates a script model's TOML text; every error names its line.

Source: D-27.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from axe_nb.conversion.patterns import compile_pattern
from axe_nb.conversion.toml_tables import is_number, is_whole
from axe_nb.conversion.toml_text import line_of, parse_toml, toml_hint
from axe_nb.errors import ConfigError
from axe_nb.messages import ToolCall
from axe_nb.scripting.rules import FAULTS, OWN_PLACES, Fault, Rule, Script
from axe_nb.text import cut_chars, nearest, quote

if TYPE_CHECKING:
    import regex


def parse(text: str, file: str) -> Script:
    """Returns the script that a TOML text describes.

    Raises ConfigError for text that is not TOML, an unknown key, a wrong value, an invalid regex,
    or no rule.
    """
    try:
        table = parse_toml(text)
    except ValueError as error:
        hint = toml_hint(text, error)
        raise ConfigError(f"failed to parse script {file}: {error}", hint=hint) from None
    place = _Place(text, file)
    values = place.check(table, _TOP)
    if not values.get("rule"):
        raise place.error("no [[rule]] found", hint='add [[rule]] and, below it, text = "…"')
    stream = values.get("stream", False)
    rules = (
        _make_rule({"stream": stream, **rule}, replace(place, rule=number))
        for number, rule in enumerate(values["rule"], 1)
    )
    return Script(tuple(rules), values.get("clock") == "virtual")


_Shape: TypeAlias = Mapping[str, tuple[str, Callable[[Any], bool]]]
"""Key → name of its type for messages, and the check of a value."""


def _is_tables(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(entry, dict) for entry in value)


def _is_json(value: Any) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return False
    return True


_TEXT = ("a string", lambda v: isinstance(v, str))
_SWITCH = ("true or false", lambda v: isinstance(v, bool))
_TOKENS = ("a whole number, 0 or more", lambda v: is_whole(v, 0))

_TOP: _Shape = {
    "rule": ("a list of tables, each headed [[rule]]", _is_tables),
    "clock": ('"real" or "virtual"', lambda v: v in ("real", "virtual")),
    "stream": _SWITCH,
}
_RULE: _Shape = {
    "when": ("a regex, or a table of last, turn and agent", lambda v: isinstance(v, (str, dict))),
    "reasoning": _TEXT,
    "text": _TEXT,
    "data": ("a JSON value", _is_json),
    "calls": ("a list of { tool = …, arguments = … }", _is_tables),
    "stop_reason": _TEXT,
    "usage": (
        "a table of input_tokens and output_tokens", lambda v: isinstance(v, dict),
    ),
    "delay": ("a number of seconds, 0 or more", lambda v: is_number(v) and v >= 0),
    "stream": _SWITCH,
    "status": ("an HTTP status from 400 to 599", lambda v: is_whole(v, 400, 599)),
    "error": _TEXT,
}  # fmt: skip
_WHEN: _Shape = {
    "last": _TEXT,
    "turn": ("a whole number, 1 or more", lambda v: is_whole(v, 1)),
    "agent": _TEXT,
}
_CALL: _Shape = {
    "tool": ("the name of a tool", lambda v: isinstance(v, str) and bool(v.strip())),
    "arguments": (
        "a table of JSON values",
        lambda v: isinstance(v, dict) and _is_json(v),
    ),
}
_USAGE: _Shape = {"input_tokens": _TOKENS, "output_tokens": _TOKENS}


@dataclass(frozen=True, slots=True)
class _Place:
    """A position in a script's text, for messages."""

    text: str
    file: str
    rule: int = 0
    """Number of the rule, from 1; 0 = above the rules."""

    def check(self, table: Mapping[str, Any], shape: _Shape, *at: str) -> Mapping[str, Any]:
        """Checks a table and returns it unchanged.

        Raises ConfigError if it has a key that is not in the shape, or a value that does not fit.
        """
        for key, value in table.items():
            path = (*at, key)
            dotted = quote(".".join(path))
            if key not in shape:
                near = nearest(key, shape)
                hint = f"did you mean {quote(near)}?" if near else ""
                raise self.error(
                    f"unknown key {dotted}", *path, hint=hint or f"known keys: {', '.join(shape)}"
                )
            called, fits = shape[key]
            if not fits(value):
                raise self.error(f"{'.'.join(path)} must be {called}", *path)
        return table

    def error(self, message: str, *key: str, hint: str = "") -> ConfigError:
        """Formats a message with the file, the rule, and the line of the key or of its table."""
        line = line_of(self.text, ("rule",)) if self.rule else None
        path = ("rule", *key) if self.rule else key
        while path:
            if found := line_of(self.text, path, number=self.rule):
                line = found
                break
            path = path[:-1]
        at = f"{self.file}, line {line}" if line else self.file
        of = f"rule {self.rule}: " if self.rule else ""
        return ConfigError(f"{at}: {of}{message}", hint=hint)


def _make_rule(table: Mapping[str, Any], place: _Place) -> Rule:
    values = place.check(table, _RULE)
    answers = [key for key in ("stop_reason", "usage") if key in values]
    fails = [key for key in ("status", "error") if key in values]
    if answers and fails:
        raise place.error(f"{answers[0]} and {fails[0]} cannot be combined", fails[0])
    if "text" in values and "data" in values:
        raise place.error("text and data cannot be combined", "data")
    if not fails and not {"text", "data", "calls"} & values.keys():
        raise place.error("has no reply", hint="add text, data, calls, status or error")
    if fails == ["error"] and values["error"] not in FAULTS:
        named = ", ".join(FAULTS)
        raise place.error(f"error must be one of {named}, unless `status` is set", "error")
    when = values.get("when", {})
    when = place.check({"last": when} if isinstance(when, str) else when, _WHEN, "when")
    calls = []
    for entry in values.get("calls", ()):
        if "tool" not in place.check(entry, _CALL, "calls"):
            raise place.error("each entry of `calls` needs a tool", "calls")
        calls.append(ToolCall("", entry["tool"], entry.get("arguments", {})))
    return Rule(
        last=_compile_regex(when["last"], place) if "last" in when else None,
        turn=when.get("turn", 0),
        agent=when.get("agent", ""),
        reasoning=values.get("reasoning", ""),
        text=values.get("text", ""),
        data=values.get("data"),
        calls=tuple(calls),
        stop_reason=values.get("stop_reason", ""),
        usage=place.check(values.get("usage", {}), _USAGE, "usage"),
        delay=values.get("delay", 0.0),
        stream=values["stream"],
        fault=Fault(values.get("error", ""), values.get("status", 0)) if fails else None,
    )


def _compile_regex(pattern: str, place: _Place) -> regex.Pattern[str]:
    try:
        compiled = compile_pattern(pattern)
    except ConfigError as error:
        shown = quote(cut_chars(pattern, 100))
        message = f"invalid regex {shown}: {error}"
        raise place.error(message, "when", "last", hint=error.hint) from None
    taken = sorted(OWN_PLACES & compiled.groupindex.keys())
    if taken:
        raise place.error(f"a group cannot be named {quote(taken[0])}", "when", "last")
    return compiled
