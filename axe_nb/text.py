"""Text for people and models: quoting, cleaning, truncation, plurals, suggestions.

Text from models, tools, files and the network is cleaned here before it is displayed. Unneeded
invisible characters become U+FFFD, as they could hide instructions to a model from a human reader,
or disguise an address. Source: D-10, D-13, D-27, X-27, docs/safety.md.
"""

from __future__ import annotations

import difflib
import json
import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import ModuleType
from typing import Any

REPLACEMENT = "\ufffd"

INVISIBLE = re.compile(
    "[\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    "\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff"
    # not ignorable, but without a glyph as well: a blank, annotations, an empty note head
    "\u2800\ufff9-\ufffc\U0001d159]"
)
"""Matches Unicode's default-ignorable characters, and a few others without a glyph."""

_JOINED = r"(?=[\p{L}\p{M}])[\u0620-\u077f\u07ca-\u07f5\u0840-\u08ff]"
"""Matches letters of Arabic, Syriac, N'Ko and Mandaic, which join their neighbours."""

_EMOJI = r"[^\P{Emoji}\0-\x7f]"
"""Matches emoji, and symbols that a variation selector turns into emoji."""

_VIRAMA = r"\p{ccc=9}"
"""Matches viramas, which remove a vowel in the scripts of South and Southeast Asia."""

_NEEDED = rf"""
    (?<= {_EMOJI} ) [\ufe0e\ufe0f] | (?<= [#*0-9] ) [\ufe0e\ufe0f] (?= \u20e3 )
    | (?<= {_EMOJI} \ufe0f? ) \u200d (?= {_EMOJI} )
    | (?<= {_VIRAMA} ) (?: \u200c | \u200d (?! {_EMOJI} ) ) | (?<= \p{{L}} ) \u200d (?= {_VIRAMA} )
    | (?<= {_JOINED} ) \u200c (?= {_JOINED} )
    | (?<= {_JOINED} ) \u200d (?! {_JOINED} | {_EMOJI} | {_VIRAMA} )
"""
"""Matches invisible characters where they affect, or may affect, how text is displayed."""

_UNSEEN = f"({_NEEDED})|{INVISIBLE.pattern}"

_HARMFUL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)
"""Matches characters that move the cursor, start a terminal escape, change the writing direction,
or cannot be encoded as UTF-8."""

LONGEST_WORD = 100
"""Maximum length of words that are compared for suggestions, as comparing takes quadratic time."""

MAX_SHOWN = 60
"""Maximum length of an invalid value when quoted in an error, in characters."""


def quote(text: str) -> str:
    """Puts a text in double quotes, and writes invisible characters as JSON escapes (D-13)."""
    quoted = json.dumps(text, ensure_ascii=False)
    if quoted.isprintable() and not INVISIBLE.search(quoted):
        return quoted
    return "".join(
        c if _is_visible(c) or unicodedata.category(c) == "Zs" else json.dumps(c)[1:-1]
        for c in quoted
    )


def clean(text: str) -> str:
    r"""Converts `\r\n` to `\n`, and harmful or unneeded invisible characters to U+FFFD."""
    text = _HARMFUL.sub(REPLACEMENT, text.replace("\r\n", "\n"))
    if text.isascii() or not INVISIBLE.search(text):
        return text
    import regex  # supports Unicode properties

    seen = regex.sub(_UNSEEN, lambda found: found[1] or REPLACEMENT, text, flags=regex.VERBOSE)
    return str(seen)


def reveal(text: str) -> str:
    """Replaces invisible characters except blanks with U+FFFD, even those that emoji need."""
    return "".join(c if _is_visible(c) or c in " \u3000\n\t" else REPLACEMENT for c in text)


def printable(name: str) -> str:
    """Quotes a name that has unprintable characters; returns any other name unchanged."""
    return name if name.isprintable() and not INVISIBLE.search(name) else quote(name)


def _is_visible(character: str) -> bool:
    return character.isprintable() and not INVISIBLE.match(character)


def one_line(text: str, limit: int) -> str:
    """Cleans a text, and joins and shortens it to one line of at most `limit` characters.

    If text is cut off, the line ends with `…`.
    """
    beginning = text[: 4 * limit]
    line = clean(" ".join(beginning.split()))
    if len(line) <= limit and len(beginning) == len(text):
        return line
    return line[: limit - 1].rstrip() + "…"


def count_columns(text: str) -> int:
    """Returns the width of a line on a terminal, in columns."""
    return count_most_columns("".join(c for c in text if not unicodedata.combining(c)))


def align_columns(rows: Sequence[Sequence[str]], right: int = 0) -> Iterator[str]:
    """Formats a table as cleaned, aligned lines; the last `right` columns are right-aligned."""
    rows = [[clean(cell).replace("\n", " ") for cell in row] for row in rows]
    widths = [max(map(count_columns, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = []
        for number, (cell, width) in enumerate(zip(row, widths, strict=True)):
            blank = " " * (width - count_columns(cell))
            cells.append(cell + blank if number < len(row) - right else blank + cell)
        yield "  ".join(cells).rstrip()


def cut_chars(text: str, limit: int, note: str = "...") -> str:
    """Truncates text to `limit` characters; if cut, adds `note` with `{more}` and `{size}` set."""
    if len(text) <= limit:
        return text
    return text[:limit] + note.format(more=len(text) - limit, size=len(text))


def cut_middle(text: str, limit: int) -> tuple[str, int]:
    """Cuts out the middle of a long text. Returns the text and the number of characters cut."""
    if len(text) <= limit:
        return text, 0
    half, more = limit // 2, len(text) - 2 * (limit // 2)
    return f"{text[:half]}\n… {more:,} characters hidden …\n{text[-half:]}", more


def fold(text: str, width: int, indent: str) -> str:
    """Wraps lines wider than `width` columns; continuation lines start with `indent`."""
    # a terminal would continue at the left edge, where a text could imitate a prompt
    lines = []
    for line in text.split("\n"):
        parts, start, column, room = [], 0, 0, width
        for end, character in enumerate(line):
            column += _width_of(character)
            if column > room:
                space = line.rfind(" ", max(start, end - 20), end) + 1
                at = space if line[start:space].strip() else end
                parts.append(line[start:at])
                start, room = at, width - len(indent)
                column = count_most_columns(line[at : end + 1])
        lines.append(f"\n{indent}".join((*parts, line[start:])))
    return "\n".join(lines)


def count_most_columns(line: str) -> int:
    """Returns an upper bound for a line's width in columns, counting 8 for each tab."""
    return len(line) if line.isascii() and "\t" not in line else sum(map(_width_of, line))


def _width_of(character: str) -> int:
    if character == "\t":
        return 8
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def count_bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def cut_bytes(text: str, limit: int, note: str = "") -> str:
    """Truncates text to `limit` bytes; if cut, adds `note` with `{limit}` and `{size}` set."""
    data = text.encode("utf-8", "surrogatepass")
    if len(data) <= limit:
        return text
    end = limit
    while end and data[end] & 0xC0 == 0x80:
        end -= 1
    return data[:end].decode("utf-8", "surrogatepass") + note.format(limit=limit, size=len(data))


def plural(count: int, noun: str) -> str:
    """Formats a count and its noun, as in `1 turn` or `1,204 tokens`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def list_choices(names: Sequence[str]) -> str:
    """Formats one or more names, as in "a, b or c"."""
    *most, last = names
    return f"{', '.join(most)} or {last}" if most else last


def list_some(names: Sequence[str], limit: int) -> str:
    """Formats up to `limit` names, separated by commas, and how many more there are."""
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + more


def format_seconds(seconds: float) -> str:
    """Formats seconds without trailing zeros, as in `120` or `0.2` (D-10)."""
    return f"{seconds:.3f}".rstrip("0").rstrip(".")


def format_dollars(dollars: float) -> str:
    """Formats a price, as in `$1.20`; prices below one dollar have two significant digits."""
    dollars = round(dollars, 12)  # sums depend on the order of their parts
    if not dollars or not dollars < 0.995:  # a file may say NaN
        return f"${dollars:,.2f}"
    if dollars < 1e-6:
        return "< $0.000001"
    digits = max(2, 1 - math.floor(math.log10(dollars)))
    return f"${dollars:.{digits}f}"


def nearest(word: str, known: Iterable[str]) -> str:
    """Returns the known word most similar to `word`, ignoring case; empty if none is similar."""
    folded = word[:LONGEST_WORD].casefold()
    names = {name.casefold(): name for name in known if len(name) <= LONGEST_WORD}
    swapped = (name for name in names if sorted(name) == sorted(folded))  # `model` for `modle`
    parts = (name for name in names if folded in name.split("_"))  # `system_prompt` for `system`
    least = 0.7 if len(folded) >= 5 else 0.65  # `system` must not match `stream`
    close = difflib.get_close_matches(folded, names, 1, least)
    return next((names[name] for name in (*swapped, *parts, *close)), "")


def suggestion(word: str, known: Iterable[str]) -> str:
    """Returns a `did you mean …?` hint with the nearest word; empty if none is similar (D-27)."""
    near = nearest(word, known)
    return f"did you mean {quote(near)}?" if near else ""


def count_common(one: Sequence[str], other: Sequence[str]) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


def describe(value: object) -> str:
    """Describes an object by its type, as in `<Lock object>`, and a module by its name."""
    if issubclass(type(value), ModuleType):
        return f"<module {one_line(str(getattr(value, '__name__', 'unnamed')), 80)}>"
    return f"<{type_name(value)} object>"


def type_name(value: object) -> str:
    return one_line(type(value).__name__, 80)


def own_text(value: object) -> str:
    """Returns `str(value)` without memory addresses.

    For a module, or an object whose class defines neither `__str__` nor `__repr__`, returns the
    result of `describe`.
    """
    kind = type(value)
    is_address = kind.__str__ is object.__str__ and kind.__repr__ is object.__repr__
    if is_address or issubclass(kind, ModuleType):
        return describe(value)
    return remove_addresses(str.__str__(str(value)), value)


def remove_addresses(text: str, value: object) -> str:
    """Removes numbers that are, or may be, memory addresses from the text of an object."""
    # looks at each blank only once, as there may be very many
    text = re.sub(r"(?<!\s)\s+at 0x[0-9a-fA-F]+", "", text)
    text = re.sub(r"\b0[xX][0-9a-fA-F]{6,}", "0x…", text)
    if text.startswith("<") and text.endswith(">"):
        text = re.sub(r"\b\d{12,}\b", "…", text)  # <Thread(worker, started 140239187752512)>
    for address in (str(id(value)), f"{id(value):x}", f"{id(value):X}"):
        text = text.replace(address, "…")
    return text


def hide_in_tab(*names: str) -> Callable[[Any], list[str]]:
    """Creates a `__dir__` method that omits names, so that Tab offers what people use."""
    return lambda self: [name for name in object.__dir__(self) if name not in names]


def shown_value(value: object) -> str:
    """Formats a value as one short line, for an error message."""
    try:
        text = " ".join(remove_addresses(repr(value), value).split())
    except Exception:  # raised by the value's own method
        text = describe(value)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…"
