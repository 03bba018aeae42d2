"""Turns a cell's text into a prompt: removes comments for nbval and graders, evaluates `{{ }}`.

Source: D-40.
"""

from __future__ import annotations

import ast
import builtins
import re
import warnings
from collections.abc import Mapping
from typing import Any

from axe_nb.conversion.value_text import NoText, Written, append_value, format_value, write_value
from axe_nb.errors import ConfigError, words
from axe_nb.pictures.picture import NoPicture, Picture, find_parts
from axe_nb.text import nearest, one_line, quote, remove_addresses

LEFT_OUT = re.compile(
    r"^[ \t]*#+[ \t]*(?:NBVAL_\w+.*|(?:BEGIN|END) SOLUTION[ \t]*)(?:\n|\Z)", re.MULTILINE
)
"""Matches a comment for nbval, or a comment that delimits a solution (`testing/lesson.py`)."""

LONGEST_EXPRESSION = 1000
"""Maximum number of characters between the braces of `{{ expr }}`; longer text is kept as is."""


def prompt_of(
    body: str,
    namespace: Mapping[str, Any],
    *,
    raw: bool = False,
    first_line: int = 2,
    pictures: list[Picture] | None = None,
) -> str:
    """Makes the prompt from a cell's body; if `raw` is true, `{{ … }}` is left unchanged.

    `first_line` is the line number of the body in the cell, where line 1 is the magic (D-41).
    `pictures` is as for `interpolate`. Raises ConfigError, with the line, if an expression
    uses an unknown name or fails.
    """
    body = body.removesuffix("\n")  # some front ends add a line end
    if raw:
        return LEFT_OUT.sub("", body)
    pieces: list[str] = []
    at, line = 0, first_line
    for mark in LEFT_OUT.finditer(body):
        pieces.append(interpolate(body[at : mark.start()], namespace, line, pictures))
        line += body.count("\n", at, mark.end())
        at = mark.end()
    return "".join([*pieces, interpolate(body[at:], namespace, line, pictures)])


def interpolate(
    text: str,
    namespace: Mapping[str, Any],
    first_line: int = 1,
    pictures: list[Picture] | None = None,
) -> str:
    """Replaces each `{{ expr }}` in a text with its value. Values are not expanded again.

    If `pictures` is given, each picture among the values is appended to that list, and the text
    gets a picture marker.
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
            # skips one brace: in `{{{ x }}}` the inner pair may still be an expression
            pieces.append(text[at : start + 1])
            at = start + 1
            continue
        source, end = found
        line = first_line + text.count("\n", 0, start)
        value = _evaluate(source, namespace, line, pictures)
        append_value(pieces, text[at:start], value, text, end)
        at = end
    pieces.append(text[at:])
    return "".join(pieces)


def _find_expression(text: str, start: int) -> tuple[str, int] | None:
    """Returns the Python expression at `start` and the position after its `}}`; None if not found.

    Literals are ignored, because `{{2}}` occurs in regexes, and `{{ [1, 2] }}` in templates.
    """
    stop = min(len(text), start + LONGEST_EXPRESSION)
    end = start - 1
    for _ in range(8):
        if (end := text.find("}}", end + 1, stop)) < 0:
            return None
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


def _evaluate(
    source: str, namespace: Mapping[str, Any], line: int, pictures: list[Picture] | None
) -> Written:
    shown = "{{ " + one_line(source, 80) + " }}"
    hint = r"write \{{ for a literal brace, or use --raw"
    try:
        with warnings.catch_warnings(action="ignore"):
            code = compile(source, "<prompt>", "eval", dont_inherit=True)
        if hasattr(builtins, source) and source not in namespace:
            raise NameError(name=source)  # an undefined name such as `input`, not the built-in
        value = eval(code, dict(namespace))
        parts = find_parts(value) if pictures is not None else []
        if pictures is None or not parts:
            return write_value(value)
        lines: list[str] = []
        for part in parts:
            if isinstance(part, Picture):
                pictures.append(part)
                lines.append(part.mark(len(pictures)))
            else:
                lines.append(format_value(part))
        return Written("\n".join(lines), is_block=len(parts) > 1)
    except NoText as error:
        problem = str(error)
    except NoPicture as error:
        problem, hint = f"cannot be sent: {error.message}", error.hint
    except NameError as error:
        name = error.name or source
        hidden = {*dir(builtins), "In", "Out", "get_ipython"}
        own = (one for one in namespace if not one.startswith("_") and one not in hidden)
        near = nearest(name, own)
        suggested = f"; did you mean {near}?" if near else ""
        raise ConfigError(
            f"unknown name {quote(name)} in {shown} (line {line}){suggested}", hint=hint
        ) from None
    except Exception as error:
        if isinstance(error, AttributeError) and error.name and isinstance(error.obj, Mapping):
            hint = f"write [{quote(error.name)}] instead of .{error.name}; {hint}"
        said = remove_addresses(words(error).partition("\n")[0], error)
        what = one_line(f"{type(error).__name__}: {said}", 200)
        raise ConfigError(f"{shown} failed (line {line}): {what}", hint=hint) from None
    raise ConfigError(f"{shown} {problem} (line {line})", hint=hint)
