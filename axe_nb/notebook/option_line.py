"""Reads a cell as typed: the option line, with variables replaced, and the body.

`{expr}` and `$name` are replaced by their values after the line is split into words, so that a
value stays in one word and is never read as an option. IPython would replace them first.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.text import DollarFormatter

from axe_nb.commands.option_table import Command, Face
from axe_nb.commands.parser import DATA, split_line
from axe_nb.conversion.value_text import write_text

FLAG = re.compile(r"(--[\w-]+=|-[A-Za-z])(.*)", re.DOTALL)
"""Matches the start of a word such as `--model=a/{name}`: the flag and the text before `{name}`."""

KEY = re.compile(r"([^\W\d][\w.-]*=)()")
"""Matches the start of a word such as `language={name}`: the key and the equals sign."""

COUNT = re.compile(r"\d+(,\d*)?|,\d+")
"""Matches a regular expression's repetition count in braces, such as `4` or `2,3`."""

_PROMPTS = re.compile(
    r"^\s*((>>>|\.\.\.)[ \t]?|(\[(nav|ins)\] )?(In \[\d+\]|\.{3,}): ?)?\s*", re.MULTILINE
)
"""Matches the prompts and blanks that IPython may strip from the start of each line."""


class _MarkingFormatter(DollarFormatter):
    """Formats `{expr}` as IPython does, but stores each value and inserts a placeholder."""

    def __init__(self, mark: str) -> None:
        self.values: list[str] = []
        self._mark = mark

    def parse(self, fmt_string: str) -> Iterator[tuple[str, str | None, str | None, str | None]]:
        """Leaves repetition counts such as `{4}` and `{2,3}` unchanged, for `--expect` patterns."""
        for text, name, format_spec, conversion in super().parse(fmt_string):
            if name is not None and COUNT.fullmatch(name) and not (format_spec or conversion):
                yield f"{text}{{{name}}}", None, None, None
            else:
                yield text, name, format_spec, conversion

    def format_field(self, value: Any, format_spec: str) -> str:
        if isinstance(value, str) or format_spec:
            text = super().format_field(value, format_spec)
        elif isinstance(value, bool | float | None):  # NaN stays, so that it is rejected
            text = json.dumps(value)
        else:  # in a form from which `--param` reads the same value
            text = write_text(value)
        self.values.append(str(text))
        return self._mark


def read_words(command: Command, face: Face, line: str, names: Mapping[str, Any]) -> list[str]:
    """Splits an option line into words and fills in values. An unclosed quote is a UsageError."""
    # a private-use character that the line does not contain
    mark = next(chr(code) for code in range(0xE000, 0xF8FF) if chr(code) not in line)
    formatter = _MarkingFormatter(mark)
    try:
        marked = formatter.vformat(line.strip().removesuffix(";"), [], names)
    except Exception:  # as in IPython, nothing is replaced if an expression fails
        return split_line(command, face, line)
    values = iter(formatter.values)
    words = []
    for word in split_line(command, face, marked):
        first, *others = word.split(mark)
        if others:  # the word contains values and is marked as data
            is_text = any(char.isspace() for part in others for char in part)
            typed = FLAG.fullmatch(first) or (None if is_text else KEY.fullmatch(first))
            key, first = typed.groups() if typed else ("", first)
            word = key + DATA + first + "".join(next(values) + part for part in others)
        words.append(word)
    return words


def find_cell_source(shell: InteractiveShell, magic: str, body: str) -> tuple[str, int]:
    """Returns a cell's body as typed, without trailing newlines, and the magic's line number.

    IPython passes a different `body`: it strips `>>>` and `...` from the starts of lines, even
    within a prompt, and omits lines above the magic. If the magic was not typed in a cell,
    IPython's body and line 1 are returned.
    """
    history = shell.history_manager
    raw = history.input_hist_raw[-1] if history is not None else ""
    head = re.search(rf"^%%{magic}(?!\w).*(?:\n|\Z)", raw, re.MULTILINE)
    if head is None:
        return body.rstrip("\n"), 1
    whole = raw[head.end() :]
    if _strip_prompts(whole) != _strip_prompts(body):
        return body.rstrip("\n"), 1
    return whole.rstrip("\n"), raw.count("\n", 0, head.start()) + 1


def _strip_prompts(text: str) -> str:
    return _PROMPTS.sub("", text).rstrip()
