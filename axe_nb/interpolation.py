"""Turns a cell into a prompt: removes NBVAL lines, evaluates `{{ expr }}`. Pure.

Source: product.md "Notebook" (interpolation); D-40.
"""

from __future__ import annotations

import ast
import builtins
import json
import re
import warnings
from collections.abc import Iterator, Mapping
from types import BuiltinFunctionType, FunctionType, GeneratorType, MethodType, ModuleType
from typing import Any

from axe_nb.errors import ConfigError
from axe_nb.results import RunResult
from axe_nb.text import cut_chars, nearest, one_line, quote

NBVAL = re.compile(r"^[ \t]*#+[ \t]*NBVAL_\w+.*(?:\n|\Z)", re.MULTILINE)

LONGEST_EXPRESSION = 1000
"""Maximum characters between the braces; longer text is not an expression."""

MOST_ROWS, MOST_COLUMNS = 200, 50
"""Maximum size of a table in a prompt; a note tells how much is left out."""

NO_DATA = (type, ModuleType, FunctionType, BuiltinFunctionType, MethodType, GeneratorType)
"""Types without text of their own, such as `input` or `id` in a foreign template's braces."""

LONGEST_VALUE = 200_000
"""Maximum characters of one value in a prompt; a note tells how much is left out."""


def prompt_of(
    body: str, namespace: Mapping[str, Any], *, raw: bool = False, first_line: int = 2
) -> str:
    """Makes the prompt from a cell's body.

    Args:
        body: the text below the magic.
        namespace: the user's variables.
        raw: if True, `{{ … }}` is left unchanged.
        first_line: line number of the body in its editor, for messages; the magic is line 1 (D-41).

    Raises:
        ConfigError: an expression uses an unknown name or fails; the message has its line.
    """
    body = body.removesuffix("\n")  # some front ends add one, some do not
    if raw:
        return NBVAL.sub("", body)
    pieces: list[str] = []
    at, line = 0, first_line
    for mark in NBVAL.finditer(body):
        pieces.append(interpolate(body[at : mark.start()], namespace, line))
        line += body.count("\n", at, mark.end())
        at = mark.end()
    return "".join([*pieces, interpolate(body[at:], namespace, line)])


def interpolate(text: str, namespace: Mapping[str, Any], first_line: int = 1) -> str:
    """The text with every `{{ expr }}` replaced by its value; values are not expanded again.

    Args:
        first_line: number of the text's first line, for messages.
    """
    pieces: list[str] = []
    at = 0
    while (start := text.find("{{", at)) >= 0:
        if text[at:start].endswith("\\"):
            pieces += [text[at : start - 1], "{{"]
            at = start + 2
            continue
        found = _find_expression(text, start + 2)
        if found is None:
            # one brace on: in `{{{ x }}}` the inner pair may still be an expression
            pieces.append(text[at : start + 1])
            at = start + 1
            continue
        source, end = found
        line = first_line + text.count("\n", 0, start)
        pieces += [text[at:start], _evaluate(source, namespace, line)]
        at = end
    pieces.append(text[at:])
    return "".join(pieces)


def _find_expression(text: str, start: int) -> tuple[str, int] | None:
    """The Python expression that starts here and the end of its braces; None if there is none.

    Bare literals are left alone: `{{2}}` is a regex, `{{ [1, 2] }}` belongs to a template.
    """
    for end in _find_closings(text, start):
        source = text[start:end].strip()
        try:
            with warnings.catch_warnings(action="ignore"):
                tree = ast.parse(source, mode="eval")
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        try:
            ast.literal_eval(tree)
        except (ValueError, TypeError, SyntaxError, RecursionError):
            return source, end + 2
        return None
    return None


def _find_closings(text: str, start: int) -> Iterator[int]:
    stop = min(len(text), start + LONGEST_EXPRESSION)
    end = text.find("}}", start, stop)
    for _ in range(8):
        if end < 0:
            return
        yield end
        end = text.find("}}", end + 1, stop)


def _evaluate(source: str, namespace: Mapping[str, Any], line: int) -> str:
    shown = "{{ " + one_line(source, 80) + " }}"
    hint = r"write \{{ for a literal brace, or use --raw"
    try:
        with warnings.catch_warnings(action="ignore"):
            code = compile(source, "<prompt>", "eval", dont_inherit=True)
        value = eval(code, dict(namespace))
        if not isinstance(value, NO_DATA):
            return format_value(value)
        problem = f"is a {type(value).__name__}, which has no text form"
    except NameError as error:
        name = error.name or source
        near = nearest(name, _list_names(namespace))
        suggested = f"; did you mean {near}?" if near else ""
        raise ConfigError(
            f"unknown name {quote(name)} in {shown} (line {line}){suggested}", hint=hint
        ) from None
    except Exception as error:
        what = one_line(f"{type(error).__name__}: {error}".partition("\n")[0], 200)
        raise ConfigError(f"{shown} failed (line {line}): {what}", hint=hint) from None
    raise ConfigError(f"{shown} {problem} (line {line})", hint=hint)


def _list_names(namespace: Mapping[str, Any]) -> Iterator[str]:
    """The user's own names, without those of Python and IPython."""
    hidden = {*dir(builtins), "In", "Out", "get_ipython"}
    return (name for name in namespace if not name.startswith("_") and name not in hidden)


def format_value(value: object) -> str:
    """Formats a value for a model: text unchanged, data as JSON, tables as aligned text."""
    text = value if isinstance(value, str) else _format_data(value)
    return cut_chars(text, LONGEST_VALUE, "\n[{more} more characters left out]")


def _format_data(value: object) -> str:
    if isinstance(value, RunResult):
        return value.text
    if isinstance(value, (dict, list, tuple)):
        try:
            return json.dumps(value, ensure_ascii=False, indent=2, default=_encode_result)
        except (TypeError, ValueError, RecursionError):
            return str(value)
    if hasattr(value, "to_string") and hasattr(value, "head") and hasattr(value, "index"):
        return _format_table(value)
    return str(value)


def _encode_result(value: object) -> str:
    """The text of a RunResult inside a list or dictionary; rejects all other non-JSON types."""
    if isinstance(value, RunResult):
        return value.text
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")


def _format_table(value: Any) -> str:
    """Formats a pandas table or column, whose own text would leave out the middle."""
    rows, columns = len(value.index), len(getattr(value, "columns", ()))
    kept = value.head(MOST_ROWS)
    if columns > MOST_COLUMNS:
        kept = kept.iloc[:, :MOST_COLUMNS]
    left_out = [
        f"{count - most} more {what}"
        for count, most, what in ((rows, MOST_ROWS, "rows"), (columns, MOST_COLUMNS, "columns"))
        if count > most
    ]
    note = f"\n[{' and '.join(left_out)} left out]" if left_out else ""
    return f"{kept.to_string()}{note}"
